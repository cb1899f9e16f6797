// A long list whose items have their own heights. It scrolls with the page; only the items around
// the visible part are in the page. Short lists are there as a whole (for print and search).
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "../base/html.js";

const WHOLE = 40; // items
const MARGIN = 900; // pixels above and below

export function VirtualList({ count, estimate, render, handle, keyOf = (i) => i }) {
  const box = useRef(null);
  const heights = useRef(new Map());
  const [, setRound] = useState(0);
  const [view, setView] = useState([0, 2000]);
  const isWhole = count <= WHOLE;
  const tops = offsets(count, heights.current, estimate);
  const [first, last] = isWhole ? [0, count] : visibleItems(tops, view, count);

  const watch = useMemo(() => new ResizeObserver((entries) => {
    let shift = 0;
    let isNew = false;
    for (const { target } of entries) {
      const i = Number(target.dataset.item);
      const height = target.getBoundingClientRect().height;
      const old = heights.current.get(i) ?? estimate;
      if (!target.isConnected || Math.abs(old - height) < 1) continue;
      if (target.getBoundingClientRect().bottom < 0) shift += height - old;
      heights.current.set(i, height);
      isNew = true;
    }
    if (shift) scrollBy(0, shift);
    if (isNew) setRound((one) => one + 1);
  }), []);
  useLayoutEffect(() => {
    if (isWhole) return undefined;
    const look = () => {
      const top = box.current.getBoundingClientRect().top;
      setView(([from]) => {
        const now = Math.round(-top / 200) * 200;
        return now === from ? [from, innerHeight] : [now, innerHeight];
      });
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
      watch.disconnect();
    };
  }, [isWhole]);
  if (handle) {
    handle.current = {
      // Bring an item into view, and call `then` with its element.
      scrollTo(i, then) {
        reveal(box.current, () => offsets(count, heights.current, estimate)[i], i, then);
      },
    };
  }
  const items = [];
  for (let i = first; i < last; i++) {
    items.push(html`<div key=${keyOf(i)} data-item=${i} class="virtual-item" ref=${isWhole ? undefined : (element) => element && watch.observe(element)}>${render(i)}</div>`);
  }
  return html`<div ref=${box} class="virtual" style=${isWhole ? {} : { paddingTop: `${tops[first]}px`, paddingBottom: `${tops[count] - tops[last]}px` }}>${items}</div>`;
}

function offsets(count, heights, estimate) {
  const tops = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) tops[i + 1] = tops[i] + (heights.get(i) ?? estimate);
  return tops;
}

function visibleItems(tops, [from, size], count) {
  let first = 0;
  while (first < count - 1 && tops[first + 1] < from - MARGIN) first += 1;
  let last = first + 1;
  while (last < count && tops[last] < from + size + MARGIN) last += 1;
  return [first, last];
}

// Pixels of the sticky bars, with some air.
function headroom() {
  return 60 + (document.querySelector(".episode-bar")?.offsetHeight ?? 48);
}

function reveal(box, topOf, i, then, tries = 8) {
  const element = box.querySelector(`[data-item="${i}"]`);
  if (element) {
    const top = element.getBoundingClientRect().top - headroom();
    scrollBy({ top, behavior: "instant" });
    if (tries > 6 && Math.abs(top) > 2) requestAnimationFrame(() => reveal(box, topOf, i, then, tries - 1));
    else then?.(element);
    return;
  }
  scrollTo({ top: box.getBoundingClientRect().top + scrollY + topOf() - headroom(), behavior: "instant" });
  if (tries > 0) requestAnimationFrame(() => reveal(box, topOf, i, then, tries - 1));
}

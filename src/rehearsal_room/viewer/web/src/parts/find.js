// Find a text inside an episode. The browser's own search misses the turns that are not in the page,
// so the texts come from the data, and what is found is marked where it is shown.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { textsOf } from "../base/episode_texts.js";
import { number } from "../base/format.js";
import { html } from "../base/html.js";
import { useKeys } from "../base/keys.js";
import { route, setQuery } from "../base/route.js";
import { visible } from "../base/text.js";
import { Icon } from "./icon.js";

const MOST = 1000; // marks in one turn
const TRIES = 4; // to show a hit that is in a folded or shortened part

// `list.current.scrollTo(turn, then)` brings a turn into view.
export function Find({ data, list }) {
  const { query } = route.value;
  const text = query.get("find") ?? "";
  const field = useRef(null);
  const places = useMemo(() => placesOf(data, text), [data, text]);
  const total = places.reduce((sum, one) => sum + one.n, 0);
  const [at, setAt] = useState(null); // { place, hit }: the hit that is marked
  const [isMissing, setMissing] = useState(false);
  const show = (to) => {
    setAt(to);
    if (!to) return unmark();
    const { key, n } = places[to.place];
    const then = (root) => mark(root, text, to.hit, n, (count) => setMissing(count === 0));
    if (typeof key !== "number") return then(document.querySelector(key));
    setQuery({ turn: key + 1 });
    return list.current?.scrollTo(key, then);
  };
  const step = (by) => {
    if (total === 0) return;
    let { place, hit } = at ?? { place: by > 0 ? -1 : places.length, hit: 0 };
    hit += by;
    if (place < 0 || place >= places.length || hit < 0 || hit >= places[place].n) {
      place = (place + by + places.length) % places.length;
      hit = by > 0 ? 0 : places[place].n - 1;
    }
    show({ place, hit });
  };
  useEffect(() => {
    if (document.activeElement !== field.current) field.current.value = text;
    if (!text || total === 0) {
      show(null);
      return undefined;
    }
    const turn = Number(query.get("turn")) - 1;
    const place = Math.max(0, places.findIndex((one) => one.key === turn));
    const timer = setTimeout(() => show({ place, hit: 0 }), 60); // after the page has gone to its turn
    return () => clearTimeout(timer);
  }, [text, data.line.episode]);
  useKeys([["/", "Find in this episode", () => field.current?.focus()]]);
  const timer = useRef(null);
  useEffect(() => () => {
    clearTimeout(timer.current);
    unmark();
  }, []);
  const later = (event) => {
    const { value } = event.currentTarget;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ find: value }), 200);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      if (field.current.value === text) step(event.shiftKey ? -1 : 1);
      else setQuery({ find: field.current.value });
    }
    if (event.key === "Escape") setQuery({ find: "" });
  };
  const number_ = at ? places.slice(0, at.place).reduce((sum, one) => sum + one.n, 0) + at.hit + 1 : 0;
  return html`<search class="find row"><label class="field search"><span class="sr-only">Find in this episode</span><${Icon} name="search" />
      <input ref=${field} type="search" placeholder="Find in this episode" defaultValue=${text} maxlength="1000" onInput=${later} onKeyDown=${onKeyDown} /></label>
    ${text && html`<span class="dim figure" role="status">${total ? `${number(number_)} of ${number(total)}${isMissing ? ", in a part that is not laid out" : ""}` : "Not found"}</span>
      <button class="button icon-only" disabled=${!total} aria-label="Previous hit" title="Previous hit (Shift+Enter)" onClick=${() => step(-1)}><${Icon} name="up" /></button>
      <button class="button icon-only" disabled=${!total} aria-label="Next hit" title="Next hit (Enter)" onClick=${() => step(1)}><${Icon} name="down" /></button>`}</search>`;
}

const OUTSIDE = { instruction: ".task-text", verdict: '[aria-label="Verdict"]' };

// The parts of the page that have the text, in order: [{ key: turn or selector, n: how often }].
function placesOf(data, text) {
  if (!text) return [];
  const wanted = visible(text).toLowerCase();
  const found = new Map();
  for (const one of textsOf(data)) {
    const n = visible(one.text).toLowerCase().split(wanted).length - 1;
    if (n === 0) continue;
    const key = one.turn ?? OUTSIDE[one.place];
    if (key !== undefined) found.set(key, Math.min(MOST, (found.get(key) ?? 0) + n));
  }
  return [...found].map(([key, n]) => ({ key, n }));
}

// Mark the text in an element, and bring its `hit`-th place into view. Folded and shortened parts are
// opened while the element shows fewer places than the data has.
function mark(root, text, hit, n, then, tries = TRIES) {
  const ranges = root ? rangesIn(root, visible(text).toLowerCase()) : [];
  if (ranges.length <= hit && ranges.length < n && tries > 0 && root && unfold(root, tries)) {
    requestAnimationFrame(() => requestAnimationFrame(() => mark(root, text, hit, n, then, tries - 1)));
    return;
  }
  then(ranges.length);
  const current = ranges[Math.min(hit, ranges.length - 1)];
  unmark();
  if (!current) return;
  if (globalThis.CSS?.highlights) {
    CSS.highlights.set("found", new Highlight(...ranges));
    CSS.highlights.set("found-now", new Highlight(current));
  } else {
    getSelection().removeAllRanges();
    getSelection().addRange(current);
  }
  for (let one = current.startContainer.parentElement; one && one !== root; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  current.startContainer.parentElement.scrollIntoView({ block: "nearest" });
  const { top } = current.getBoundingClientRect();
  const bar = document.querySelector(".episode-bar")?.getBoundingClientRect().bottom ?? 0;
  if (top < bar + 10 || top > innerHeight - 80) scrollBy({ top: top - innerHeight / 3, behavior: "instant" });
}

function unmark() {
  globalThis.CSS?.highlights?.delete("found");
  globalThis.CSS?.highlights?.delete("found-now");
}

function rangesIn(root, wanted) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && found.length < MOST; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length || node.parentElement.closest(".sr-only, .turn-head, button")) continue;
    for (let at = text.indexOf(wanted); at >= 0 && found.length < MOST; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      found.push(range);
    }
  }
  return found;
}

// Press the buttons that show more; at the last try, those that show a result as its text.
function unfold(root, tries) {
  const more = [...root.querySelectorAll(tries > 1 ? ".show-all" : ".raw")].filter((one) => !/less|laid out/.test(one.textContent));
  for (const one of more) one.click();
  return more.length > 0 || tries > 1;
}

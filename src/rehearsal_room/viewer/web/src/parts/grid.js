// A table of any number of rows of which only the visible ones are in the page. It is an ARIA grid:
// arrows, Page Up/Down, Home and End move, Enter opens; Right and Left go to the links and boxes of
// the row and back. Columns that do not fit are left out, the
// least important first, so that the page never scrolls sideways.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../base/html.js";
import { useWidth } from "../base/hooks.js";
import { Icon } from "./icon.js";

const OVERSCAN = 6;
const NARROW = 520; // pixels
const MOST_PIXELS = 30_000_000; // browsers do not make taller elements

// columns: [{ key, title, width, narrow (width on a phone), grow, priority (0: always shown), sort,
// end, render(row, isNarrow) }].
// `rowAt(i)` gives a row or undefined (it is loading); `onRange(first, last)` asks for rows.
export function Grid({ label, columns, total, rowAt, onRange, sort, onSort, onOpen, rowHeight = 36, maxHeight = "72vh", rowClass, fit = true }) {
  const [box, width] = useWidth();
  const scroller = useRef(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [active, setActive] = useState(0);
  const isFocusWanted = useRef(false);
  const isNarrow = fit && width > 0 && width < NARROW;
  const sized = isNarrow ? columns.map((one) => (one.narrow ? { ...one, width: one.narrow, ...(one.narrow < 40 && { title: "", label: one.title }) } : one)) : columns;
  const shown = fit ? fitting(sized, width) : sized;
  const rows = Math.min(total, Math.floor(MOST_PIXELS / rowHeight));
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(rows, Math.ceil((top + height) / rowHeight) + OVERSCAN);
  const template = shown.map((one) => (one.grow ? `minmax(${one.width}px, ${one.grow}fr)` : `${one.width}px`)).join(" ");

  useLayoutEffect(() => {
    const element = scroller.current;
    const watch = new ResizeObserver(() => setHeight(element.clientHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  useEffect(() => onRange?.(first, last), [first, last, onRange]);
  // Before the next key comes: it acts on the row in focus.
  useLayoutEffect(() => {
    if (!isFocusWanted.current) return;
    scroller.current.querySelector(`[data-row="${active}"]`)?.focus();
    isFocusWanted.current = false;
  });

  const move = (to) => {
    const row = Math.max(0, Math.min(rows - 1, to));
    const element = scroller.current;
    const head = 34;
    if (row * rowHeight < element.scrollTop) element.scrollTop = row * rowHeight;
    const bottom = (row + 1) * rowHeight + head - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
    isFocusWanted.current = true;
    setActive(row);
    setTop(element.scrollTop);
  };
  const onKeyDown = (event) => {
    const page = Math.max(1, Math.floor(height / rowHeight) - 2);
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows - 1 };
    if (walk(event) || !event.target.matches("[data-row]")) return;
    if (event.key in steps) {
      event.preventDefault();
      move(steps[event.key]);
    } else if (event.key === "Enter" && onOpen && rowAt(active)) {
      event.preventDefault();
      onOpen(rowAt(active), active);
    }
  };
  const current = active >= first && active < last ? active : first; // one row can always be reached
  const minWidth = fit ? undefined : `${shown.reduce((sum, one) => sum + one.width + 12, 28)}px`;
  const lines = [];
  for (let i = first; i < last; i++) lines.push(i);
  return html`<div class="grid" ref=${box}>
    <div class="grid-scroll" ref=${scroller} role="grid" aria-label=${label} aria-rowcount=${rows + 1} aria-colcount=${shown.length}
      tabindex=${rows === 0 ? 0 : undefined} style=${{ maxHeight }} onScroll=${(event) => setTop(event.currentTarget.scrollTop)} onKeyDown=${onKeyDown}>
      <div role="row" aria-rowindex="1" class="grid-head" style=${{ gridTemplateColumns: template, minWidth }}>
        ${shown.map((one) => html`<${Head} column=${one} sort=${sort} onSort=${onSort} />`)}
      </div>
      <div role="rowgroup" class="grid-body" style=${{ height: `${rows * rowHeight}px`, minWidth }}>
        ${lines.map((i) => {
          const row = rowAt(i);
          return html`<div role="row" key=${i} data-row=${i} aria-rowindex=${i + 2} tabindex=${i === current ? 0 : -1}
            class=${`grid-row ${row ? (rowClass?.(row) ?? "") : "waiting"} ${onOpen ? "opens" : ""}`}
            style=${{ gridTemplateColumns: template, height: `${rowHeight}px`, transform: `translateY(${i * rowHeight}px)` }}
            onFocus=${() => setActive(i)} onClick=${(event) => open(event, row, i, onOpen)}>
            ${shown.map((one) => html`<div role="gridcell" class=${one.end ? "end" : ""}>${row ? one.render(row, isNarrow) : html`<span class="ghost"></span>`}</div>`)}
          </div>`;
        })}
      </div>
    </div>
  </div>`;
}

// Right and Left go through what can be used in a row; whether the key did so.
function walk(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1, Escape: -Infinity }[event.key];
  const row = event.target.closest("[data-row]");
  if (!by || !row || event.target.matches("select, input:not([type=checkbox])")) return false;
  const stops = [row, ...row.querySelectorAll("a, button, input, select")];
  const next = stops[Math.max(0, Math.min(stops.length - 1, stops.indexOf(event.target) + by))];
  if (next === event.target) return false;
  event.preventDefault();
  next.focus();
  return true;
}

function open(event, row, i, onOpen) {
  if (!onOpen || !row || event.defaultPrevented || event.target.closest("a, button, input")) return;
  if (getSelection()?.toString()) return;
  onOpen(row, i);
}

function Head({ column, sort, onSort }) {
  const direction = sort?.replace(/^-/, "") === column.sort && column.sort ? (sort.startsWith("-") ? "descending" : "ascending") : undefined;
  const end = column.end ? "end" : "";
  if (!column.sort || !onSort) {
    return html`<div role="columnheader" class=${end}>${column.title || html`<span class="sr-only">${column.label}</span>`}</div>`;
  }
  const next = direction === "descending" ? column.sort : `-${column.sort}`;
  return html`<div role="columnheader" class=${end} aria-sort=${direction ?? "none"}>
    <button class="sort" onClick=${() => onSort(next)} title=${`Sort by ${(column.title || column.label).toLowerCase()}`}>
      <span>${column.title || html`<span class="sr-only">${column.label}</span>`}</span>${direction && html`<${Icon} name=${direction === "ascending" ? "up" : "down"} />`}
    </button>
  </div>`;
}

// The columns that fit into a width, in their order.
function fitting(columns, width) {
  if (width === 0) return columns.filter((one) => !one.priority);
  let left = width;
  const chosen = new Set();
  for (const one of [...columns].sort((a, b) => (a.priority ?? 0) - (b.priority ?? 0))) {
    left -= one.width + 12;
    if (left < 0 && one.priority) break;
    chosen.add(one);
  }
  return columns.filter((one) => chosen.has(one));
}

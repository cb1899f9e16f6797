// Small parts that all pages use.
import { useState } from "preact/hooks";
import { labelOf, percent } from "../base/format.js";
import { html } from "../base/html.js";
import { Icon } from "./icon.js";

export function Label({ name, small, isShort }) {
  const { text, tone, icon } = labelOf(name);
  if (isShort) return html`<span class=${`label small short ${tone}`} title=${text}><${Icon} name=${icon} label=${text} /></span>`;
  return html`<span class=${`label ${tone} ${small ? "small" : ""}`}><${Icon} name=${icon} />${text}</span>`;
}

export function Tag({ children, tone = "" }) {
  return html`<span class=${`tag ${tone}`}>${children}</span>`;
}

// What stands in the place of data while it loads, is absent, or cannot be read.
export function Notice({ children, tone = "", role }) {
  return html`<div class=${`notice ${tone}`} role=${role}>${children}</div>`;
}

// Loading, an error, or the data's children: <Loaded of=${load}>${(data) => …}<//>.
export function Loaded({ of: { data, error, reload }, children }) {
  if (error) {
    return html`<${Notice} tone="bad" role="alert">
      <span>${error}</span><button class="button" onClick=${reload}>Try again</button>
    <//>`;
  }
  if (data === undefined) return html`<p class="loading" role="status">Loading…</p>`;
  return children(data);
}

// A share with its interval, as a line with a dot.
export function Interval({ value, lower, upper, tone = "accent" }) {
  if (value === null || value === undefined) return html`<span class="dim">–</span>`;
  const words = `${percent(value)}, 95% interval ${percent(lower)} to ${percent(upper)}`;
  return html`<span class="interval" role="img" aria-label=${words} title=${words}>
    <svg viewBox="0 0 100 10" preserveAspectRatio="none" class=${tone} aria-hidden="true">
      <line class="axis" x1="0" x2="100" y1="5" y2="5" />
      <line class="range" x1=${100 * lower} x2=${100 * upper} y1="5" y2="5" />
      <line class="point" x1=${100 * value} x2=${100 * value} y1="1" y2="9" />
    </svg>
  </span>`;
}

export function Meter({ value, most, tone = "accent" }) {
  const width = most > 0 ? `${Math.min(100, (100 * value) / most)}%` : "0%";
  return html`<span class="meter" aria-hidden="true"><span class=${tone} style=${{ width }}></span></span>`;
}

// [whether it was copied just now, the function that copies it]. `text` is a text, or a function
// that makes it when it is copied.
export function useCopy(text) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    const copied = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(copied);
    } catch {
      copyByHand(copied);
    }
    setDone(true);
    setTimeout(() => setDone(false), 1600);
  };
  return [isDone, copy];
}

export function Copy({ text, label = "Copy" }) {
  const [isDone, copy] = useCopy(text);
  return html`<button class="button" onClick=${copy}>
    <${Icon} name=${isDone ? "check" : "copy"} /><span aria-live="polite">${isDone ? "Copied" : label}</span>
  </button>`;
}

function copyByHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

// A command line with a button that copies it.
export function Command({ text }) {
  return html`<div class="command"><code tabindex="0" role="group" aria-label="Command">${text}</code><${Copy} text=${text} /></div>`;
}

// Figures in a row: [[name, value, hint, extra], …].
export function Figures({ items }) {
  return html`<dl class="figures">
    ${items.filter(Boolean).map(
      ([name, value, hint, extra]) =>
        html`<div><dt>${name}</dt><dd><span class="value">${value}</span>${hint && html`<span class="hint">${hint}</span>`}${extra}</dd></div>`,
    )}
  </dl>`;
}

// Links that look like tabs: each is a view with its own address.
export function Tabs({ label, items, current }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${items.filter(Boolean).map(
      ([name, text, to]) =>
        html`<a href=${to} aria-current=${name === current ? "page" : undefined}>${text}</a>`,
    )}
  </nav>`;
}

// Rows that are cut into pages of `size`; `render` gets the rows of the page.
export function Pages({ rows, size, noun = "rows", render }) {
  const [page, setPage] = useState(0);
  if (rows.length <= size) return render(rows, 0);
  const last = Math.ceil(rows.length / size) - 1;
  const at = Math.min(page, last);
  const from = at * size;
  return html`${render(rows.slice(from, from + size), from)}
    <div class="pages">
      <button class="button icon-only" disabled=${at === 0} onClick=${() => setPage(at - 1)} aria-label=${`Earlier ${noun}`}><${Icon} name="left" /></button>
      <span>${from + 1}–${Math.min(from + size, rows.length)} of ${rows.length} ${noun}</span>
      <button class="button icon-only" disabled=${at === last} onClick=${() => setPage(at + 1)} aria-label=${`Later ${noun}`}><${Icon} name="right" /></button>
    </div>`;
}

export function Fold({ summary, children, open }) {
  return html`<details class="fold" open=${open}><summary><${Icon} name="right" /><span>${summary}</span></summary><div>${children}</div></details>`;
}

// Rows as a table, and what changed in rows.
import { parts } from "../base/differing.js";
import { count } from "../base/format.js";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Pages, Tag } from "./basics.js";
import { Cell, Word } from "./texts.js";

const SHOWN = 12;
const PARTS = 60; // columns of a row, or parts of them
const ABSENT = html`<span class="dim">none</span>`;

// A result that is rows. `columns` are names.
export function RowTable({ columns, rows, label }) {
  return html`<${Pages} rows=${rows} size=${SHOWN} render=${(some) => html`
    <div class="scroll-x" tabindex="0" role="group" aria-label=${label}>
      <table class="rows">
        <thead><tr>${columns.map((name) => html`<th scope="col"><${Word} value=${name} /></th>`)}</tr></thead>
        <tbody>${some.map((row) => html`<tr>${row.map((value) => html`<td class=${kind(value)}><${Cell} value=${value} /></td>`)}</tr>`)}</tbody>
      </table>
    </div>`} />`;
}

const kind = (value) => (typeof value === "number" ? "figure" : "");
const WORDS = { new: "added", changed: "changed", deleted: "deleted" };
const wordOf = ({ before, after }) => (before ? (after ? "changed" : "deleted") : "new");

export const keyText = (key) => visible((key ?? []).map((one) => (one === null ? "null" : one)).join(", "));

// The rows that a call changed, before -> after.
export function Changes({ changes, title = true }) {
  return html`<div class="changes" role="group" aria-label="Changed rows">
    ${title && html`<p class="minor">${count(changes.length, "changed row")}</p>`}
    <${Pages} rows=${changes} size=${6} render=${(some) => some.map((one) => html`<${ChangeCard} change=${one} />`)} />
  </div>`;
}

export function ChangeCard({ change }) {
  const word = wordOf(change);
  return html`<div class=${`change ${word}`}>
    <div class="change-head">
      <${Word} value=${change.table} class="mono" /><span class="mono dim">${keyText(change.key)}</span><${Tag} tone=${word}>${WORDS[word]}<//>
    </div>
    ${word === "changed" ? html`<${Updated} change=${change} />` : html`<${Whole} row=${change.after ?? change.before} tone=${word} />`}
  </div>`;
}

function Updated({ change }) {
  const { before, after } = change;
  const names = change.columns?.length
    ? change.columns
    : Object.keys(after).filter((name) => before[name] !== after[name]);
  const found = names.flatMap((name) => parts(name, before[name], after[name]));
  return html`<table class="diff">
    <thead><tr><th scope="col">Column</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
    <tbody>${found.slice(0, PARTS).map(
      (one) => html`<tr>
        <th scope="row"><${Word} value=${one.name} /></th>
        <td class="was">${one.before === undefined ? ABSENT : html`<del><${Cell} value=${one.before} /></del>`}</td>
        <td class="is">${one.after === undefined ? ABSENT : html`<ins><${Cell} value=${one.after} /></ins>`}</td>
      </tr>`,
    )}</tbody>
  </table>${found.length > PARTS && html`<p class="dim">The first ${PARTS} of ${found.length} parts that differ.</p>`}`;
}

function Whole({ row, tone }) {
  return html`<table class="diff whole">
    <thead class="sr-only"><tr><th scope="col">Column</th><th scope="col">Value</th></tr></thead>
    <tbody>${Object.entries(row ?? {}).slice(0, 60).map(
      ([name, value]) => html`<tr><th scope="row"><${Word} value=${name} /></th><td class=${tone === "new" ? "is" : "was"}><${Cell} value=${value} /></td></tr>`,
    )}</tbody>
  </table>`;
}

// Rows in which two worlds differ: { table, key, a, b }.
export function Differences({ rows, names }) {
  if (!rows?.length) return html`<p class="dim">The worlds are the same.</p>`;
  return html`<${Pages} rows=${rows} size=${8} render=${(some) => some.map((one) => html`<${Difference} row=${one} names=${names} />`)} />`;
}

function Difference({ row: { table, key, a, b }, names }) {
  const columns = Object.keys(a ?? b ?? {}).filter(
    (name) => !a || !b || JSON.stringify(a[name]) !== JSON.stringify(b[name]),
  );
  const found = columns.flatMap((name) => parts(name, a?.[name], b?.[name]));
  const side = (row, value) => (row ? (value === undefined ? ABSENT : html`<${Cell} value=${value} />`) : html`<span class="dim">no such row</span>`);
  return html`<div class="change">
    <div class="change-head"><${Word} value=${table} class="mono" /><span class="mono dim">${keyText(key)}</span></div>
    <div class="scroll-x" tabindex="0" role="group" aria-label="Difference of the worlds"><table class="diff">
      <thead><tr><th scope="col">Column</th><th scope="col">${names[0]}</th><th scope="col">${names[1]}</th></tr></thead>
      <tbody>${found.slice(0, PARTS).map((one) => html`<tr><th scope="row"><${Word} value=${one.name} /></th><td>${side(a, one.before)}</td><td>${side(b, one.after)}</td></tr>`)}</tbody>
    </table></div>
  </div>`;
}

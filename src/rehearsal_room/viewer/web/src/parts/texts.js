// Texts of agents and worlds: isolated, with hidden characters shown, cut where they are long.
import { useState } from "preact/hooks";
import { number } from "../base/format.js";
import { html } from "../base/html.js";
import { cellText, prettyJson, visible } from "../base/text.js";
import { Picture, pictureOf } from "./picture.js";

const LONG = 1200; // characters that are shown at once
const LINES = 24;

// A short text in a line.
export function Word({ value, class: name = "" }) {
  return html`<bdi class=${name}>${visible(value ?? "")}</bdi>`;
}

// A text of any length, with its line breaks.
export function Passage({ value, class: name = "", most = LONG }) {
  const [isWhole, setWhole] = useState(false);
  const text = visible(value ?? "");
  const cut = isWhole ? text : shorten(text, most);
  return html`<div class=${`passage ${name}`} dir="auto">${cut}${
    text.length > cut.length || isWhole
      ? html`<button class="link show-all" onClick=${() => setWhole(!isWhole)}>
          ${isWhole ? "Show less" : `Show all ${number(text.length)} characters`}
        </button>`
      : null
  }</div>`;
}

function shorten(text, most) {
  if (text.length <= most && text.split("\n", LINES + 1).length <= LINES) return text;
  const lines = text.slice(0, most).split("\n").slice(0, LINES).join("\n");
  return lines.length === text.length ? text : `${lines}…`;
}

// One value of a row.
export function Cell({ value, most = 120 }) {
  if (value === null || value === undefined) return html`<span class="null">null</span>`;
  const text = cellText(value);
  const isNumber = typeof value === "number";
  return html`<bdi class=${isNumber ? "figure" : ""} title=${text.length > 24 ? text.slice(0, 2000) : undefined}
    >${text.length > most ? `${text.slice(0, most)}…` : text}</bdi>`;
}

const isNested = (value) => value !== null && typeof value === "object";
const DEEP = 4;
const MANY = 40;
const ROWS = 12;

// A JSON value laid out as names and values; deep and long ones are cut.
export function Json({ value, depth = 0 }) {
  const [isWhole, setWhole] = useState(false);
  const picture = pictureOf(value);
  if (picture) return html`<${Picture} src=${picture} />`;
  if (!isNested(value)) return html`<${Scalar} value=${value} />`;
  const entries = Object.entries(value);
  if (entries.length === 0) return html`<span class="null">${Array.isArray(value) ? "[ ]" : "{ }"}</span>`;
  if (isWhole) return html`<${Passage} class="mono" value=${prettyJson(value)} most=${4000} />`;
  const names = columnsOf(value);
  if (names) return html`<${Table} names=${names} rows=${value} />`;
  if (depth >= DEEP) {
    return html`<button class="link" onClick=${() => setWhole(true)}>
      Show ${Array.isArray(value) ? `${number(entries.length)} items` : `${number(entries.length)} fields`}
    </button>`;
  }
  return html`<dl class="json">
    ${entries.slice(0, MANY).map(
      ([name, one]) => html`<div class=${isNested(one) ? "nested" : ""}>
        <dt><${Word} value=${name} /></dt><dd><${Json} value=${one} depth=${depth + 1} /></dd>
      </div>`,
    )}
    ${entries.length > MANY &&
    html`<div><dt></dt><dd><button class="link" onClick=${() => setWhole(true)}>Show all ${number(entries.length)}</button></dd></div>`}
  </dl>`;
}

// The columns of a list of flat objects that are alike; null: it is something else.
function columnsOf(value) {
  if (!Array.isArray(value) || !value.every((one) => isNested(one) && !Array.isArray(one))) return null;
  const names = [...new Set(value.slice(0, 50).flatMap(Object.keys))];
  const isFlat = value.every((one) => !pictureOf(one) && Object.values(one).every((cell) => !isNested(cell) && !pictureOf(cell)));
  return isFlat && names.length > 0 && names.length <= 14 ? names : null;
}

function Table({ names, rows }) {
  const [page, setPage] = useState(0);
  const some = rows.slice(page * ROWS, (page + 1) * ROWS);
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label="Rows"><table class="rows">
      <thead><tr>${names.map((name) => html`<th scope="col"><${Word} value=${name} /></th>`)}</tr></thead>
      <tbody>${some.map((row) => html`<tr>${names.map((name) => html`<td class=${typeof row[name] === "number" ? "figure" : ""}>${name in row ? html`<${Cell} value=${row[name]} most=${300} />` : ""}</td>`)}</tr>`)}</tbody>
    </table></div>${rows.length > ROWS && html`<button class="link" onClick=${() => setPage((page + 1) * ROWS < rows.length ? page + 1 : 0)}>Rows ${page * ROWS + 1} to ${page * ROWS + some.length} of ${number(rows.length)}: show the next</button>`}`;
}

function Scalar({ value }) {
  if (typeof value === "string") return html`<${Passage} value=${value} class="inline" most=${600} />`;
  return html`<${Cell} value=${value} />`;
}

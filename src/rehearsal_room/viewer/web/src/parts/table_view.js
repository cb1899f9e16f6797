// The rows of one table of a world, with what differs from the start and from the turn before.
import { useState } from "preact/hooks";
import { html } from "../base/html.js";
import { Notice, Tag } from "./basics.js";
import { Grid } from "./grid.js";
import { usePagedRows } from "./paged_rows.js";
import { keyText } from "./rows.js";
import { Cell, Word } from "./texts.js";

const WORDS = { same: "as at the start", new: "added", changed: "changed", deleted: "deleted" };

// `path` is asked with offset and limit; `hasHistory`: its rows have `start`, `before` and `was`.
export function TableView({ path, name, hasHistory, maxHeight = "60vh" }) {
  const rows = usePagedRows(path);
  const [chosen, setChosen] = useState(null);
  const columns = rows.extra?.columns;
  if (rows.error) return html`<${Notice} tone="bad" role="alert">${rows.error}<//>`;
  if (!columns) return html`<p class="loading" role="status">Loading…</p>`;
  const picked = chosen && chosen.path === path ? chosen.row : null;
  return html`
    ${rows.total === 0 ? html`<${Notice}>No rows.<//>` : html`<${Grid} label=${`Table ${name}`} fit=${false} total=${rows.total} rowAt=${rows.rowAt} onRange=${rows.onRange} rowHeight=${30} maxHeight=${maxHeight}
      columns=${gridColumns(columns, rows.extra.rows, hasHistory)} onOpen=${(row) => setChosen({ path, row })} rowClass=${(row) => (hasHistory ? `state ${row.start} ${row.before !== "same" ? "now" : ""}` : "")} />`}
    ${picked && html`<${RowDetail} row=${picked} columns=${columns} name=${name} hasHistory=${hasHistory} />`}`;
}

const valuesOf = (row) => row.values ?? row;

function gridColumns(columns, sample, hasHistory) {
  const isFigure = (j) => sample.every((row) => typeof (valuesOf(row)[j] ?? 0) === "number") && sample.some((row) => valuesOf(row)[j] !== null);
  const found = columns.map((column, j) => ({
    key: column.name,
    title: column.name,
    width: widthOf(column.name, sample, j),
    grow: isFigure(j) ? 0 : 1,
    end: isFigure(j),
    render: (row) => html`<span class=${row.was && column.name in row.was ? "cell-changed" : ""}><${Cell} value=${valuesOf(row)[j]} most=${80} /></span>`,
  }));
  if (!hasHistory) return found;
  const state = { key: "state", title: "", label: "Difference", width: sample.some((row) => row.start !== "same") ? 66 : 4, render: (row) => (row.start === "same" ? null : html`<${Tag} tone=${row.start}>${WORDS[row.start]}<//>`) };
  return [state, ...found];
}

function widthOf(name, sample, j) {
  const longest = Math.max(name.length, ...sample.slice(0, 40).map((row) => String(valuesOf(row)[j] ?? "null").length));
  return Math.max(56, Math.min(260, longest * 7.6 + 14));
}

function RowDetail({ row, columns, name, hasHistory }) {
  const { was } = row;
  return html`<section class="card row-detail" aria-label="Chosen row"><h2><${Word} class="mono" value=${name} /> <span class="mono dim">${keyText(row.key)}</span>
    ${hasHistory && html` <${Tag} tone=${row.start}>${WORDS[row.start]}<//>`}</h2>
    <table class="diff"><thead><tr><th scope="col">Column</th>${was && html`<th scope="col">At the start</th>`}<th scope="col">${was ? "Now" : "Value"}</th></tr></thead><tbody>
    ${columns.map((column, j) => html`<tr><th scope="row"><${Word} value=${column.name} /> <span class="dim">${column.pk ? "key" : ""}${column.references ? ` → ${reference(column.references)}` : ""}</span></th>
      ${was && html`<td>${column.name in was ? html`<del><${Cell} value=${was[column.name]} most=${2000} /></del>` : ""}</td>`}
      <td>${was && column.name in was ? html`<ins><${Cell} value=${valuesOf(row)[j]} most=${2000} /></ins>` : html`<${Cell} value=${valuesOf(row)[j]} most=${2000} />`}</td></tr>`)}
    </tbody></table></section>`;
}

const reference = (value) => (typeof value === "string" ? value : `${value.table ?? ""}${value.column ? `.${value.column}` : ""}`);

// A world's tables with counts and differences, the rows of one, and a box for SQL.
import { useState } from "preact/hooks";
import { count, number, seconds } from "../base/format.js";
import { html } from "../base/html.js";
import { post } from "../base/source.js";
import { canDo } from "../base/state.js";
import { visible } from "../base/text.js";
import { Notice } from "./basics.js";
import { RowTable } from "./rows.js";
import { TableView } from "./table_view.js";
import { Word } from "./texts.js";

const ONLY = [["all", "All rows"], ["start", "Changed since the start"], ["before", "Changed in this turn"]];

// `base` is the path of the world; `query` its words (a turn, or a version that grows with calls).
export function WorldTables({ world, base, query, table, onTable, only, onOnly }) {
  const name = world.tables.some((one) => one.name === table) ? table : firstTable(world);
  const hasChanges = (one) => sum(one.from_start) + sum(one.from_before) > 0;
  const chosen = world.tables.find((one) => one.name === name);
  const counts = { all: chosen?.rows ?? 0, start: sum(chosen?.from_start), before: sum(chosen?.from_before) };
  const path = `${base}/${encodeURIComponent(name)}?${query}&only=${only}`;
  return html`<div class="with-side">
    <nav class="side tables" aria-label="Tables"><ul>${world.tables.map((one) => html`<li><button aria-current=${one.name === name ? "true" : undefined} class=${hasChanges(one) ? "touched" : ""} onClick=${() => onTable(one.name)}>
      <span class="mono ellipsis"><${Word} value=${one.name} /></span><span class="figure dim">${number(one.rows)}</span><${Counts} of=${one.from_start} now=${sum(one.from_before)} /></button></li>`)}</ul>
      <label class="field tables-pick"><span>Table</span><select value=${name} onChange=${(event) => onTable(event.currentTarget.value)}>${world.tables.map((one) => html`<option value=${one.name}>${visible(one.name)} (${one.rows}${sum(one.from_start) ? `, ${sum(one.from_start)} changed` : ""})</option>`)}</select></label>
    </nav>
    <section class="stretch" aria-label=${`Table ${name}`}>
      <div class="bar"><h2 class="mono"><${Word} value=${name} /></h2><span class="spring"></span>
        <div class="chips flat" role="group" aria-label="Show rows">${ONLY.map(([key, text]) => html`<button class="chip" aria-pressed=${only === key} onClick=${() => onOnly(key)}>${text} <b class="figure">${number(counts[key])}</b></button>`)}</div></div>
      <${TableView} key=${name} path=${path} name=${name} hasHistory />
    </section>
  </div>`;
}

const sum = (counts) => (counts ? counts.inserted + counts.updated + counts.deleted : 0);

function firstTable({ tables }) {
  const touched = tables.find((one) => sum(one.from_before)) ?? tables.find((one) => sum(one.from_start)) ?? tables[0];
  return touched?.name ?? "";
}

function Counts({ of, now }) {
  if (!sum(of)) return html`<span></span>`;
  const words = `${of.inserted} added, ${of.updated} changed, ${of.deleted} deleted since the start${now ? `; ${now} in this turn` : ""}`;
  return html`<span class="counts" title=${words}><span class="sr-only">${words}</span><span aria-hidden="true">${of.inserted > 0 && html`<b class="good-text">+${of.inserted}</b>`}${of.updated > 0 && html`<b class="warn-text">~${of.updated}</b>`}${of.deleted > 0 && html`<b class="bad-text">−${of.deleted}</b>`}${now > 0 && html`<i class="now-dot"></i>`}</span></span>`;
}

// A box for a read-only query. `path` is where it is sent, with `more` in the body.
export function Sql({ path, more = {}, table }) {
  const [text, setText] = useState(`SELECT * FROM ${table ? `"${table}"` : "sqlite_schema"} LIMIT 20`);
  const [state, setState] = useState({});
  if (!canDo("sql")) return html`<p class="dim">SQL needs <code>rehearse view</code>: an exported file has no database.</p>`;
  const run = async () => {
    setState({ isBusy: true });
    try {
      setState({ data: await post(path, { ...more, sql: text }) });
    } catch (error) {
      setState({ error: error.message });
    }
  };
  const onKey = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  };
  return html`<section class="card sql" aria-label="SQL"><h2>SQL <span class="dim">read-only, on this state</span></h2>
    <label class="field"><span class="sr-only">Query</span><textarea class="mono" spellcheck="false" value=${text} onInput=${(event) => setText(event.currentTarget.value)} onKeyDown=${onKey}></textarea></label>
    <div class="bar"><button class="button primary" disabled=${state.isBusy} onClick=${run}>Run query</button><span class="dim">Ctrl + Enter</span>
      ${state.data && html`<span class="dim" role="status">${count(state.data.rows.length, "row")}${state.data.truncated ? " (cut)" : ""} in ${seconds(state.data.seconds)}</span>`}</div>
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    ${state.data && html`<${RowTable} columns=${state.data.columns} rows=${state.data.rows} label="Rows of the query" />`}
  </section>`;
}

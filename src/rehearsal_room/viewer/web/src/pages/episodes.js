// The table of a run's episodes, with filters. All of it stands in the URL.
import { useEffect, useRef, useState } from "preact/hooks";
import { count, decimal, labelName, labelOf, number, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useKeys } from "../base/keys.js";
import { episodeHref, go, route, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { Label, Notice } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { usePagedRows } from "../parts/paged_rows.js";
import { Word } from "../parts/texts.js";
import { Facets } from "./facets.js";

export const FILTERS = ["label", "ending", "error", "failure", "scenario", "task", "group", "tag", "table", "tool", "failed_call", "min_reward", "max_reward", "min_turns", "max_turns", "text"];
const NAMES = { error: "Error", failure: "Went wrong", table: "Changed", tool: "Called", failed_call: "Call failed", min_reward: "Reward ≥", max_reward: "Reward ≤", min_turns: "Turns ≥", max_turns: "Turns ≤", text: "Text" };

export function Episodes({ run, summary, onRows, onFirst }) {
  const { query } = route.value;
  const sort = query.get("sort") ?? "episode";
  const asked = new URLSearchParams();
  for (const name of FILTERS) for (const value of query.getAll(name)) asked.append(name, value);
  const isFiltered = asked.size > 0;
  asked.append("sort", sort);
  const rows = usePagedRows(`${api`/api/runs/${run}/episodes`}?${asked}`);
  const [waiting, setWaiting] = useState(0); // episodes that are new and not in the table yet
  const search = useRef(null);
  const seen = useRef(0);
  useEffect(() => {
    onRows.current = (event) => {
      const fresh = rows.patch(event.rows ?? [], "episode");
      if (event.isOver) return rows.refresh();
      // In the order of their numbers, new episodes come at the end: nothing moves.
      if (sort === "episode" && !isFiltered) {
        if (event.episodes !== seen.current) rows.refresh();
      } else setWaiting((now) => (fresh ? now + Math.max(0, event.episodes - (seen.current || event.episodes)) : now));
      seen.current = event.episodes;
      return undefined;
    };
    return () => {
      onRows.current = null;
    };
  });
  useEffect(() => {
    if (!rows.isLoading) onFirst();
  }, [rows.isLoading]);
  useKeys([["/", "Search the episodes", () => search.current?.focus()]]);
  const open = (row) => go(episodeHref(run, row.episode));
  return html`<div class="with-side">
    <aside class="side" aria-label="Filters">${summary && html`<${Facets} summary=${summary} />`}</aside>
    <section class="stretch" aria-label="Episodes">
      <div class="bar">
        <label class="field search grow"><span class="sr-only">Search the text of the episodes</span><${Icon} name="search" />
          <${SearchField} field=${search} /></label>
        <span class="dim" role="status">${rows.isLoading ? "Searching…" : count(rows.total, "episode")}</span>
        ${waiting > 0 && html`<button class="button primary" onClick=${() => {
          setWaiting(0);
          rows.refresh();
        }}>${count(waiting, "new one")}: show</button>`}
      </div>
      <${Chips} />
      ${rows.error
        ? html`<${Notice} tone="bad" role="alert">${rows.error}<//>`
        : rows.total === 0 && !rows.isLoading
          ? html`<${Notice}>${isFiltered ? "No episode matches these filters." : "No episode has started yet."}<//>`
          : html`<${Grid} label="Episodes" columns=${COLUMNS(run)} total=${rows.total} rowAt=${rows.rowAt} onRange=${rows.onRange} sort=${sort} onSort=${(next) => setQuery({ sort: next })} onOpen=${open} rowClass=${(row) => (row.ending ? "" : "live")} />`}
    </section>
  </div>`;
}

function SearchField({ field }) {
  const { query } = route.value;
  const timer = useRef(null);
  const later = (event) => {
    const text = event.currentTarget.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ text }), 200);
  };
  return html`<input ref=${field} type="search" placeholder='Search texts, calls, results: refund "gift card"' defaultValue=${query.get("text") ?? ""} onInput=${later} />`;
}

// The filters in force; a click takes one away.
function Chips() {
  const { query } = route.value;
  const found = FILTERS.flatMap((name) => query.getAll(name).map((value) => [name, value]));
  if (found.length === 0) return null;
  const without = (name, value) => setQuery({ [name]: query.getAll(name).filter((one) => one !== value) });
  return html`<div class="chips" role="group" aria-label="Filters in force">
    ${found.map(([name, value]) => html`<button class="chip on" onClick=${() => without(name, value)}>
      <span class="sr-only">Remove the filter</span><span>${NAMES[name] ?? words(name)}</span> <b><${Word} value=${name === "label" ? labelOf(value).text : ["failure", "error", "ending"].includes(name) ? words(value) : value} /></b><${Icon} name="close" /></button>`)}
    <button class="link" onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, []])))}>Remove all</button>
  </div>`;
}

const figure = (value) => html`<span class="figure">${value}</span>`;

const COLUMNS = (run) => [
  { key: "episode", title: "Episode", width: 84, narrow: 66, sort: "episode", render: (row) => html`<a class="mono" tabindex="-1" href=${episodeHref(run, row.episode)}>${row.episode}</a>` },
  { key: "label", title: "Label", width: 138, narrow: 28, sort: "label", render: (row, isNarrow) => html`<${Label} name=${labelName(row)} small isShort=${isNarrow} />` },
  { key: "task", title: "Task", width: 190, narrow: 80, grow: 3, sort: "task", render: (row) => html`<span class="ellipsis"><${Word} value=${row.task} class="strong" /> <span class="dim"><${Word} value=${row.scenario} /></span></span>` },
  { key: "reward", title: "Reward", width: 66, priority: 2, end: true, sort: "reward", render: (row) => figure(decimal(row.reward)) },
  { key: "turns", title: "Turns", width: 58, priority: 3, end: true, sort: "turns", render: (row) => figure(number(row.turns)) },
  { key: "calls", title: "Calls", width: 54, priority: 6, end: true, sort: "calls", render: (row) => figure(number(row.calls)) },
  { key: "errors", title: "Errors", width: 60, priority: 4, end: true, sort: "errors", render: (row) => html`<span class=${`figure ${row.errors ? "bad-text" : "dim"}`}>${row.errors}</span>` },
  { key: "changed", title: "Changed tables", width: 150, grow: 2, priority: 5, render: (row) => html`<span class="ellipsis mono dim"><${Word} value=${row.changed.join(", ") || "–"} /></span>` },
  { key: "ending", title: "Ending", width: 92, priority: 8, sort: "ending", render: (row) => html`<span class="dim">${row.ending ? words(row.ending) : "Live"}</span>` },
  { key: "seconds", title: "Took", width: 72, priority: 7, end: true, sort: "seconds", render: (row) => figure(seconds(row.seconds)) },
  { key: "tokens", title: "Tokens", width: 76, priority: 9, end: true, sort: "tokens", render: (row) => figure(number(tokensOf(row))) },
];

const tokensOf = (row) => (typeof row.tokens === "number" || !row.tokens ? row.tokens : row.tokens.prompt + row.tokens.completion);

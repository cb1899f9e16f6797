// The page that a run opens on: reasons × tasks. One table of tasks, by world, tag or kind where that
// is asked for; each cell leads to its episodes. Below it stands why they failed.
import { useEffect, useRef } from "preact/hooks";
import { count, dollars, isNumber, number, percent, seconds, sentence, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { go, href, listHref, route, runHref, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { Interval, Notice } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { usePagedRows } from "../parts/paged_rows.js";
import { Word } from "../parts/texts.js";
import { Reasons } from "./reasons.js";

const TABLES = { task: "Tasks", world: "Worlds", tag: "Tags", kind: "Kinds of failure" };
const NOUNS = { task: ["task"], world: ["world"], tag: ["tag"], kind: ["kind of failure", "kinds of failure"] };
const NARROWED = { scenario: "World", tag: "Tag", failure: "Went wrong" };

export function Tasks({ run, summary, onFirst }) {
  const { query } = route.value;
  const by = query.get("by") ?? "task";
  const sort = query.get("sort") ?? (by === "kind" ? "-tries" : "rate");
  const asked = new URLSearchParams({ by, sort });
  for (const name of [...Object.keys(NARROWED), "name"]) for (const value of query.getAll(name)) asked.append(name, value);
  const rows = usePagedRows(`${api`/api/runs/${run}/tasks`}?${asked}`);
  const reasons = useLoad(rows.isLoading && rows.total === 0 ? null : api`/api/runs/${run}/reasons`);
  const search = useRef(null);
  const before = useRef(summary);
  useEffect(() => {
    if (!rows.isLoading) onFirst();
  }, [rows.isLoading]);
  useEffect(() => {
    if (before.current && before.current !== summary) {
      rows.refresh();
      reasons.reload();
    }
    before.current = summary;
  }, [summary]);
  useKeys([["/", "Search the names", () => search.current?.focus()]]);
  const isNarrowed = [...asked.keys()].length > 2;
  return html`<section aria-label="Tasks">
    <div class="bar">
      <div class="chips flat" role="group" aria-label="Rows of the table">${Object.entries(TABLES).map(([name, text]) => html`<button class="chip" aria-pressed=${by === name} onClick=${() => setQuery({ by: name, sort: "" })}>${text}</button>`)}</div>
      <label class="field search"><span class="sr-only">Search the names</span><${Icon} name="search" />
        <input ref=${search} type="search" placeholder="Part of a name" value=${query.get("name") ?? ""} onInput=${(event) => setQuery({ name: event.currentTarget.value })} /></label>
      <span class="dim" role="status">${rows.isLoading ? "Counting…" : count(rows.total, ...NOUNS[by])}</span>
    </div>
    <${Narrowed} />
    ${rows.error
      ? html`<${Notice} tone="bad" role="alert">${rows.error}<//>`
      : rows.total === 0 && !rows.isLoading
        ? html`<${Notice}>${isNarrowed ? "Nothing has these names." : by === "kind" ? "No episode failed." : by === "tag" ? "No task has a tag." : "No episode has started yet."}<//>`
        : html`<${Grid} label=${TABLES[by]} columns=${columns(run, by, summary)} total=${rows.total} rowAt=${rows.rowAt} onRange=${rows.onRange} rowHeight=${isNumber(rows.rowAt(0)?.share) ? 58 : 44} maxHeight="52vh"
            sort=${sort} onSort=${(next) => setQuery({ sort: next })} onOpen=${(row) => go(nameHref(run, by, row))} />`}
    ${by === "kind" && html`<p class="dim below">The share is that of the judged episodes; one may have several kinds.</p>`}
    ${rows.extra?.about && html`<p class="dim below">${sentence(rows.extra.about)}</p>`}
  </section>
  <${Reasons} run=${run} load=${reasons} />`;
}

// What the table of tasks is narrowed to; a click takes one away.
function Narrowed() {
  const { query } = route.value;
  const found = Object.keys(NARROWED).flatMap((name) => query.getAll(name).map((value) => [name, value]));
  if (found.length === 0) return null;
  return html`<div class="chips" role="group" aria-label="Only tasks of">${found.map(([name, value]) => html`<button class="chip on" onClick=${() => setQuery({ [name]: query.getAll(name).filter((one) => one !== value) })}>
    <span class="sr-only">Remove</span><span>${NARROWED[name]}</span> <b><${Word} value=${name === "failure" ? words(value) : value} /></b><${Icon} name="close" /></button>`)}</div>`;
}

// The filter of a row's episodes, and the place that its name leads to.
const FILTERS = { task: (row) => ({ scenario: row.scenario, task: row.name }), world: (row) => ({ scenario: row.name }), tag: (row) => ({ tag: row.name }), kind: (row) => ({ failure: row.name }) };

function nameHref(run, by, row) {
  if (by !== "task") return href(["run", run, "tasks"], { by: "task", ...FILTERS[by](row) });
  return row.group ? href(["run", run, "group", row.group]) : listHref(run, FILTERS.task(row));
}

function columns(run, by, summary) {
  const filter = (row, more = {}) => listHref(run, { ...FILTERS[by](row), ...more });
  const cell = (text, to, more = "") => html`<a class=${`cell-link figure ${more}`} tabindex="-1" href=${to}>${text}</a>`;
  const hasTokens = !summary || (summary.line.tokens?.prompt ?? 0) + (summary.line.tokens?.completion ?? 0) > 0;
  const name = (row) => (by === "kind" ? words(row.name) : row.name);
  const found = [
    { key: "name", title: { task: "Task", world: "World", tag: "Tag", kind: "Kind" }[by], width: 150, narrow: 110, grow: 3, sort: "name", render: (row) => html`<span class="stack"><a class="strong ellipsis" tabindex="-1" href=${nameHref(run, by, row)} title=${name(row)}><${Word} value=${name(row)} /></a>
      ${by === "task" ? row.scenario !== row.name && html`<a class="dim ellipsis" tabindex="-1" href=${listHref(run, { scenario: row.scenario })}><${Word} value=${row.scenario} /></a>` : html`<span class="dim">${count(row.tasks, "task")}</span>`}</span>` },
    { key: "rate", title: by === "kind" ? "Share" : "Completed", width: 150, narrow: 112, sort: "rate", render: (row) => html`<${Rate} row=${row} to=${by === "kind" ? filter(row) : filter(row, { label: "completed" })} />` },
    { key: "tries", title: by === "task" ? "Tries" : "Episodes", width: by === "task" ? 56 : 72, priority: 2, end: true, sort: "tries", render: (row) => cell(number(row.tries), filter(row)) },
    { key: "kinds", title: by === "kind" ? "Together with" : "What went wrong", width: 190, priority: 1, grow: 3, sort: "kinds", render: (row) => html`<${Kinds} row=${row} filter=${filter} />` },
    { key: "turns", title: "Turns", width: 58, priority: 3, end: true, sort: "turns", render: (row) => cell(row.turns.toFixed(1), filter(row, { sort: "-turns" })) },
    hasTokens && { key: "tokens", title: "Tokens", width: 70, priority: 4, end: true, sort: "tokens", render: (row) => cell(number(row.tokens), filter(row, { sort: "-tokens" })) },
    hasTokens && { key: "cost", title: "Cost", width: 66, priority: 6, end: true, sort: "cost", render: (row) => cell(dollars(row.cost_usd), filter(row, { sort: "-tokens" })) },
    { key: "seconds", title: "Took", width: 70, priority: 5, end: true, sort: "seconds", render: (row) => cell(seconds(row.seconds), filter(row, { sort: "-seconds" })) },
    by === "task" && { key: "tags", title: "Tags", width: 140, priority: 7, grow: 2, render: (row) => html`<span class="links">${row.tags.map((tag) => html`<a tabindex="-1" href=${listHref(run, { tag })}><${Word} value=${tag} /></a>`)}</span>` },
  ];
  return found.filter(Boolean);
}

function Rate({ row, to }) {
  if (!row.rate) return html`<span class="dim">no verdict</span>`;
  const { value, lower, upper } = row.rate;
  return html`<span class="stack"><a class="cell-link" tabindex="-1" href=${to}><b class="figure">${percent(value, 0)}</b> <span class="dim figure">${percent(lower, 0)} to ${percent(upper, 0)}</span></a>${isNumber(row.share) && html`<span class="dim figure">share ${percent(row.share, 0)}</span>`}<${Interval} ...${row.rate} /></span>`;
}

const SHOWN = 4; // kinds in a cell

function Kinds({ row, filter }) {
  if (row.kinds.length === 0) return html`<span class="dim">–</span>`;
  return html`<span class="links kinds" title=${row.kinds.map((one) => `${words(one.kind)} ${one.n}`).join(", ")}>${row.kinds.slice(0, SHOWN).map((one) => html`<a tabindex="-1" class="nowrap" href=${filter(row, { failure: one.kind })}>${words(one.kind)} <b class="figure">${number(one.n)}</b></a>`)}
    ${row.kinds.length > SHOWN && html`<span class="dim">+${row.kinds.length - SHOWN}</span>`}</span>`;
}

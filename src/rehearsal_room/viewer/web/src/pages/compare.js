// Two runs, paired by task: what the second does better, worse, the same.
import { count, percent, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { episodeHref, href, route, runHref, setQuery } from "../base/route.js";
import { Loaded, Notice, Tag } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Word } from "../parts/texts.js";

const points = (value) => `${value >= 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)}`;
const TONES = { gained: "good", lost: "bad", same: "" };

export function Compare() {
  useTitle("Compare");
  const { query } = route.value;
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const runs = useLoad("/api/runs");
  const load = useLoad(`/api/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  const name = (id) => runs.data?.runs.find((run) => run.id === id)?.name ?? id;
  return html`
    <nav class="crumbs" aria-label="Path"><a href=${href(["runs"])}>Runs</a></nav>
    <div class="page-head"><h1>Compare</h1><span class="spring"></span>
      <button class="button" onClick=${() => setQuery({ a: b, b: a })}>Exchange A and B</button></div>
    <p class="lead"><b>A</b> <a href=${runHref(a)}><${Word} value=${name(a)} /></a> <span class="dim">against</span> <b>B</b> <a href=${runHref(b)}><${Word} value=${name(b)} /></a></p>
    <${Loaded} of=${load}>${(found) => html`<${Result} found=${found} a=${a} b=${b} />`}<//>`;
}

function Result({ found, a, b }) {
  const { query } = route.value;
  const only = query.get("change") ?? "";
  const rows = found.rows.filter((row) => !only || row.change === only);
  const [low, high] = found.interval ?? [null, null];
  const number = (change) => found.rows.filter((row) => row.change === change).length;
  return html`
    <section class="card verdict-line" aria-label="Result">
      <p class="big">${words(found.verdict ?? "")}</p>
      <p><b class="figure">${points(found.delta)}</b> points for B, 95% interval ${points(low)} to ${points(high)}, p = ${found.p?.toPrecision(2)}</p>
      <${Difference} delta=${found.delta} low=${low} high=${high} />
      <p class="dim">${count(found.tasks, "shared task")}, ${found.paired} of them paired by seed${found.left_out ? `; ${count(found.left_out, "task")} only in one of the runs` : ""}${found.unjudged ? `; ${count(found.unjudged, "episode")} without a verdict: whatever they had been, ${points(found.bounds[0])} to ${points(found.bounds[1])}` : ""}.</p>
      ${found.tasks < found.least && html`<p class="dim">Inconclusive: ${count(found.tasks, "shared task")} cannot show a difference, whatever it is; ${found.least} would do.</p>`}
    </section>
    ${found.differs.length > 0 && html`<section class="card verdict-line" aria-label="What else differs"><h2>What else differs</h2>
      <ul>${found.differs.map((line) => html`<li><${Word} value=${line} /></li>`)}</ul></section>`}
    <div class="chips" role="group" aria-label="Show tasks">
      ${["", "gained", "lost", "same", "left out"].map((change) => html`<button class="chip" aria-pressed=${only === change} onClick=${() => setQuery({ change })}>
        ${change ? { gained: "B does better", lost: "A does better", same: "Same", "left out": "Not compared" }[change] : "All tasks"} <b>${change ? number(change) : found.rows.length}</b></button>`)}
    </div>
    ${rows.length === 0 ? html`<${Notice}>No task is of this kind.<//>` : html`<${Grid} label="Tasks" total=${rows.length} rowAt=${(i) => rows[i]} rowHeight=${44} columns=${[
      { key: "task", title: "Task", width: 130, narrow: 90, grow: 3, render: (row) => html`<span class="stack"><${Word} value=${row.task} class="strong" /><span class="dim"><${Word} value=${row.scenario} /></span></span>` },
      { key: "change", title: "Change", width: 74, narrow: 60, render: (row) => html`<${Tag} tone=${TONES[row.change]}>${words(row.change)}<//>` },
      { key: "a", title: "A", width: 64, narrow: 50, end: true, render: (row) => html`<${Side} side=${row.a} />` },
      { key: "b", title: "B", width: 64, narrow: 50, end: true, render: (row) => html`<${Side} side=${row.b} />` },
      { key: "ea", title: "Episodes of A", width: 190, grow: 1, priority: 2, render: (row) => html`<${Links} run=${a} episodes=${row.episodes_a} />` },
      { key: "eb", title: "Episodes of B", width: 190, grow: 1, priority: 2, render: (row) => html`<${Links} run=${b} episodes=${row.episodes_b} />` },
    ]} />`}`;
}

// A task that the run does not have has no side.
const Side = ({ side }) => side === null ? html`<span class="dim">–</span>` : html`<span class="stack end"><b class="figure">${percent(side.mean, 0)}</b><span class="dim figure">${side.completed} of ${side.n}</span></span>`;

function Links({ run, episodes }) {
  return html`<span class="links">${episodes.slice(0, 3).map((one) => html`<a class="mono" href=${episodeHref(run, one)}>${one}</a>`)}${episodes.length > 3 && html`<span class="dim">+${episodes.length - 3}</span>`}</span>`;
}

function Difference({ delta, low, high }) {
  if (low === null) return null;
  const most = Math.max(Math.abs(low), Math.abs(high), 0.05) * 1.1;
  const at = (value) => 50 + (50 * value) / most;
  return html`<svg class="difference" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label=${`Difference ${points(delta)} points, from ${points(low)} to ${points(high)}`}>
    <line class="axis" x1="0" x2="100" y1="6" y2="6" /><line class="zero" x1="50" x2="50" y1="0" y2="12" />
    <line class="range" x1=${at(low)} x2=${at(high)} y1="6" y2="6" /><line class="point" x1=${at(delta)} x2=${at(delta)} y1="1" y2="11" />
  </svg>`;
}

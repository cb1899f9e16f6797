// Why the episodes of a run failed: kinds, tools with their errors; and which were dear or slow.
import { count, dollars, labelName, number, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { episodeHref, href, listHref } from "../base/route.js";
import { Label, Loaded, Meter } from "../parts/basics.js";
import { Word } from "../parts/texts.js";

const SHOWN = 12; // kinds, and tools

export function Reasons({ run, load }) {
  return html`<div class="reasons"><${Loaded} of=${load}>${(found) => html`<div class="cards wide">
    <${Kinds} run=${run} found=${found} />
    <${ToolErrors} run=${run} found=${found} />
    <${Examples} run=${run} title="Dearest episodes" sort="-tokens" rows=${found.dearest} value=${(row) => (row.cost_usd === null ? `${number(row.tokens)} tokens` : `${dollars(row.cost_usd)} · ${number(row.tokens)} tokens`)}
      note=${found.dearest.length ? (found.dearest[0].cost_usd === null ? "By tokens, since the price of the model is not known." : "") : "No tokens were logged."} />
    <${Examples} run=${run} title="Slowest episodes" sort="-seconds" rows=${found.slowest} value=${(row) => seconds(row.seconds)} note="" />
  </div>`}<//></div>`;
}

function Kinds({ run, found }) {
  const most = Math.max(1, ...found.kinds.map((one) => one.episodes));
  return html`<section class="card" aria-label="What failed most"><h2>What failed most</h2>
    ${found.kinds.length === 0 ? html`<p class="dim">No episode has a kind of failure.</p>` : html`<table class="stats"><thead><tr><th scope="col">Kind</th><th scope="col" class="end">Episodes</th><th scope="col" class="end">Tasks</th><td></td></tr></thead><tbody>
      ${found.kinds.slice(0, SHOWN).map((one) => html`<tr><th scope="row"><a href=${listHref(run, { failure: one.kind })}>${words(one.kind)}</a></th>
        <td class="figure"><a href=${listHref(run, { failure: one.kind })} aria-label=${`${count(one.episodes, "episode")}: ${words(one.kind)}`}>${number(one.episodes)}</a></td>
        <td class="figure"><a href=${href(["run", run, "tasks"], { failure: one.kind })} aria-label=${`${count(one.tasks, "task")}: ${words(one.kind)}`}>${number(one.tasks)}</a></td>
        <td class="wide"><${Meter} value=${one.episodes} most=${most} tone="bad" /></td></tr>`)}</tbody></table>
      ${found.kinds.length > SHOWN && html`<p><a href=${href(["run", run, "tasks"], { by: "kind" })}>All ${found.kinds.length} kinds</a></p>`}
      <p class="dim">Of ${count(found.failed, "episode")} not completed; one may have several kinds.</p>`}</section>`;
}

// Tools by errors; the tool that fails most stands first.
function ToolErrors({ run, found }) {
  const of = new Map();
  const totals = new Map();
  for (const one of found.tool_errors) {
    const tool = of.get(one.tool) ?? { calls: 0, errors: new Map() };
    tool.calls += one.calls;
    tool.errors.set(one.error, one);
    of.set(one.tool, tool);
    totals.set(one.error, (totals.get(one.error) ?? 0) + one.calls);
  }
  const tools = [...of].sort(([, a], [, b]) => b.calls - a.calls);
  const errors = [...totals].sort(([, a], [, b]) => b - a).map(([error]) => error);
  const shown = tools.slice(0, SHOWN);
  return html`<section class="card" aria-label="Which tool fails most"><h2>Which tool fails most, with which error</h2>
    ${tools.length === 0 ? html`<p class="dim">No call failed.</p>` : html`<div class="scroll-x" tabindex="0" role="group" aria-label="Tools by errors"><table class="stats matrix">
      <thead><tr><th scope="col">Tool</th><th scope="col" class="end">Failed calls</th>${errors.map((error) => html`<th scope="col" class="end"><a href=${listHref(run, { error })}>${words(error)}</a></th>`)}</tr></thead>
      <tbody>${shown.map(([tool, one]) => html`<tr><th scope="row"><a class="mono" href=${listHref(run, { failed_call: [...one.errors.keys()].map((error) => `${tool}:${error}`) })}><${Word} value=${tool} /></a></th>
        <td class="figure"><b>${number(one.calls)}</b></td>
        ${errors.map((error) => html`<td class="figure"><${Failed} run=${run} one=${one.errors.get(error)} /></td>`)}</tr>`)}</tbody></table></div>
      ${(tools.length > SHOWN || found.num_tool_errors > found.tool_errors.length) && html`<p class="dim">The ${shown.length} tools that fail most${found.num_tool_errors > found.tool_errors.length ? "" : ` of ${tools.length}`}.</p>`}`}</section>`;
}

function Failed({ run, one }) {
  if (!one) return html`<span class="dim">–</span>`;
  const text = `${count(one.calls, "failed call")} in ${count(one.episodes, "episode")}`;
  return html`<a href=${listHref(run, { failed_call: `${one.tool}:${one.error}` })} title=${text} aria-label=${text}>${number(one.calls)}</a>`;
}

function Examples({ run, title, sort, rows, value, note }) {
  return html`<section class="card" aria-label=${title}><h2>${title}</h2>
    ${rows.length === 0 ? html`<p class="dim">${note || "No episode has ended yet."}</p>` : html`<table class="stats examples"><thead class="sr-only"><tr><th scope="col">Episode</th><th scope="col">Label</th><th scope="col">Figure</th></tr></thead><tbody>
      ${rows.map((row) => html`<tr><th scope="row"><a class="mono" href=${episodeHref(run, row.episode)}>${row.episode}</a> <span class="dim"><${Word} value=${row.task} /></span></th>
        <td><${Label} name=${labelName(row)} small isShort /></td><td class="figure">${value(row)}</td></tr>`)}</tbody></table>
      <p><a href=${listHref(run, { sort })}>All episodes in this order</a></p>
      ${note && html`<p class="dim">${note}</p>`}`}</section>`;
}

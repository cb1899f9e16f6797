// A run's statistics with intervals, what its model took, errors, failures and settings.
import { count, dollars, number, percent, seconds, sentence, words } from "../base/format.js";
import { html } from "../base/html.js";
import { episodeHref, listHref } from "../base/route.js";
import { Fold, Interval, Meter } from "../parts/basics.js";
import { Json, Word } from "../parts/texts.js";

export function Overview({ run, summary }) {
  const { statistics } = summary;
  return html`
    <div class="cards">
      ${statistics && html`<${Statistics} of=${statistics} />`}
      ${summary.model && html`<${ModelUse} of=${summary.model} />`}
      <${Errors} run=${run} errors=${summary.errors ?? []} />
      ${Failures(run, summary.failures)}
      ${Faults(summary.faults)}
    </div>
    <${Fold} summary="Settings of the run"><${Json} value=${summary.settings} /><//>`;
}

function Statistics({ of }) {
  const lines = [
    ["Completed", of.completed],
    ["Share of the task", of.share],
    ...Object.entries(of.pass_at_k ?? {}).filter(([k]) => k !== "1").map(([k, one]) => [`At least one of ${k} tries`, one, `pass@${k}`]),
    ...Object.entries(of.pass_hat_k ?? {}).filter(([k]) => k !== "1").map(([k, one]) => [`All of ${k} tries`, one, `pass^${k}`]),
  ];
  const tags = Object.entries(of.tags ?? {});
  return html`<section class="card" aria-label="Statistics"><h2>How often tasks are completed</h2>
    <table class="stats"><thead class="sr-only"><tr><th scope="col">Measure</th><th scope="col">Share</th><th scope="col">95% interval</th></tr></thead><tbody>
      ${lines.filter(([, one]) => one).map(([name, one, code]) => html`<${Share} name=${name} code=${code} one=${one} />`)}
    </tbody></table>
    ${tags.length > 0 && html`<h3>By tag</h3><table class="stats"><thead class="sr-only"><tr><th scope="col">Tag</th><th scope="col">Share</th><th scope="col">95% interval</th></tr></thead><tbody>
      ${tags.slice(0, 30).map(([name, one]) => html`<${Share} name=${html`<${Word} value=${name} /> <span class="dim">${count(one.episodes, "episode")}</span>`} one=${one.completed} />
        ${one.share && html`<${Share} name=${html`<${Word} value=${name} /> <span class="dim">share of the task</span>`} one=${one.share} />`}`)}</tbody></table>`}
    ${of.about && html`<p class="dim">${sentence(of.about)}</p>`}
    ${of.without_score > 0 && html`<p class="dim">${count(of.without_score, "episode")} without a verdict: whatever they had been, ${percent(of.bounds[0])} to ${percent(of.bounds[1])} of all are completed.</p>`}
    ${of.variance && html`<p class="dim">Variance: ${percent(of.variance.world, 0)} between worlds, ${percent(of.variance.task, 0)} between tasks, ${percent(of.variance.rollout, 0)} between tries.</p>`}
  </section>`;
}

function ModelUse({ of: { use, times } }) {
  const rows = [
    ["Replies", number(use.replies)],
    ["Requests", number(use.requests), use.retries > 0 && count(use.retries, "retry", "retries")],
    ["Waits after rate limits", seconds(times.rate_limited_s)],
    ["Tokens in", number(use.prompt_tokens), use.cached_tokens > 0 && `${number(use.cached_tokens)} cached`],
    ["Tokens out", number(use.completion_tokens), use.reasoning_tokens > 0 && `${number(use.reasoning_tokens)} of reasoning`],
    ["A reply took (p50)", seconds(times.p50_s)],
    ["A reply took (p95)", seconds(times.p95_s)],
    ["A reply took (p99)", seconds(times.p99_s)],
    ["Cost", use.cost_usd === null ? "not known" : dollars(use.cost_usd)],
  ];
  return html`<section class="card" aria-label="Model"><h2>What the model took</h2>
    <table class="stats"><tbody>${rows.map(([name, value, note]) => html`<tr><th scope="row">${name}</th><td class="figure">${value}</td>
      <td class="wide dim">${note || ""}</td></tr>`)}</tbody></table></section>`;
}

function Share({ name, code, one }) {
  return html`<tr><th scope="row">${name}${code && html` <code>${code}</code>`}</th><td class="figure">${percent(one.value)}</td>
    <td class="wide"><${Interval} ...${one} /></td></tr>`;
}

function Errors({ run, errors }) {
  return html`<section class="card" aria-label="Errors"><h2>Error causes</h2>
    ${errors.length === 0 ? html`<p class="dim">No call failed.</p>` : html`<table class="stats"><tbody>${errors.slice(0, 20).map((one) => html`<tr>
      <th scope="row"><a href=${listHref(run, { error: one.cause })}>${words(one.cause)}</a></th><td class="figure">${number(one.n)}</td>
      <td class="wide"><${Example} run=${run} example=${one.example} /></td></tr>`)}</tbody></table>`}
  </section>`;
}

function Example({ run, example }) {
  if (!example) return null;
  if (typeof example === "string") return /^e\d+$/.test(example) ? html`<a class="mono" href=${episodeHref(run, example)}>${example}</a>` : html`<span class="dim ellipsis"><${Word} value=${example} /></span>`;
  return html`<span class="ellipsis"><a class="mono" href=${episodeHref(run, example.episode, { turn: example.turn === null || example.turn === undefined ? undefined : example.turn + 1 })}>${example.episode}</a> <span class="dim"><${Word} value=${example.text ?? ""} /></span></span>`;
}

function Failures(run, failures) {
  const entries = Object.entries(failures ?? {}).map(([kind, one]) => [kind, typeof one === "number" ? one : one.n ?? one.episodes]);
  if (entries.length === 0) return null;
  const most = Math.max(...entries.map(([, n]) => n));
  return html`<section class="card" aria-label="Failures"><h2>What went wrong</h2>
    <table class="stats"><tbody>${entries.map(([kind, n]) => html`<tr><th scope="row"><a href=${listHref(run, { failure: kind })}>${words(kind)}</a></th><td class="figure">${number(n)}</td><td class="wide"><${Meter} value=${n} most=${most} tone="bad" /></td></tr>`)}</tbody></table></section>`;
}

function Faults(faults) {
  if (!faults || Object.keys(faults).length === 0) return null;
  return html`<section class="card" aria-label="Faults"><h2>Injected faults</h2><${Json} value=${faults} /></section>`;
}

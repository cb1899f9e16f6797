// A training run: curves, evaluation by split, what was dropped, samples of a batch, weights.
import { date, decimal, labelName, number, percent, seconds, short, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { episodeHref, href, route, runHref, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { about } from "../base/state.js";
import { Label, Loaded, Notice } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";

// Charts with several curves; a curve that is not logged is left out.
const FIRST = [
  ["Reward", ["reward", "evaluation/reward"]],
  ["Pass rate", ["pass_rate", "evaluation/pass_rate"], (value) => percent(value, 0)],
  ["Entropy", ["entropy"]],
  ["Mismatch of sampler and trainer", ["mismatch_k3", "drift_k3"]],
  ["Tokens per second", ["tokens_per_second"]],
  ["Loss", ["loss"]],
  ["Gradient norm", ["grad_norm"]],
  ["Time in a step", ["seconds/waiting", "seconds/training", "seconds/evaluating", "seconds/publishing"], seconds],
];

export function Training({ run }) {
  const load = useLoad(api`/api/runs/${run}/training`);
  return html`<${Loaded} of=${load}>${(data) => html`<${Curves} run=${run} data=${data} />`}<//>`;
}

const numberOr = (value) => (typeof value === "number" ? value : null);
const nameOf = (name) => words(name.replace("evaluation/", "evaluation: ").replace("seconds/", "").replace("dropped/", ""));

function Curves({ run, data }) {
  const { steps } = data;
  const x = steps.map((one) => one.step);
  const names = (data.names ?? []).map((one) => (typeof one === "string" ? { name: one, group: "" } : one)).filter(({ name }) => steps.some((one) => typeof one[name] === "number"));
  const known = new Set(names.map((one) => one.name));
  const dropped = names.filter((one) => one.group === "dropped").map((one) => one.name);
  const first = [...FIRST, ["Dropped, by reason", dropped]].map(([title, curves, show]) => [title, curves.filter((one) => known.has(one)).slice(0, 6), show]).filter(([, curves]) => curves.length);
  const drawn = new Set(first.flatMap(([, curves]) => curves));
  const rest = names.filter((one) => !drawn.has(one.name));
  const chart = ([title, curves, show]) => html`<div class="card" key=${title}><${Chart} title=${title} show=${show ?? short} x=${x} axis=${number} series=${curves.map((name) => ({ name: nameOf(name), values: steps.map((one) => numberOr(one[name])) }))} /></div>`;
  return html`
    ${steps.length === 0 && html`<${Notice}>No step has ended yet.<//>`}
    <section class="charts" aria-label="Curves">${first.map(chart)}<${Evaluations} of=${data.evaluations ?? []} /></section>
    ${rest.length > 0 && html`<details class="fold"><summary><${Icon} name="right" /><span>${rest.length} other curves</span></summary><div class="charts">${rest.slice(0, 60).map(({ name }) => chart([nameOf(name), [name]]))}</div></details>`}
    <${Dropped} of=${data.dropped} />
    ${steps.length > 0 && html`<${Batch} run=${run} data=${data} />`}
    ${data.evaluations?.some((one) => one.run) && html`<${EvaluationRuns} of=${data.evaluations} />`}
    ${data.weights?.length > 0 && html`<${Versions} weights=${data.weights} />`}`;
}

function Evaluations({ of }) {
  const splits = [...new Set(of.map((one) => one.split))];
  const x = [...new Set(of.map((one) => one.step))].sort((a, b) => a - b);
  if (of.length === 0) return null;
  const value = (split, step) => numberOr(of.find((one) => one.split === split && one.step === step)?.pass_rate);
  return html`<div class="card"><${Chart} title="Evaluation by split" show=${(one) => percent(one, 0)} x=${x} axis=${number} series=${splits.slice(0, 6).map((split) => ({ name: shortSplit(split), values: x.map((step) => value(split, step)) }))} /></div>`;
}

function shortSplit(split) {
  const names = String(split || "all").split(/,\s*/);
  return names.length > 2 ? `${names[0]} and ${names.length - 1} more` : names.join(", ");
}

function Dropped({ of }) {
  const reasons = Object.entries(of ?? {}).filter(([, one]) => one);
  if (reasons.length === 0) return null;
  const show = (value) => (Array.isArray(value) ? percent(value.findLast((one) => one !== null)) : value > 0 && value < 1 ? percent(value) : short(value));
  return html`<section class="card" aria-label="Dropped"><h2>Dropped, by reason</h2><table class="stats"><tbody>${reasons.map(([reason, value]) => html`<tr><th scope="row">${words(reason)}</th><td class="figure">${show(value)}</td></tr>`)}</tbody></table></section>`;
}

function Batch({ run, data }) {
  const { steps } = data;
  const step = Number(route.value.query.get("step") ?? steps.at(-1).step);
  const isEmbedded = about.value?.exported;
  const load = useLoad(isEmbedded ? null : `${api`/api/runs/${run}/training/batch`}?step=${step}`);
  const found = isEmbedded ? { data: data.batch ?? { samples: [] } } : load;
  return html`<div class="bar section"><h2>Samples of a batch</h2><span class="spring"></span>
      ${!isEmbedded && html`<label class="field inline"><span>Step</span><select value=${step} onChange=${(event) => setQuery({ step: event.currentTarget.value })}>${steps.slice(-400).map((one) => html`<option value=${one.step}>${one.step}</option>`)}</select></label>`}</div>
    <${Loaded} of=${found}>${({ samples }) => (samples.length ? html`<${Samples} run=${run} samples=${samples} />` : html`<p class="dim">The episodes of this batch are not in the log.</p>`)}<//>`;
}

const sign = (value) => (value > 0 ? "good-text" : value < 0 ? "bad-text" : "dim");

function Samples({ run, samples }) {
  return html`<${Grid} label="Samples" total=${samples.length} maxHeight="50vh" rowAt=${(i) => samples[i]} columns=${[
    { key: "episode", title: "Episode", width: 84, render: (one) => html`<a class="mono" href=${episodeHref(run, one.episode)}>${one.episode}</a>` },
    { key: "label", title: "Label", width: 138, narrow: 28, render: (one, isNarrow) => html`<${Label} name=${labelName({ ending: "", ...one })} small isShort=${isNarrow} />` },
    { key: "task", title: "Task", width: 160, grow: 2, priority: 4, render: (one) => html`<span class="ellipsis"><a href=${href(["run", run, "group", one.group])}><${Word} value=${one.task} /></a> <span class="dim">member ${one.member}</span></span>` },
    { key: "advantage", title: "Advantage", width: 84, end: true, render: (one) => html`<span class=${`figure ${sign(one.advantage)}`}>${one.advantage > 0 ? "+" : ""}${decimal(one.advantage, 3)}</span>` },
    { key: "reward", title: "Reward", width: 66, end: true, priority: 1, render: (one) => html`<span class="figure">${decimal(one.reward)}</span>` },
    { key: "turns", title: "Turns", width: 58, end: true, priority: 5, render: (one) => html`<span class="figure">${number(one.turns)}</span>` },
    { key: "tokens", title: "Tokens", width: 66, end: true, priority: 2, render: (one) => html`<span class="figure">${number(one.tokens)}</span>` },
    { key: "weights", title: "Weights", width: 110, grow: 1, priority: 3, render: (one) => html`<span class="mono dim ellipsis"><${Word} value=${one.weights ?? ""} /></span>` },
  ]} />`;
}

function EvaluationRuns({ of }) {
  return html`<h2 class="section">Evaluations</h2><${Grid} label="Evaluations" total=${of.length} maxHeight="40vh" rowAt=${(i) => of[i]} columns=${[
    { key: "step", title: "Step", width: 50, end: true, render: (one) => html`<span class="figure">${number(one.step)}</span>` },
    { key: "split", title: "Split", width: 140, grow: 3, render: (one) => html`<span class="ellipsis">${one.run ? html`<a href=${runHref(one.run)}>${shortSplit(one.split)}</a>` : shortSplit(one.split)}</span>` },
    { key: "pass", title: "Completed", width: 84, end: true, render: (one) => html`<span class="figure">${percent(one.pass_rate)}</span>` },
    { key: "reward", title: "Reward", width: 70, end: true, priority: 1, render: (one) => html`<span class="figure">${decimal(one.reward, 3)}</span>` },
    { key: "episodes", title: "Episodes", width: 76, end: true, priority: 2, render: (one) => html`<span class="figure">${number(one.episodes)}</span>` },
  ]} />`;
}

function Versions({ weights }) {
  return html`<h2 class="section">Weights</h2><${Grid} label="Weights" total=${weights.length} maxHeight="40vh" rowAt=${(i) => weights[weights.length - 1 - i]} columns=${[
    { key: "version", title: "Version", width: 120, grow: 1, render: (one) => html`<span class="mono ellipsis"><${Word} value=${one.version} /></span>` },
    { key: "step", title: "Step", width: 50, end: true, render: (one) => html`<span class="figure">${number(one.step)}</span>` },
    { key: "at", title: "Published", width: 150, priority: 1, render: (one) => html`<span class="dim">${date(one.at)}</span>` },
    { key: "path", title: "Folder", width: 200, grow: 3, priority: 2, render: (one) => html`<span class="mono dim ellipsis"><${Word} value=${one.path} /></span>` },
  ]} />`;
}

// A training run: curves, evaluation, what was dropped, samples of a batch, weights.
import { date, number, percent, short, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { episodeHref } from "../base/route.js";
import { api } from "../base/source.js";
import { Loaded, Notice } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Grid } from "../parts/grid.js";
import { Word } from "../parts/texts.js";

const FIRST = ["reward", "pass_rate", "entropy", "mismatch_kl", "mismatch", "tokens_per_s", "loss", "grad_norm"];

export function Training({ run }) {
  const load = useLoad(api`/api/runs/${run}/training`);
  return html`<${Loaded} of=${load}>${(data) => html`<${Curves} run=${run} data=${data} />`}<//>`;
}

function Curves({ run, data }) {
  const { steps } = data;
  const x = steps.map((one) => one.step);
  const names = curveNames(data);
  const first = names.filter((one) => FIRST.includes(one.name)).sort((a, b) => FIRST.indexOf(a.name) - FIRST.indexOf(b.name));
  const rest = names.filter((one) => !FIRST.includes(one.name));
  const chart = ({ name }) => html`<div class="card" key=${name}><${Chart} title=${words(name)} x=${x} axis=${number} series=${[{ name: "Value", values: steps.map((one) => numberOr(one[name])) }]} /></div>`;
  return html`
    ${steps.length === 0 && html`<${Notice}>No step has ended yet.<//>`}
    <section class="charts" aria-label="Curves">${first.map(chart)}<${Evaluations} of=${data.evaluations ?? []} /><${Dropped} x=${x} of=${data.dropped ?? {}} /></section>
    ${data.batch?.samples?.length > 0 && html`<h2 class="section">Samples of the batch of step ${data.batch.step}</h2><${Samples} run=${run} samples=${data.batch.samples} />`}
    ${data.weights?.length > 0 && html`<h2 class="section">Weights</h2><${Grid} label="Weights" total=${data.weights.length} maxHeight="40vh" rowAt=${(i) => data.weights[data.weights.length - 1 - i]} columns=${[
      { key: "version", title: "Version", width: 110, grow: 1, render: (one) => html`<span class="mono"><${Word} value=${one.version} /></span>` },
      { key: "step", title: "Step", width: 60, end: true, render: (one) => html`<span class="figure">${number(one.step)}</span>` },
      { key: "at", title: "Published", width: 150, priority: 1, render: (one) => html`<span class="dim">${date(one.at)}</span>` },
      { key: "path", title: "Folder", width: 200, grow: 3, priority: 2, render: (one) => html`<span class="mono dim ellipsis"><${Word} value=${one.path} /></span>` },
    ]} />`}
    ${rest.length > 0 && html`<details class="fold more-curves"><summary><span>All ${rest.length} other curves</span></summary><div class="charts">${rest.slice(0, 60).map(chart)}</div></details>`}`;
}

const numberOr = (value) => (typeof value === "number" ? value : null);

function curveNames({ names, steps }) {
  const listed = (names ?? []).map((one) => (typeof one === "string" ? { name: one } : one));
  if (listed.length) return listed.filter(({ name }) => steps.some((one) => typeof one[name] === "number"));
  const found = new Set(steps.flatMap((one) => Object.keys(one).filter((name) => name !== "step" && typeof one[name] === "number")));
  return [...found].map((name) => ({ name }));
}

function Evaluations({ of }) {
  if (of.length === 0) return null;
  const splits = [...new Set(of.map((one) => one.split))];
  const x = [...new Set(of.map((one) => one.step))].sort((a, b) => a - b);
  const value = (split, step) => {
    const found = of.find((one) => one.split === split && one.step === step)?.pass_rate;
    return numberOr(found);
  };
  return html`<div class="card"><${Chart} title="Evaluation" show=${(value) => percent(value)} x=${x} axis=${number} series=${splits.slice(0, 6).map((split) => ({ name: words(split ?? "all"), values: x.map((step) => value(split, step)) }))} /></div>`;
}

function Dropped({ x, of }) {
  const reasons = Object.entries(of).filter(([, values]) => values.some((one) => one));
  if (reasons.length === 0) return null;
  return html`<div class="card"><${Chart} title="Shares dropped" show=${(value) => percent(value)} x=${x} axis=${number} series=${reasons.slice(0, 6).map(([reason, values]) => ({ name: words(reason), values: values.map(numberOr) }))} /></div>`;
}

function Samples({ run, samples }) {
  const figure = (name, title, priority) => ({ key: name, title, width: 90, end: true, priority, render: (one) => html`<span class="figure">${short(one[name])}</span>` });
  return html`<${Grid} label="Samples" total=${samples.length} maxHeight="50vh" rowAt=${(i) => samples[i]} columns=${[
    { key: "episode", title: "Episode", width: 100, grow: 1, render: (one) => html`<a class="mono" href=${episodeHref(run, one.episode, { turn: one.turn })}>${one.episode}</a>` },
    { key: "turn", title: "Turn", width: 54, end: true, priority: 1, render: (one) => html`<span class="figure">${one.turn ?? "–"}</span>` },
    { key: "advantage", title: "Advantage", width: 90, end: true, render: (one) => html`<span class=${`figure ${one.advantage > 0 ? "good-text" : one.advantage < 0 ? "bad-text" : "dim"}`}>${one.advantage > 0 ? "+" : ""}${short(one.advantage)}</span>` },
    figure("reward", "Reward", 0), figure("tokens", "Tokens", 2), figure("ratio", "Ratio", 3),
  ]} />`;
}

// The verdicts of an episode: label, reward, findings, the judge's words and evidence.
import { decimal, dollars, isNumber, percent, words } from "../base/format.js";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Fold, Label, Tag } from "./basics.js";
import { Icon } from "./icon.js";
import { Passage, Word } from "./texts.js";

export function VerdictPanel({ data, failures, onTurn }) {
  const verdicts = data.verdicts ?? [];
  return html`<section class="card" aria-label="Verdict">
    ${verdicts.length === 0 && html`<h2>Verdict</h2><p class="dim">${data.ended ? "No judge has judged this episode." : "It is judged when it ends."}</p>`}
    ${verdicts.toReversed().map((one, i) => (i === 0 ? html`<${Verdict} of=${one} />` : html`<${Fold} summary=${`Verdict of ${visible(one.judge)}`}><${Verdict} of=${one} /><//>`))}
    ${failures.length > 0 && html`<h3>What went wrong</h3><ul class="failures">${failures.map((one) => html`<li>
      <b>${words(one.kind)}</b> ${Number.isInteger(one.turn) && html`<button class="link" onClick=${() => onTurn(one.turn)}>turn ${one.turn + 1}</button>`}
      <div class="dim"><${Word} value=${one.why} /></div></li>`)}</ul>`}
  </section>`;
}

export function Verdict({ of }) {
  const findings = [...(of.findings ?? [])].sort((a, b) => a.passed - b.passed);
  return html`<div class="verdict">
    <h2>Verdict <span class="dim">by <${Word} value=${of.judge} /></span></h2>
    <p class="row"><${Label} name=${of.label ?? "unjudged"} /> <span class="figure">reward ${decimal(of.reward)}</span>${isNumber(of.share) && html`<span class="figure">share of the task <b>${percent(of.share, 0)}</b></span>`}${of.cost_usd ? html`<span class="dim">${dollars(of.cost_usd)}</span>` : null}</p>
    ${of.unjudged && html`<p class="dim"><${Word} value=${of.unjudged} /></p>`}
    ${of.proof && html`<p><${Word} value=${of.proof} /></p>`}
    ${of.code && of.code !== of.label && html`<p class="dim">Code alone: <${Label} name=${of.code} small /></p>`}
    ${of.reasoning && html`<${Passage} class="quoted" value=${of.reasoning} />`}
    ${findings.length > 0 && html`<ul class="findings">${findings.slice(0, 60).map((one) => html`<${Finding} of=${one} />`)}</ul>`}
    ${(of.judgements ?? []).map((one) => html`<${Judgement} of=${one} />`)}
    ${of.asked?.length > 0 && html`<${Fold} summary=${`What models said of criteria, ${of.asked.length}`}>${of.asked.map((one) => html`<${Judgement} of=${one} met />`)}<//>`}
    ${of.evidence?.length > 0 && html`<${Fold} summary=${`Evidence, ${of.evidence.length} items`}><${Evidence} items=${of.evidence} cited=${(of.judgements ?? []).flatMap((one) => one.cited ?? [])} /><//>`}
  </div>`;
}

function Finding({ of }) {
  return html`<li class=${of.passed ? "passed" : "failed"}><${Icon} name=${of.passed ? "check" : "cross"} label=${of.passed ? "Passed" : "Failed"} />
    <div><${Word} value=${of.name} />${of.kind !== "goal" && html` <span class="dim">${of.kind}</span>`}${shareOf(of) && html` <span class="dim figure">${shareOf(of)}</span>`}
      ${!of.passed && html`<dl class="against"><dt>expected</dt><dd><${Word} value=${short(of.expected)} /></dd><dt>found</dt><dd><${Word} value=${short(of.found)} /></dd></dl>`}</div></li>`;
}

// What a finding adds to the share of the task, as in "share 50%, weight 2".
const shareOf = ({ share, weight, kind }) => {
  if (!isNumber(share)) return kind === "criterion" && "open: a model must judge it";
  return `share ${percent(share, 0)}${(weight ?? 1) !== 1 ? `, weight ${decimal(weight)}` : ""}`;
};

const short = (text) => {
  const plain = String(text ?? "");
  return plain.length > 400 ? `${plain.slice(0, 400)}…` : plain || "nothing";
};

const MET = { completed: "met", partially_completed: "met in part", agent_error: "not met", environment_error: "cannot be told" };

// A model's judgement of an episode, or of whether a criterion is met.
function Judgement({ of, met = false }) {
  return html`<div class="judgement"><p class="row"><${Word} class="mono" value=${of.model} />${of.label ? (met ? html`<b>${MET[of.label]}</b>` : html`<${Label} name=${of.label} small />`) : html`<${Tag} tone="bad">no judgement<//>`}
      ${of.confidence !== null && of.confidence !== undefined && html`<span class="dim">confidence ${percent(of.confidence, 0)}</span>`}</p>
    ${of.fault && html`<p class="bad-text"><${Word} value=${of.fault} /></p>`}
    ${of.reasoning && html`<${Passage} class="quoted" value=${of.reasoning} />`}
    ${of.cited?.length > 0 && html`<p class="dim">Cites <${Word} value=${of.cited.join(", ")} /></p>`}</div>`;
}

export function Evidence({ items, cited = [] }) {
  return html`<dl class="evidence">${items.slice(0, 80).map((one) => html`<div class=${cited.includes(one.id) ? "cited" : ""}><dt><code><${Word} value=${one.id} /></code> <${Word} value=${one.title} /></dt><dd><${Passage} value=${one.text} most=${600} /></dd></div>`)}</dl>`;
}

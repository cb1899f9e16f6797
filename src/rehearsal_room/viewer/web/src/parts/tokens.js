// The sampled tokens of a reply, coloured by their log-probability.
import { decimal, percent } from "../base/format.js";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Pages } from "./basics.js";

const SHOWN = 300;
const LEVELS = [-0.05, -0.5, -1.5, -3, -6]; // log-probabilities; below: less likely

const level = (logprob) => (logprob === null || logprob === undefined ? "none" : LEVELS.findIndex((one) => logprob >= one));
const className = (token) => {
  const found = level(token.logprob);
  return `token ${found === "none" ? "" : `lp${found < 0 ? LEVELS.length : found}`} ${token.trained ? "" : "untrained"}`;
};

export function Tokens({ tokens }) {
  const least = tokens.filter((one) => one.logprob !== null && one.logprob !== undefined).sort((a, b) => a.logprob - b.logprob).slice(0, 5);
  return html`<div class="tokens">
    ${least.length > 0 && html`<p class="token-key dim">Likely ${LEVELS.map((_, i) => html`<span class=${`token lp${i}`}> </span>`)}<span class=${`token lp${LEVELS.length}`}> </span> unlikely</p>`}
    <${Pages} rows=${tokens} size=${SHOWN} noun="tokens" render=${(some) => html`<div class="strip" dir="auto">${some.map((one) => html`<span class=${className(one)} title=${describe(one)}>${visible(one.text ?? `‹${one.id}›`)}</span>`)}</div>`} />
    ${least.length > 0 && html`<p class="dim">Least likely: ${least.map((one) => html`<span class="least"><bdi class="mono">${visible(JSON.stringify(one.text ?? one.id))}</bdi> ${percent(Math.exp(one.logprob), 2)}</span>`)}</p>`}
  </div>`;
}

function describe({ id, logprob, trained }) {
  const probability = logprob === null || logprob === undefined ? "no log-probability" : `log-probability ${decimal(logprob, 3)}`;
  return `token ${id}, ${probability}${trained ? "" : ", not trained"}`;
}

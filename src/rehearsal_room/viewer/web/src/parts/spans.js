// The OpenTelemetry spans that an agent sent, as a tree: name, when, how long, and the rest on unfolding.
import { count, seconds } from "../base/format.js";
import { html } from "../base/html.js";
import { Fold, Pages, Tag } from "./basics.js";
import { Json, Passage, Word } from "./texts.js";

const PAGE = 100;
const DEEPEST = 12; // that is indented further than those around it

export function Spans({ of }) {
  if (!of) return null;
  const whole = of.spans.reduce((most, one) => Math.max(most, one.after + one.seconds), 0);
  return html`<article class="said asked"><h3>The agent's spans <span class="dim">${count(of.spans.length, "span")}, sent by OpenTelemetry</span></h3>
    <${Pages} rows=${of.spans} size=${PAGE} noun="spans" render=${(rows) => html`<ul class="spans">${rows.map((one) => html`<li key=${`${one.trace}${one.id}`}><${Span} of=${one} whole=${whole} /></li>`)}</ul>`} />
    ${of.left_out > 0 && html`<p class="dim">${count(of.left_out, "more span")} came, beyond the limits of an episode.</p>`}
    ${of.num_refused > 0 && html`<p class="bad-text">${count(of.num_refused, "request")} with spans ${of.num_refused === 1 ? "was" : "were"} refused: <${Word} value=${of.why} /></p>`}
  </article>`;
}

function Span({ of, whole }) {
  const failed = of.status === "error";
  const summary = html`<span class="span-line"><span style=${{ flex: `0 0 ${Math.min(of.depth, DEEPEST) * 16}px` }}></span>
    <${Word} value=${of.name || "(no name)"} />${of.subject && html`<${Word} class="dim" value=${of.subject} />`}<span class="dim figure">${seconds(of.seconds)}</span>${failed && html`<${Tag} tone="bad">error<//>`}<${Bar} of=${of} whole=${whole} /></span>`;
  return html`<${Fold} summary=${summary}>
    ${of.message && html`<${Passage} class=${failed ? "bad-text" : ""} value=${of.message} most=${600} />`}
    <p class="dim"><${Word} value=${[of.service, of.scope, of.kind, `${seconds(of.after)} after the first`].filter(Boolean).join(" · ")} /></p>
    <${Json} value=${of.attributes} />
    ${of.events.map((event) => html`<p><${Word} value=${event.name} /> <span class="dim">${seconds(event.after ?? 0)} after its begin</span></p><${Json} value=${event.attributes ?? {}} />`)}
  <//>`;
}

function Bar({ of, whole }) {
  if (!(whole > 0)) return null;
  const left = (100 * of.after) / whole;
  const width = Math.max(0.5, Math.min(100 - left, (100 * of.seconds) / whole));
  return html`<span class="span-bar" aria-hidden="true"><span style=${{ left: `${left}%`, width: `${width}%` }}></span></span>`;
}

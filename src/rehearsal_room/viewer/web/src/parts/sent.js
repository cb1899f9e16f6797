// What a model was sent: messages, tools, tokens by part, what the window left out, and copies.
import { useState } from "preact/hooks";
import { count, number } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { prettyJson, visible } from "../base/text.js";
import { Copy, Fold, Loaded, Notice } from "./basics.js";
import { Json, Passage, Word } from "./texts.js";

// A switch with what is loaded when it is opened.
export function Sent({ path, label }) {
  const [isOpen, setOpen] = useState(false);
  const load = useLoad(isOpen ? path : null);
  return html`<div class="sent"><button class="link sent-switch" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${isOpen ? `Hide ${label.toLowerCase()}` : label}</button>
    ${isOpen && html`<${Loaded} of=${load}>${(data) => html`
      ${data.missing && html`<${Notice}>${visible(data.missing)}<//>`}
      ${data.requests.map((one) => html`<${Request} of=${one} />`)}`}<//>`}
  </div>`;
}

const NAMES = { turn: "Request for this turn", summary: "Request for a summary of earlier turns" };

function Request({ of }) {
  const json = of.body || JSON.stringify({ ...of.fields, messages: of.messages.map((one) => one.message), tools: of.tools });
  const shown = of.messages.map((one) => html`<${Message} of=${one} />`);
  const missing = of.left_out.map((turn) => html`<section class="left-out" aria-label=${`Turn ${turn.turn + 1}, left out`}><p class="minor">Turn ${turn.turn + 1}: left out by the window</p>${turn.messages.map((one) => html`<${Message} of=${one} />`)}</section>`);
  shown.splice(of.head, 0, ...missing);
  return html`<section class="request" aria-label=${NAMES[of.what] ?? "Request"}>
    <p class="row"><b>${NAMES[of.what] ?? html`Request to <${Word} value=${of.what} />`}</b>${of.url && html`<span class="dim mono"><${Word} value=${of.url} /></span>`}
      ${of.attempts > 1 && html`<span class="dim">sent ${number(of.attempts)} times</span>`}<span class="spring"></span>
      <${Copy} text=${json} label="Copy as JSON" />${of.curl && html`<${Copy} text=${of.curl} label="Copy as curl" />`}</p>
    ${of.notes.map((one) => html`<p class="dim">${visible(one)}</p>`)}
    <${Parts} of=${of} />
    <div class="messages">${shown}</div>
    ${of.tools.length > 0 && html`<${Fold} summary=${`${count(of.tools.length, "tool schema")}, as sent`}><${Passage} class="mono" value=${prettyJson(of.tools)} most=${6000} /><//>`}
    ${Object.keys(of.fields).length > 0 && html`<${Fold} summary="Other fields"><${Json} value=${of.fields} /><//>`}
    ${of.ids && html`<${Fold} summary=${count(of.ids.length, "token id")}><p><${Copy} text=${JSON.stringify(of.ids)} label="Copy token ids" /></p><${Passage} class="mono" value=${of.ids_text ?? of.ids.join(" ")} most=${4000} /><//>`}
  </section>`;
}

// Tokens by part: estimates, in the proportion of what the server counted.
function Parts({ of }) {
  const sums = { "tool schemas": of.tools_tokens };
  of.messages.forEach((one, i) => {
    const { role } = one.message;
    const name = i < of.head ? (role === "system" ? "system prompt" : "task") : role === "tool" ? "tool results" : role === "assistant" ? "the model's replies" : "user and harness";
    sums[name] = (sums[name] ?? 0) + one.tokens;
  });
  const estimate = Object.values(sums).reduce((a, b) => a + b, 0);
  const total = of.prompt_tokens ?? of.ids?.length ?? null;
  const factor = total && estimate ? total / estimate : 1;
  const parts = Object.entries(sums).filter(([, tokens]) => tokens > 0);
  return html`<div class="parts"><p class="dim">${total ? `${number(total)} tokens${of.prompt_tokens ? ", as the server counted them" : ""}; the parts are estimates` : `About ${number(estimate)} tokens`}</p>
    <dl>${parts.map(([name, tokens]) => html`<div><dt>${name}</dt><dd class="figure">${number(Math.round(tokens * factor))}</dd><dd class="bar" aria-hidden="true"><span style=${{ width: `${(100 * tokens) / (estimate || 1)}%` }}></span></dd></div>`)}</dl></div>`;
}

function Message({ of }) {
  const { role, content, tool_calls: calls, tool_call_id: id, ...others } = of.message;
  return html`<div class=${`message ${visible(role)}`}><p class="minor"><${Word} value=${role} />${id && html` <span class="mono dim"><${Word} value=${id} /></span>`} <span class="dim">about ${count(of.tokens, "token")}</span></p>
    ${content !== null && content !== undefined && content !== "" && html`<${Passage} value=${typeof content === "string" ? content : prettyJson(content)} most=${1500} />`}
    ${(calls ?? []).map((one) => html`<p class="mono"><${Word} value=${`${one.function?.name}(${one.function?.arguments})`} /> <span class="dim"><${Word} value=${one.id} /></span></p>`)}
    ${Object.keys(others).length > 0 && html`<${Json} value=${others} />`}</div>`;
}

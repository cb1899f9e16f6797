// One turn: what the window showed, the reply, the calls with their results and changed rows.
import { useState } from "preact/hooks";
import { clock, count, decimal, number, seconds } from "../base/format.js";
import { html } from "../base/html.js";
import { href } from "../base/route.js";
import { visible } from "../base/text.js";
import { api } from "../base/source.js";
import { about } from "../base/state.js";
import { Fold, Tag } from "./basics.js";
import { CopyIcon } from "./copies.js";
import { Icon } from "./icon.js";
import { Prose } from "./markdown.js";
import { holdsPicture, Picture, pictureOf } from "./picture.js";
import { Changes, RowTable } from "./rows.js";
import { Sent } from "./sent.js";
import { Json, Passage, Word } from "./texts.js";
import { Tokens } from "./tokens.js";

const CALLS = 12; // shown at once

export function Turn({ run, data, turn, isCurrent, marks, onPick }) {
  const { line } = data;
  const own = turn.turn;
  const isDiverged = marks.divergence?.turn === own;
  return html`<article class=${`turn ${isCurrent ? "current" : ""} ${turn.is_kept ? "kept" : ""}`} tabindex="-1" aria-label=${`Turn ${own + 1}`}>
    <header class="turn-head">
      <h3><button class="link" onClick=${onPick} title="Keep this turn in the address">Turn ${own + 1}</button></h3>
      ${run && html`<${CopyIcon} text=${() => linkTo(own)} label=${`Copy the link to turn ${own + 1}`} icon="link" />`}
      ${turn.is_edited ? html`<${Tag} tone="env">Written by hand<//>` : turn.is_kept && html`<${Tag}>${data.forked_from ? "Kept from the fork's origin" : "Given by the task"}<//>`}
      ${turn.fault && html`<${Tag} tone="env">Injected fault: <${Word} value=${typeof turn.fault === "string" ? turn.fault : turn.fault.fault} /><//>`}
      <${Window} of=${turn.window} />
      <span class="spring"></span>
      <span class="dim turn-facts">${turnFacts(turn)}</span>
      ${run && html`<span class="turn-links"><a href=${href(["run", run, "episode", line.episode, "world"], { turn: own + 1 })} aria-label=${`World after turn ${own + 1}`} title="World after this turn"><${Icon} name="table" /></a>
      <a href=${href(["run", run, "episode", line.episode, "fork"], { turn: own })} aria-label=${`Fork before turn ${own + 1}`} title="Go on from before this turn: edit it, let a model play, or call tools"><${Icon} name="fork" /></a></span>`}
    </header>
    ${isDiverged && html`<div class="notice bad"><b>The replay diverges here.</b> <span>Logged: <${Word} value=${short(marks.divergence.expected)} />. Replayed: <${Word} value=${short(marks.divergence.found)} />.</span></div>`}
    ${turn.reasoning && html`<${Fold} summary=${`Reasoning, ${number(turn.reasoning.length)} characters`}><${Passage} class="reasoning" value=${turn.reasoning} most=${3000} /><//>`}
    ${turn.text && turn.text !== turn.answer && html`<${Prose} class="reply" value=${turn.text} most=${1600} />`}
    ${turn.format_error && html`<div class="notice bad"><b>The reply could not be read.</b> <${Passage} value=${turn.format_error} /></div>`}
    <${CallList} calls=${turn.calls ?? []} results=${turn.results ?? []} marks=${marks} turn=${own} times=${timesOf(turn)} />
    ${turn.answer !== null && turn.answer !== undefined && html`<div class="answer"><p class="minor">${turn.user ? "To the user" : "Answer"}</p><${Prose} value=${turn.answer || "(empty)"} most=${3000} /></div>`}
    ${turn.user && html`<${UserTurn} user=${turn.user} marks=${marks} turn=${own} />`}
    ${turn.tokens?.length > 0 && html`<${Fold} summary=${count(turn.tokens.length, "token")}><${Tokens} tokens=${turn.tokens} /><//>`}
    ${run && !about.value?.exported && html`<${Sent} path=${`${api`/api/runs/${run}/episodes/${line.episode}/sent`}?turn=${own}`} label="What the model saw" />`}
  </article>`;
}

// The address of a turn, as it is now: it has the token of this viewer.
function linkTo(turn) {
  const [path, query] = location.hash.split("?");
  const words = new URLSearchParams(query ?? "");
  words.set("turn", turn + 1);
  return `${location.href.split("#")[0]}${path}?${words}`;
}

// The seconds of each call, as far as they were logged.
function timesOf(turn) {
  const calls = turn.calls ?? [];
  return calls.length === 1 && turn.calls_s ? [turn.calls_s] : (turn.call_s ?? []);
}

const short = (value) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return (text ?? "nothing").slice(0, 400);
};

function turnFacts(turn) {
  const facts = [
    turn.reward !== null && turn.reward !== undefined && `reward ${decimal(turn.reward)}`,
    turn.format_reward !== null && turn.format_reward !== undefined && `format ${decimal(turn.format_reward)}`,
    turn.at && !turn.is_kept && clock(turn.at),
    turn.policy_s > 0 && `reply ${seconds(turn.policy_s)}`,
    turn.usage && `${number(turn.usage.prompt)} + ${number(turn.usage.completion)} tokens`,
    turn.finish && !["stop", "tool_calls"].includes(turn.finish) && `finish: ${visible(turn.finish)}`,
  ];
  return facts.filter(Boolean).join(" · ");
}

function Window({ of }) {
  if (!of || !of.dropped?.length) return null;
  const recalled = of.recalled?.length ? `, recalled ${ranges(of.recalled)}` : "";
  return html`<span class="window" title="Turns that the model did not see when it wrote this reply"><${Icon} name="clock" />Did not see ${of.dropped.length === 1 ? "turn" : "turns"} ${ranges(of.dropped)}${recalled}</span>`;
}

// [0, 1, 2, 5] -> "1–3, 6": people count turns from 1
function ranges(turns) {
  const found = [];
  for (const turn of turns) {
    const last = found.at(-1);
    if (last && last[1] === turn - 1) last[1] = turn;
    else found.push([turn, turn]);
  }
  return found.map(([from, to]) => (from === to ? from + 1 : `${from + 1}–${to + 1}`)).join(", ");
}

function CallList({ calls, results, marks, turn, byUser, times = [] }) {
  const [most, setMost] = useState(CALLS);
  const shown = calls.slice(0, most);
  return html`${shown.map((call, i) => html`<${Call} call=${call} result=${results[i]} index=${i} byUser=${byUser} took=${times[i]}
      isWrong=${!byUser && marks?.write?.isSure && marks.write.turn === turn && marks.write.call === i} />`)}
    ${calls.length > most && html`<button class="button" onClick=${() => setMost(most + 4 * CALLS)}>Show more of ${number(calls.length)} calls</button>`}`;
}

function UserTurn({ user, marks, turn }) {
  return html`<div class="user-turn"><p class="minor">User</p><${CallList} calls=${user.calls ?? []} results=${user.results ?? []} marks=${marks} turn=${turn} byUser />
    <${Passage} value=${user.text} />${user.ended && html`<p class="dim">The user ends the talk.</p>`}</div>`;
}

export function Call({ call, result, index, isWrong, byUser, took }) {
  const [isOpen, setOpen] = useState(true);
  const changes = result?.changes ?? [];
  const isPlain = call.arguments === null || typeof call.arguments !== "object" || Object.keys(call.arguments).length === 0;
  return html`<div class=${`call ${changes.length ? "writes" : ""} ${result?.error ? "failed" : ""} ${isWrong ? "wrong" : ""}`} data-call=${byUser ? undefined : index} tabindex="-1" role="group" aria-label=${`Call ${visible(call.name)}`}>
    <div class="call-body">
      <div class=${`call-head ${isOpen ? "open" : ""}`}><button class="call-fold" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)} title=${isOpen ? "Fold" : "Unfold"}><${Icon} name="right" /><${Word} value=${call.name} class="mono strong" /></button>
        ${call.known === false && html`<${Tag} tone="bad">Unknown tool<//>`}
        ${isWrong && html`<${Tag} tone="bad">First wrong write<//>`}
        ${result?.injected && html`<${Tag} tone="env">Injected result<//>`}
        ${took > 0 && html`<span class="dim figure">${seconds(took)}</span>`}<span class="spring"></span>
        <${CopyIcon} text=${() => JSON.stringify({ name: call.name, arguments: call.arguments }, null, 2)} label="Copy the call as JSON">JSON<//>
        ${result && html`<${CopyIcon} text=${result.text ?? ""} label="Copy the result">Result<//>`}</div>
      ${isOpen && html`${isPlain ? typeof call.arguments === "string" && html`<${Passage} class="mono" value=${call.arguments} />` : html`<div class="arguments"><${Json} value=${call.arguments} /></div>`}
      ${(result?.asked ?? []).map((one) => html`<${ServerRequest} of=${one} />`)}
      <${Result} result=${result} name=${call.name} />`}
    </div>
    ${isOpen && changes.length > 0 && html`<${Changes} changes=${changes} />`}
  </div>`;
}

// What the world's server asked during a call (elicitation, sampling), and what it was answered.
function ServerRequest({ of }) {
  return html`<div class="server-request"><p class="minor">The server asked: <${Word} value=${of.method} /></p>
    ${typeof of.said === "string" ? html`<${Passage} value=${of.said} />` : html`<${Json} value=${of.said ?? of.params} />`}
    ${of.answer === null ? html`<p class="minor">Refused</p><${Passage} value=${of.refusal} />` : html`<p class="minor">It was answered</p><${Json} value=${of.answer} />`}</div>`;
}

// A result as the table, the fields or the text that it is.
export function Result({ result, name }) {
  const [isRaw, setRaw] = useState(false);
  if (!result) return html`<p class="dim">No result was logged.</p>`;
  if (result.error) return html`<div class="result error"><${Tag} tone="bad">${result.error.replaceAll("_", " ")}<//><${Passage} value=${result.text} /></div>`;
  const picture = pictureOf(result.text.trim());
  if (picture) return html`<div class="result"><${Picture} src=${picture} /></div>`;
  const isPictured = holdsPicture(result.text);
  const json = result.rows && !isPictured ? undefined : parse(result.text);
  const isFormed = Boolean(result.rows) || json !== undefined;
  return html`<div class="result">
    ${isRaw || !isFormed
      ? html`<${isRaw || result.text === "" ? Passage : Prose} class="mono" value=${result.text === "" ? "(empty)" : result.text} most=${1200} />`
      : result.rows && json === undefined
        ? html`<${RowTable} columns=${result.columns} rows=${result.rows} label=${`Result of ${visible(name)}`} />`
        : html`<${Json} value=${json} />`}
    ${isFormed && html`<button class="link raw" onClick=${() => setRaw(!isRaw)}>${isRaw ? "Show laid out" : "Show as text"}</button>`}
  </div>`;
}

// The object or list in a text; undefined: it is something else.
function parse(text) {
  if (!/^\s*[[{]/.test(text) || text.length > 2_000_000) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

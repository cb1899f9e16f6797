// Which turn is to blame: the chance of success before each turn, with intervals, and what the oracle
// could still do. People count turns from 1; the data counts from 0.
import { useState } from "preact/hooks";
import { count, percent, words } from "../base/format.js";
import { html } from "../base/html.js";
import { usePolled } from "../base/hooks.js";
import { route, setQuery } from "../base/route.js";
import { api, post } from "../base/source.js";
import { visible } from "../base/text.js";
import { Command, Notice } from "./basics.js";
import { Word } from "./texts.js";

const ORACLE = { goes_on: "the oracle completes the task", puts_right: "the oracle completes the task, if it puts right what was done", lost: "no way was found", unknown: "no oracle" };
const RESCUES = { argument: "another argument", arguments: "other arguments", drop: "without the call", insert: "what is missing comes first", answer: "another answer", put_right: "calls that put right what was done" };
const HEIGHT = 96;

export function Blame({ run, data, onTurn }) {
  const [who, setWho] = useState({ policy: "", model: "", base_url: "" });
  const [tries, setTries] = useState(8);
  const [state, setState] = useState({});
  const asked = route.value.query.get("blame");
  const start = async (event) => {
    event.preventDefault();
    setState({ isBusy: true });
    const forks = Math.max(0, Math.min(64, Math.trunc(Number(tries)) || 0));
    try {
      const { id } = await post(api`/api/runs/${run}/episodes/${data.line.episode}/blame`, { tries: forks, ...(who.policy === "openai" ? who : { policy: who.policy }) });
      setQuery({ blame: id });
      setState({});
    } catch (error) {
      setState({ error: error.message });
    }
  };
  return html`<section class="card blame" aria-label="The turn to blame"><h2>The turn to blame</h2>
    <p class="dim">Episodes are forked before each turn: by a policy, for the chance of success, and by an oracle that knows the solution.</p>
    <form class="blame-form" onSubmit=${start}>
      <label class="field"><span>Who plays the forks</span><select value=${who.policy} onChange=${(event) => setWho({ ...who, policy: event.currentTarget.value })}>
        <option value="">${`The run's policy (${visible(data.policy)})`}</option><option value="openai">Another model</option><option value="oracle">The task's solution (oracle)</option></select></label>
      ${who.policy === "openai" && html`<label class="field"><span>Model</span><input type="text" value=${who.model} autocomplete="off" spellcheck="false" onInput=${(event) => setWho({ ...who, model: event.currentTarget.value })} /></label>
        <label class="field"><span>URL of its server</span><input type="text" value=${who.base_url} placeholder="empty: that of the run" autocomplete="off" spellcheck="false" onInput=${(event) => setWho({ ...who, base_url: event.currentTarget.value })} /></label>`}
      <label class="field"><span>Forks of each turn</span><input type="number" min="0" max="64" value=${tries} onInput=${(event) => setTries(event.currentTarget.value)} /></label>
      <button class="button primary" disabled=${state.isBusy || (who.policy === "openai" && !who.model)}>Find the turn</button>
    </form>
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    ${asked && asked !== "new" && html`<${Asked} id=${asked} key=${asked} onTurn=${onTurn} />`}
  </section>`;
}

function Asked({ id, onTurn }) {
  const { data, error } = usePolled(api`/api/blames/${id}`, (found) => !found.is_over);
  if (error) return html`<${Notice} tone="bad" role="alert">${visible(error)}<//>`;
  if (!data) return html`<p class="loading" role="status">Loading…</p>`;
  return html`${!data.is_over && html`<p class="loading" role="status">The forks are played.</p>`}
    ${data.error && html`<${Notice} tone="bad" role="alert">${visible(data.error)}<//>`}
    ${data.found && html`<${Found} of=${data.found} onTurn=${onTurn} />`}
    <p class="dim">The command line does the same:</p><${Command} text=${data.command} />`;
}

function Found({ of, onTurn }) {
  const { blamed, rescue } = of;
  return html`<p role="status">${blamed === null ? "No turn can be blamed: " : html`<button class="link blamed" onClick=${() => onTurn(blamed)}>Turn ${blamed + 1} is to blame</button>: `}<${Word} value=${of.why} />.</p>
    <${Curve} of=${of} onTurn=${onTurn} />
    ${rescue && html`<p>The smallest edit of turn ${rescue.turn + 1} that rescues it (${RESCUES[rescue.kind] ?? words(rescue.kind)}): <code><${Word} value=${rescue.instead} /></code></p><${Command} text=${rescue.command} />`}
    ${(of.notes ?? []).map((note) => html`<p class="dim"><${Word} value=${note} /></p>`)}`;
}

function said(state) {
  const chance = state.chance ? `chance ${percent(state.chance.value)} (${percent(state.chance.lower)} to ${percent(state.chance.upper)}), ${state.completed} of ${state.graded} forks` : "no chance known";
  const without = state.ungraded ? `, ${state.ungraded} without a verdict` : "";
  return `${chance}${without}; ${ORACLE[state.oracle]}`;
}

function Curve({ of, onTurn }) {
  const { states, blamed } = of;
  const places = states.length + 1; // the last one is the verdict
  const x = (i) => (100 * (i + 0.5)) / places;
  const y = (share) => HEIGHT * (1 - share);
  const known = states.filter((one) => one.chance);
  const line = [...known.map((one) => `${x(one.turns)},${y(one.chance.value)}`), ...(known.length ? [`${x(states.length)},${y(0)}`] : [])].join(" ");
  const wide = { minWidth: `${places * 26}px` };
  return html`<figure class="blame-curve"><figcaption>${known.length ? html`Chance of success before each turn, played by <${Word} value=${of.policy} />, with 95% intervals` : "What the oracle could still do before each turn"}</figcaption>
    <div class="scroll-x" tabindex="0" role="group" aria-label="Chance before each turn"><div style=${wide}>
      ${known.length > 0 && html`<div class="plot" aria-hidden="true"><svg viewBox=${`0 0 100 ${HEIGHT}`} preserveAspectRatio="none">
        ${[0, 0.5, 1].map((share) => html`<line class="axis" x1="0" x2="100" y1=${y(share)} y2=${y(share)} />`)}
        ${blamed !== null && html`<line class="fault" x1=${x(blamed + 0.5)} x2=${x(blamed + 0.5)} y1="0" y2=${HEIGHT} />`}
        ${known.map((one) => html`<line class="range" x1=${x(one.turns)} x2=${x(one.turns)} y1=${y(one.chance.lower)} y2=${y(one.chance.upper)} />`)}
        <polyline points=${line} />
        ${known.map((one) => html`<line class="point" x1=${x(one.turns)} x2=${x(one.turns)} y1=${y(one.chance.value)} y2=${y(one.chance.value)} />`)}
      </svg>${[0, 0.5, 1].map((share) => html`<span style=${{ top: `${8 + 120 * (1 - share)}px` }}>${percent(share)}</span>`)}</div>`}
      <ol style=${{ gridTemplateColumns: `repeat(${places}, 1fr)` }}>${states.map((one, i) => html`<li><button class=${`${one.oracle} ${i === blamed ? "fault" : ""}`} title=${said(one)} aria-label=${`Turn ${i + 1}${i === blamed ? ", to blame" : ""}: before it ${said(one)}`} onClick=${() => onTurn(i)}>${i + 1}</button></li>`)}<li><span class="end" title="the verdict">end</span></li></ol>
    </div></div>
    <p class="dim small key"><span class="goes_on">the oracle completes it</span><span class="puts_right">if it puts right what was done</span><span class="lost">no way was found</span></p>
    <p class="sr-only">${count(states.length, "turn")}</p></figure>`;
}

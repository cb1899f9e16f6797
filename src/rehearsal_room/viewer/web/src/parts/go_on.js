// Go on from a turn: edit it, choose who plays, see the command, and the tries beside the original.
import { useEffect, useMemo, useState } from "preact/hooks";
import { count, decimal, labelName, percent, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLatest, usePolled } from "../base/hooks.js";
import { episodeHref, route, setQuery } from "../base/route.js";
import { api, post } from "../base/source.js";
import { visible } from "../base/text.js";
import { Command, Fold, Interval, Label, Notice } from "./basics.js";
import { Word } from "./texts.js";

const pretty = (value) => JSON.stringify(value ?? {}, null, 2);
const drafted = (next) => ({
  text: next?.text ?? "",
  calls: (next?.calls ?? []).map((one) => ({ name: one.name, args: pretty(one.arguments), result: one.result ?? "", error: one.error, isGiven: false })),
});

export function GoOn({ id, data }) {
  const origin = useMemo(() => drafted(data.next), [data.id]);
  const [turn, setTurn] = useState(origin);
  const [instruction, setInstruction] = useState(data.instruction);
  // An own agent keeps its own memory and cannot begin in the middle: its model goes on without it,
  // as in "agent:plain+openai:small".
  const isAgent = data.policy.startsWith("agent:");
  const [who, setWho] = useState({ policy: isAgent ? "openai" : "", model: data.policy.split("+openai:")[1] ?? "", base_url: "" });
  const [tries, setTries] = useState(5);
  const [shown, setShown] = useState({});
  const [state, setState] = useState({});
  let going, fault;
  try {
    going = { edit: editOf(data, origin, turn, instruction), tries: Math.max(1, Math.min(64, Math.trunc(Number(tries)) || 1)), ...(who.policy === "openai" ? who : { policy: who.policy }) };
  } catch (error) {
    fault = error.message;
  }
  const body = going && JSON.stringify(going);
  const latest = useLatest(body);
  useEffect(() => {
    if (!body) return undefined;
    const timer = setTimeout(() => {
      post(api`/api/scratch/${id}/tries/command`, JSON.parse(body)).then(
        (found) => latest.current === body && setShown(found),
        (error) => latest.current === body && setShown({ fault: error.message }),
      );
    }, 250);
    return () => clearTimeout(timer);
  }, [body]);
  const play = async (event) => {
    event.preventDefault();
    if (!going) return;
    setState({ isBusy: true });
    try {
      const { id: started } = await post(api`/api/scratch/${id}/tries`, going);
      setQuery({ tries: started });
      setState({});
    } catch (error) {
      setState({ error: error.message });
    }
  };
  const problem = fault ?? shown.fault;
  const number = data.turn + 1;
  const isChanged = Boolean(going?.edit.turns);
  const started = route.value.query.get("tries");
  return html`<section class="card go-on" aria-label="Go on from here"><h2>Go on from here</h2>
    <form class="go-on-form" onSubmit=${play}>
      <div class="go-on-edit">${data.calls.length > 0
        ? html`<p>Your ${count(data.calls.length, "call")} below ${data.calls.length === 1 ? "is" : "are"} played first, as the agent's own, one in each turn.</p>`
        : html`<${TurnEditor} number=${number} turn=${turn} onChange=${setTurn} isChanged=${isChanged} hasNext=${Boolean(data.next)} />`}
        <${Fold} summary=${instruction === data.instruction ? "Edit the instruction" : "The instruction is edited"}><label class="field"><span>Instruction</span><textarea rows="4" value=${instruction} onInput=${(event) => setInstruction(event.currentTarget.value)}></textarea></label><//>
      </div>
      <div class="go-on-who">
        <label class="field"><span>Who goes on</span><select value=${who.policy} onChange=${(event) => setWho({ ...who, policy: event.currentTarget.value })}>
          ${!isAgent && html`<option value="">${`The run's policy (${visible(data.policy)})`}</option>`}<option value="openai">Another model</option><option value="oracle">The task's solution (oracle)</option></select></label>
        ${isAgent && html`<p class="dim small">The agent keeps its own memory and cannot begin here.</p>`}
        ${who.policy === "openai" && html`<label class="field"><span>Model</span><input type="text" value=${who.model} autocomplete="off" spellcheck="false" onInput=${(event) => setWho({ ...who, model: event.currentTarget.value })} /></label>
          <label class="field"><span>URL of its server <i class="dim">empty: that of the run, or of the environment</i></span><input type="text" value=${who.base_url} placeholder="http://127.0.0.1:8000/v1" autocomplete="off" spellcheck="false" onInput=${(event) => setWho({ ...who, base_url: event.currentTarget.value })} /></label>
          <p class="dim small">The key is OPENAI_API_KEY of the viewer's environment. It is not sent to a server that only this form names.</p>`}
        <label class="field"><span>Tries</span><input type="number" min="1" max="64" value=${tries} onInput=${(event) => setTries(event.currentTarget.value)} /></label>
        <button class="button primary" disabled=${state.isBusy || Boolean(problem) || !going}>Play ${count(going?.tries ?? 0, "try", "tries")}</button>
      </div>
    </form>
    ${problem && html`<${Notice} role="status">${visible(problem)}<//>`}
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    ${!problem && shown.command && html`<p class="dim">The command line does the same:</p><${Command} text=${shown.command} />`}
    ${started && html`<${Tries} id=${started} key=${started} />`}
  </section>`;
}

// What is changed, as `--edit` has it. Raises an Error with a sentence.
function editOf(data, origin, turn, instruction) {
  const edit = {};
  if (instruction !== data.instruction) edit.instruction = instruction;
  if (data.calls.length > 0) edit.turns = data.calls.map((one) => ({ calls: [{ name: one.tool, arguments: one.arguments }] }));
  else if (JSON.stringify(turn) !== JSON.stringify(origin)) edit.turns = [writtenTurn(data, origin, turn)];
  return edit;
}

// In a dialect other than `native` the calls stand in the text, too.
function writtenTurn(data, origin, turn) {
  const isText = data.dialect !== "native";
  const areCallsEdited = JSON.stringify(turn.calls) !== JSON.stringify(origin.calls);
  if (isText && !areCallsEdited) return { text: turn.text };
  const text = isText ? turn.text.replace(/<tool_call>[^]*?(<\/tool_call>|$)/g, "").replace(/<think>[^]*?<\/think>/g, "").trim() : turn.text;
  const calls = turn.calls.map((one, i) => {
    const call = { name: one.name, arguments: readObject(one.args, i) };
    if (one.isGiven) call.result = one.result;
    if (one.isGiven && ["unknown_tool", "arguments", "refused"].includes(one.error)) call.error = one.error;
    return call;
  });
  return { ...(text && { text }), ...(calls.length > 0 && { calls }) };
}

function readObject(text, i) {
  let found;
  try {
    found = JSON.parse(text || "{}");
  } catch {
    throw new Error(`Arguments of call ${i + 1}: this is not JSON.`);
  }
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new Error(`Arguments of call ${i + 1}: expected an object such as {"id": 7}.`);
  return found;
}

function TurnEditor({ number, turn, onChange, isChanged, hasNext }) {
  const setCall = (i, change) => onChange({ ...turn, calls: turn.calls.map((one, j) => (i === j ? { ...one, ...change } : one)) });
  const add = () => onChange({ ...turn, calls: [...turn.calls, { name: "", args: "{}", result: "", isGiven: false }] });
  return html`<p class="dim">${isChanged ? `Turn ${number} is played as you wrote it. Whoever goes on plays from turn ${number + 1}.` : `If you change nothing, whoever goes on plays turn ${number} as well. If you change the reply, a call or a result, turn ${number} is played as you wrote it.`}</p>
    <label class="field"><span>Reply of turn ${number}${hasNext ? "" : " (none was logged)"}</span><textarea rows="3" value=${turn.text} onInput=${(event) => onChange({ ...turn, text: event.currentTarget.value })}></textarea></label>
    ${turn.calls.map((one, i) => html`<fieldset class="call-editor"><legend>Call ${i + 1}</legend>
      <label class="field"><span>Tool</span><input type="text" class="mono" value=${one.name} spellcheck="false" onInput=${(event) => setCall(i, { name: event.currentTarget.value })} /></label>
      <label class="field"><span>Arguments, JSON</span><textarea class="mono" rows="3" spellcheck="false" value=${one.args} onInput=${(event) => setCall(i, { args: event.currentTarget.value })}></textarea></label>
      <label class="check"><input type="checkbox" checked=${one.isGiven} onChange=${(event) => setCall(i, { isGiven: event.currentTarget.checked })} /> Give this result; the call is not made and changes no row</label>
      ${one.isGiven && html`<label class="field"><span>Result of call ${i + 1}</span><textarea class="mono" rows="3" value=${one.result} onInput=${(event) => setCall(i, { result: event.currentTarget.value })}></textarea></label>`}
      <button type="button" class="link" onClick=${() => onChange({ ...turn, calls: turn.calls.filter((_, j) => j !== i) })}>Remove call ${i + 1}</button></fieldset>`)}
    <div><button type="button" class="button" onClick=${add}>Add a call</button></div>`;
}

// Whether a try has not ended, or has no verdict yet.
const hasMore = (data) => !data.is_over || data.rows.some((row) => row.ending && !row.label && !row.unjudged);

// The tries as they come, below the original.
function Tries({ id }) {
  const { data, error } = usePolled(api`/api/tries/${id}`, hasMore);
  if (error) return html`<${Notice} tone="bad" role="alert">${visible(error)}<//>`;
  if (!data) return html`<p class="loading" role="status">Loading…</p>`;
  return html`<div class="tries" role="group" aria-label="Tries">
    <p role="status">${data.is_over ? `${count(data.rows.length, "try", "tries")} played` : `${data.rows.filter((row) => row.ending).length} of ${count(data.tries, "try", "tries")} over`}${data.run && html`, in <a href=${`#/run/${encodeURIComponent(data.run)}`}>the run of the tries</a>`}.</p>
    ${data.error && html`<${Notice} tone="bad" role="alert">${visible(data.error)}<//>`}
    <dl class="shares"><${Share} name="Before: tries at this task in the run" of=${data.before} /><${Share} name="After: these tries" of=${data.after} /></dl>
    <div class="scroll-x" tabindex="0" role="group" aria-label="The original and the tries"><table class="rows"><thead><tr><th scope="col">Episode</th><th scope="col">Label</th><th scope="col">Reward</th><th scope="col">Turns</th><th scope="col">Ending</th></tr></thead>
      <tbody><${TryRow} name="Original" run=${data.original_run} row=${data.original} />${data.rows.map((row, i) => html`<${TryRow} name=${`Try ${i + 1}`} run=${data.run} row=${row} />`)}</tbody></table></div>
  </div>`;
}

function Share({ name, of }) {
  const { share } = of;
  return html`<div><dt>${name}</dt><dd>${share ? html`<b class="figure">${percent(share.value)}</b> <${Interval} ...${share} /> ` : ""}<span class="dim">${of.completed} of ${of.judged} completed</span></dd></div>`;
}

function TryRow({ name, run, row }) {
  return html`<tr><td><a href=${episodeHref(run, row.episode)}>${name}</a> <span class="mono dim"><${Word} value=${row.episode} /></span></td><td><${Label} name=${labelName(row)} small /></td><td class="figure">${decimal(row.reward)}</td><td class="figure">${row.turns}</td><td>${row.ending ? words(row.ending) : "playing"}</td></tr>`;
}

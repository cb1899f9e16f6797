// A scratch world that goes on from a turn: call tools, see rows change, be judged.
import { useEffect, useState } from "preact/hooks";
import { count } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { episodeHref, go, href, route } from "../base/route.js";
import { api, post, remove } from "../base/source.js";
import { canDo } from "../base/state.js";
import { visible } from "../base/text.js";
import { Command, Fold, Loaded, Notice } from "../parts/basics.js";
import { CallLog } from "../parts/call_log.js";
import { GoOn } from "../parts/go_on.js";
import { Passage, Word } from "../parts/texts.js";
import { ToolForm } from "../parts/tool_form.js";
import { Verdict } from "../parts/verdict.js";
import { Sql, WorldTables } from "../parts/world_tables.js";
import { Crumbs } from "./episode.js";

export function Fork({ run, episode, scratch }) {
  useTitle("Fork");
  if (!canDo("scratch")) return html`<${Notice}>A fork needs <code>rehearse view</code>: an exported file has no world to go on with.<//>`;
  return scratch ? html`<${Open} id=${scratch} key=${scratch} />` : html`<${Opening} run=${run} episode=${episode} />`;
}

// Leases the world, then shows it under its own address.
function Opening({ run, episode }) {
  const [error, setError] = useState(null);
  const { query } = route.value;
  useEffect(() => {
    const from = episode
      ? { run, episode, turn: Number(query.get("turn") ?? 0) }
      : { scenario: query.get("scenario"), task: query.get("task") ?? undefined };
    post("/api/scratch", from).then(
      ({ id }) => location.replace(href(["fork", id])),
      (problem) => setError(problem.message),
    );
  }, [run, episode]);
  return error ? html`<${Notice} tone="bad" role="alert">${visible(error)}<//>` : html`<p class="loading" role="status">Making a world that goes on from here…</p>`;
}

function Open({ id }) {
  const load = useLoad(api`/api/scratch/${id}`);
  return html`<${Loaded} of=${load}>${(data) => html`<${Scratch} id=${id} data=${data} reload=${load.reload} />`}<//>`;
}

function Scratch({ id, data, reload }) {
  const [view, setView] = useState("calls");
  const { run, episode, turn, calls } = data;
  const close = async () => {
    await remove(api`/api/scratch/${id}`).catch(() => {});
    go(episode ? episodeHref(run, episode, { turn: turn || undefined }) : href(["worlds"]));
  };
  const call = async (tool, args) => {
    await post(api`/api/scratch/${id}/call`, { tool, arguments: args });
    setView("calls");
    reload();
  };
  return html`
    ${episode ? html`<${Crumbs} run=${run} data=${{ line: { group: data.group ?? "", task: data.task, episode } }} />` : html`<nav class="crumbs" aria-label="Path"><a href=${href(["worlds"])}>Worlds</a></nav>`}
    <div class="page-head"><h1>Fork <span class="dim">${episode ? html`of <a class="mono" href=${episodeHref(run, episode, { turn: turn || undefined })}>${episode}</a> ${turn ? `after turn ${turn}` : "at the start"}` : html`of <${Word} value=${data.scenario} />`}</span></h1><span class="spring"></span>
      <button class="button" onClick=${close}>Close this world</button></div>
    ${episode && html`<${GoOn} id=${id} data=${data} />`}
    ${data.command && html`<p class="dim">Agents go on from the same state with:</p><${Command} text=${data.command} />`}
    <div class="workbench">
      <section class="card" aria-label="Tools"><h2>Call a tool</h2><${ToolForm} tools=${data.tools} onCall=${call} /></section>
      <section class="stretch" aria-label="Calls and world">
        <div class="chips" role="group" aria-label="Show">${[["calls", `Calls (${calls.length})`], ["world", "World"]].map(([name, text]) => html`<button class="chip" aria-pressed=${view === name} onClick=${() => setView(name)}>${text}</button>`)}</div>
        ${view === "calls" ? html`<${CallLog} calls=${calls} />` : html`<${ScratchWorld} id=${id} version=${calls.length} />`}
      </section>
      <aside class="bench-side" aria-label="Task and verdict">
        ${data.instruction && html`<section class="card"><h2>Task</h2><${Passage} value=${data.instruction} />${data.rules && html`<${Fold} summary="Rules of the world"><${Passage} value=${data.rules} most=${4000} /><//>`}</section>`}
        ${data.task && html`<${JudgeBox} id=${id} version=${calls.length} />`}
      </aside>
    </div>`;
}

function ScratchWorld({ id, version }) {
  const base = api`/api/scratch/${id}/world`;
  const load = useLoad(`${base}?version=${version}`);
  const [table, setTable] = useState("");
  const [only, setOnly] = useState("all");
  return html`<${Loaded} of=${load}>${(world) => html`<${WorldTables} world=${world} base=${base} query=${`version=${version}`} table=${table} onTable=${setTable} only=${only} onOnly=${setOnly} /><${Sql} path=${api`/api/scratch/${id}/sql`} table=${table} />`}<//>`;
}

function JudgeBox({ id, version }) {
  const [answer, setAnswer] = useState("");
  const [state, setState] = useState({});
  const judge = async (event) => {
    event.preventDefault();
    setState({ isBusy: true });
    try {
      setState({ verdict: await post(api`/api/scratch/${id}/judge`, { answer }), version });
    } catch (error) {
      setState({ error: error.message });
    }
  };
  return html`<section class="card"><h2>Judge this world</h2><form class="tool-form" onSubmit=${judge}>
    <label class="field"><span>Final answer</span><textarea value=${answer} onInput=${(event) => setAnswer(event.currentTarget.value)}></textarea></label>
    <div><button class="button primary" disabled=${state.isBusy}>Judge</button></div></form>
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    ${state.verdict && html`<div role="status" class="judged">${state.version !== version && html`<p class="dim">This verdict is from before the last ${count(version - state.version, "call")}.</p>`}<${Verdict} of=${state.verdict} /></div>`}
  </section>`;
}

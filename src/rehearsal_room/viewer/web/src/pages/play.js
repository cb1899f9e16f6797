// A person plays a task: the rules, the tools as forms, the answer, and the verdict.
import { useEffect, useState } from "preact/hooks";
import { words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { episodeHref, go, href, route, setQuery } from "../base/route.js";
import { api, post, remove } from "../base/source.js";
import { canDo } from "../base/state.js";
import { visible } from "../base/text.js";
import { Fold, Loaded, Notice, Tag } from "../parts/basics.js";
import { CallLog } from "../parts/call_log.js";
import { Grid } from "../parts/grid.js";
import { Passage, Word } from "../parts/texts.js";
import { ToolForm } from "../parts/tool_form.js";
import { Verdict } from "../parts/verdict.js";

export function PlayChoice() {
  useTitle("Play");
  const worlds = useLoad("/api/worlds");
  if (!canDo("play")) return html`<${Notice}>Playing needs <code>rehearse view</code>.<//>`;
  return html`<div class="page-head"><h1>Play a task yourself</h1></div>
    <p class="lead dim">You get what an agent gets: the rules, the tools and the task. What you do is logged and judged as any episode.</p>
    <${Loaded} of=${worlds}>${(found) => html`<${Choice} worlds=${found.worlds} />`}<//>`;
}

function Choice({ worlds }) {
  const { query } = route.value;
  const name = query.get("world") ?? worlds[0]?.name ?? "";
  const load = useLoad(name ? api`/api/worlds/${name}` : null);
  const [state, setState] = useState({});
  const start = async (task) => {
    setState({ isBusy: true });
    try {
      const { id } = await post("/api/play", { scenario: name, task });
      go(href(["play", id]));
    } catch (error) {
      setState({ error: error.message });
    }
  };
  return html`<div class="bar"><label class="field world-pick"><span>World</span><select value=${name} onChange=${(event) => setQuery({ world: event.currentTarget.value })}>${worlds.map((one) => html`<option value=${one.name}>${visible(one.name)}</option>`)}</select></label></div>
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    <${Loaded} of=${load}>${(world) => html`<${Grid} label="Tasks" total=${world.tasks.length} rowAt=${(i) => world.tasks[i]} rowHeight=${60} onOpen=${(task) => !state.isBusy && start(task.id)} columns=${[
      { key: "task", title: "Task", width: 180, grow: 4, render: (task) => html`<span class="stack"><b class="strong"><${Word} value=${task.id} /></b><span class="dim ellipsis"><${Word} value=${task.instruction} /></span></span>` },
      { key: "difficulty", title: "Difficulty", width: 90, priority: 1, render: (task) => task.difficulty && html`<${Tag}>${words(task.difficulty)}<//>` },
      { key: "go", title: "", label: "Play", width: 70, end: true, render: (task) => html`<button class="button" tabindex="-1" disabled=${state.isBusy} onClick=${() => start(task.id)}>Play</button>` },
    ]} />`}<//>`;
}

export function Play({ id }) {
  useTitle("Play");
  const load = useLoad(api`/api/play/${id}`);
  return html`<${Loaded} of=${load}>${(data) => html`<${Table} id=${id} data=${data} reload=${load.reload} />`}<//>`;
}

function Table({ id, data, reload }) {
  const [error, setError] = useState(null);
  const [answer, setAnswer] = useState("");
  const [talk, setTalk] = useState([]);
  const isOver = data.ended || Boolean(data.result);
  useEffect(() => {
    if (!data.ended || data.result) return undefined;
    const timer = setTimeout(reload, 500); // the judge is at work
    return () => clearTimeout(timer);
  }, [data]);
  const give = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const found = await post(api`/api/play/${id}/answer`, { text: answer });
      if (found.user) setTalk((now) => [...now, { me: answer, user: found.user }]);
      setAnswer("");
      reload();
    } catch (problem) {
      setError(problem.message);
    }
  };
  const leave = async () => {
    await remove(api`/api/play/${id}`).catch(() => {});
    go(href(["play"]));
  };
  const call = async (tool, args) => {
    await post(api`/api/play/${id}/call`, { tool, arguments: args });
    reload();
  };
  return html`<nav class="crumbs" aria-label="Path"><a href=${href(["play"])}>Play</a></nav>
    <div class="page-head"><h1><${Word} value=${data.task} /></h1>${isOver && html`<${Tag}>Over<//>`}<span class="spring"></span>
      ${!isOver && html`<button class="button" onClick=${leave}>Leave without an answer</button>`}</div>
    ${data.result && html`<${Result} data=${data} />`}
    <div class="workbench">
      <section class="card" aria-label="Tools"><h2>Call a tool</h2><${ToolForm} tools=${data.tools} onCall=${call} isOver=${isOver} /></section>
      <section class="stretch" aria-label="Calls"><h2 class="section">Calls</h2><${CallLog} calls=${data.calls} /></section>
      <aside class="bench-side" aria-label="Task and answer">
        <section class="card"><h2>Task</h2><${Passage} value=${data.instruction} most=${3000} />
          <p class="dim small">${[data.user && `You are logged in as ${data.user}.`, data.now && `The time is ${data.now}.`].filter(Boolean).join(" ")}</p>
          ${data.rules && html`<${Fold} summary="Rules of the world" open><${Passage} value=${data.rules} most=${4000} /><//>`}</section>
        <section class="card"><h2>${data.is_dialogue ? "Talk to the user" : "Answer"}</h2>
          ${talk.map((one) => html`<div class="answer"><p class="minor">You</p><${Passage} value=${one.me} /></div><div class="user-turn"><p class="minor">User</p><${Passage} value=${one.user} /></div>`)}
          <form class="tool-form" onSubmit=${give}><label class="field"><span>${data.is_dialogue ? "What you say" : "Final answer"}</span><textarea value=${answer} disabled=${isOver} onInput=${(event) => setAnswer(event.currentTarget.value)}></textarea></label>
            ${error && html`<${Notice} tone="bad" role="alert">${visible(error)}<//>`}
            <div><button class="button primary" disabled=${isOver}>${data.is_dialogue ? "Say" : "Give the answer"}</button></div></form></section>
      </aside>
    </div>`;
}

function Result({ data }) {
  const episode = data.run && data.episode ? data : null;
  const load = useLoad(episode ? api`/api/runs/${data.run}/episodes/${data.episode}` : null);
  const verdict = load.data?.verdicts?.at(-1);
  return html`<section class="card" role="status" aria-label="Result">${verdict ? html`<${Verdict} of=${verdict} />` : html`<h2>The episode is over</h2>`}
    ${episode && html`<p><a href=${episodeHref(data.run, data.episode)}>Look at the episode</a></p>`}</section>`;
}

// One world: its rules, tables, tools, tasks with their solutions, and what the gate found.
import { useEffect, useState } from "preact/hooks";
import { count, date, number, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { go, href } from "../base/route.js";
import { api, post } from "../base/source.js";
import { canDo } from "../base/state.js";
import { Fold, Loaded, Notice, Tabs, Tag } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { TableView } from "../parts/table_view.js";
import { Json, Passage, Word } from "../parts/texts.js";
import { Turn } from "../parts/turn.js";
import { VirtualList } from "../parts/virtual_list.js";

export function WorldPackage({ name, tab = "tasks", item }) {
  useTitle(name);
  const load = useLoad(api`/api/worlds/${name}`);
  const to = (one) => href(["worlds", name, one]);
  return html`<nav class="crumbs" aria-label="Path"><a href=${href(["worlds"])}>Worlds</a>${item && html`<${Icon} name="right" /><a href=${href(["worlds", name])}><${Word} value=${name} /></a>`}</nav>
    <${Loaded} of=${load}>${(world) => html`
      <div class="page-head"><h1><${Word} value=${item && tab === "oracle" ? item : world.name} /></h1>${item && tab === "oracle" && html`<${Tag}>Solution<//>`}<span class="spring"></span>
        ${canDo("scratch") && html`<a class="button" href=${href(["fork"], { scenario: name, task: tab === "oracle" ? item : undefined })}><${Icon} name="fork" />Scratch world</a>`}
        ${canDo("play") && html`<a class="button" href=${href(["play"], { world: name })}><${Icon} name="play" />Play</a>`}</div>
      ${tab === "oracle" && item ? html`<${Oracle} name=${name} task=${item} />` : html`
        <${Tabs} label="Views of the world" current=${tab} items=${[["tasks", `Tasks (${world.tasks.length})`, to("tasks")], ["tables", `Tables (${world.tables.length})`, to("tables")], ["tools", `Tools (${world.tools.length})`, to("tools")], ["rules", "Rules", to("rules")], ["gate", "Gate", to("gate")]]} />
        ${tabView(tab, name, world, item)}`}`}<//>`;
}

function tabView(tab, name, world, item) {
  if (tab === "tables") return html`<${Tables} name=${name} world=${world} table=${item} />`;
  if (tab === "tools") return html`<${Tools} tools=${world.tools} />`;
  if (tab === "rules") return html`<section class="card"><${Passage} value=${world.rules || "This world has no rules."} most=${20000} /><p class="dim small">${[world.user && `User: ${world.user}.`, world.now && `Time: ${world.now}.`].filter(Boolean).join(" ")}</p></section>`;
  if (tab === "gate") return html`<${Gate} name=${name} known=${world.gate} />`;
  return html`<${Tasks} name=${name} tasks=${world.tasks} />`;
}

function Tasks({ name, tasks }) {
  return html`<${Grid} label="Tasks" total=${tasks.length} rowAt=${(i) => tasks[i]} rowHeight=${60} onOpen=${(task) => go(href(["worlds", name, "oracle", task.id]))} columns=${[
    { key: "task", title: "Task", width: 180, grow: 5, render: (task) => html`<span class="stack"><a tabindex="-1" class="strong" href=${href(["worlds", name, "oracle", task.id])}><${Word} value=${task.id} /></a><span class="dim ellipsis"><${Word} value=${task.instruction} /></span></span>` },
    { key: "difficulty", title: "Difficulty", width: 90, priority: 1, render: (task) => task.difficulty && html`<${Tag}>${words(task.difficulty)}<//>` },
    { key: "tags", title: "Tags", width: 150, grow: 1, priority: 3, render: (task) => html`<span class="dim ellipsis"><${Word} value=${(task.tags ?? []).filter((one) => one !== task.difficulty).join(", ")} /></span>` },
    { key: "calls", title: "Calls", width: 60, end: true, priority: 2, render: (task) => html`<span class="figure">${number(task.calls)}</span>` },
  ]} />`;
}

function Tables({ name, world, table }) {
  const chosen = world.tables.some((one) => one.name === table) ? table : world.tables[0]?.name;
  if (!chosen) return html`<${Notice}>This world has no tables.<//>`;
  return html`<div class="with-side"><nav class="side tables always" aria-label="Tables"><ul>${world.tables.map((one) => html`<li><button aria-current=${one.name === chosen ? "true" : undefined} onClick=${() => go(href(["worlds", name, "tables", one.name]))}><span class="mono ellipsis"><${Word} value=${one.name} /></span><span class="figure dim">${number(typeof one.rows === "number" ? one.rows : one.rows?.length)}</span></button></li>`)}</ul></nav>
    <section class="stretch"><h2 class="mono section"><${Word} value=${chosen} /></h2><${TableView} key=${chosen} path=${api`/api/worlds/${name}/table/${chosen}`} name=${chosen} /></section></div>`;
}

function Tools({ tools }) {
  return html`<section aria-label="Tools"><${VirtualList} count=${tools.length} estimate=${110} render=${(i) => html`<article class="card"><h2 class="mono"><${Word} value=${tools[i].name} /></h2><${Passage} value=${tools[i].description} most=${800} />
    <${Fold} summary=${count(Object.keys(tools[i].schema?.properties ?? {}).length, "argument")}><${Json} value=${tools[i].schema?.properties ?? {}} /><//></article>`} /></section>`;
}

function Gate({ name, known }) {
  const [state, setState] = useState({ gate: known });
  const { gate } = state;
  const check = async () => {
    setState({ gate, isBusy: true });
    try {
      setState({ gate: await post(api`/api/worlds/${name}/gate`) });
    } catch (error) {
      setState({ gate, error: error.message });
    }
  };
  const button = html`<button class="button primary" disabled=${state.isBusy} onClick=${check}>${state.isBusy ? "Checking…" : gate ? "Check again" : "Check this world"}</button>`;
  if (state.error) return html`<${Notice} tone="bad" role="alert">${state.error} ${button}<//>`;
  if (!gate) return html`<${Notice}>The quality gate has not checked this world since the viewer started. It plays every task and takes some seconds. ${button}<//>`;
  return html`<div class="bar">${button}</div><section class="card"><h2>${gate.failures.length === 0 ? "The gate found nothing" : count(gate.failures.length, "finding")}</h2><p class="dim">Checked ${date(gate.checked_at)}</p>
    <ul class="findings">${gate.failures.slice(0, 200).map((one) => html`<li class="failed"><${Icon} name="cross" label="Failed" /><div>${typeof one === "string" ? html`<${Passage} value=${one} />` : html`<${Json} value=${one} />`}</div></li>`)}</ul></section>`;
}

// The task's own solution, played now: step by step, with the rows that change.
function Oracle({ name, task }) {
  const load = useLoad(api`/api/worlds/${name}/tasks/${task}/oracle`);
  return html`<${Loaded} of=${load}>${(data) => html`<${Steps} data=${data} />`}<//>`;
}

function Steps({ data }) {
  const { turns } = data;
  const [step, setStep] = useState(0);
  const set = (to) => setStep(Math.max(0, Math.min(turns.length, to)));
  useEffect(() => setStep(0), [data]);
  useKeys([
    ["j", "Next step", () => set(step + 1)],
    ["k", "Previous step", () => set(step - 1)],
  ]);
  return html`<article class="said task-text"><h2>Task</h2><${Passage} value=${data.instruction} most=${3000} /></article>
    <div class="bar"><button class="button" disabled=${step === 0} onClick=${() => set(step - 1)}><${Icon} name="up" />Previous step <kbd>k</kbd></button><button class="button primary" disabled=${step === turns.length} onClick=${() => set(step + 1)}><${Icon} name="down" />Next step <kbd>j</kbd></button>
      <button class="button" disabled=${step === turns.length} onClick=${() => set(turns.length)}>All steps</button><span class="dim" role="status">${step} of ${turns.length} steps</span></div>
    ${turns.slice(0, step).toReversed().slice(0, 40).map((turn) => html`<div class="virtual-item" key=${turn.turn}><${Turn} data=${data} turn=${turn} marks=${{}} onPick=${() => {}} /></div>`)}`;
}

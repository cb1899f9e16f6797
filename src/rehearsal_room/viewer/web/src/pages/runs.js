// The list of runs; two to six can be compared.
import { useEffect, useState } from "preact/hooks";
import { count, date, dollars, listed, number, percent, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { presence } from "../base/presence.js";
import { go, href, route, runHref, setQuery } from "../base/route.js";
import { about } from "../base/state.js";
import { Interval, Loaded, Notice, Tag } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Word } from "../parts/texts.js";

const MOST = 6; // runs that are compared at once

export function Runs() {
  useTitle("Runs");
  const load = useLoad("/api/runs");
  const { runs } = presence.value; // another word whenever a run came, went, began or ended
  useEffect(() => {
    if (load.data) load.reload();
  }, [runs]);
  useEffect(() => {
    if (!load.data?.runs.some((run) => ["live", "reading"].includes(run.status))) return undefined;
    const timer = setTimeout(load.reload, 1000 * Math.max(1, about.value?.live_poll_s ?? 2));
    return () => clearTimeout(timer);
  }, [load.data]);
  return html`<${Loaded} of=${load}>${({ runs }) => html`<${List} runs=${runs} />`}<//>`;
}

function List({ runs }) {
  const [chosen, setChosen] = useState([]);
  const text = (route.value.query.get("text") ?? "").toLowerCase();
  const shown = runs.filter((run) => `${run.name} ${run.policy} ${run.model} ${run.scenarios}`.toLowerCase().includes(text));
  const choose = (id) => setChosen((now) => (now.includes(id) ? now.filter((one) => one !== id) : [...now, id].slice(-MOST)));
  return html`
    <div class="page-head"><h1>Runs</h1><span class="dim">${count(runs.length, "run")}</span><span class="spring"></span>
      <label class="field search"><span class="sr-only">Search the runs</span>
        <input type="search" placeholder="Search the runs" value=${text} onInput=${(event) => setQuery({ text: event.currentTarget.value })} /></label>
      ${runs.length > 1 && html`<button class="button primary" disabled=${chosen.length < 2} onClick=${() => go(href(["compare"], { run: chosen }))}>
        Compare ${chosen.length < 2 ? `(${chosen.length} of 2 chosen)` : chosen.length === 2 ? "the two" : `the ${chosen.length}`}</button>`}
    </div>
    ${runs.length === 0
      ? html`<${Notice}>There are no runs here. Make one: <code>rehearse run shop_support -p mutant -o runs/first</code><//>`
      : html`<${Grid} label="Runs" columns=${columns(chosen, choose, runs.length > 1)} total=${shown.length} rowAt=${(i) => shown[i]} rowHeight=${58}
          onOpen=${(run) => !run.error && go(runHref(run.id))} rowClass=${(run) => (run.error ? "broken" : "")} />`}`;
}

function columns(chosen, choose, isChoice) {
  const all = [
    isChoice && { key: "choose", title: "", label: "Chosen for comparing", width: 28, render: (run) =>
      html`<input type="checkbox" tabindex="-1" aria-label=${`Choose ${run.name} for comparing`} disabled=${Boolean(run.error)} checked=${chosen.includes(run.id)} onChange=${() => choose(run.id)} />` },
    { key: "name", title: "Run", width: 130, grow: 3, render: (run) => html`<${Name} run=${run} chosen=${chosen} />` },
    { key: "status", title: "Status", width: 96, priority: 3, render: Status },
    { key: "completed", title: "Completed", width: 96, priority: 0, render: (run) => run.completed && html`<span class="stack"><b class="figure">${percent(run.completed.value)}</b><${Interval} value=${run.completed.value} lower=${run.completed.lower} upper=${run.completed.upper} /></span>` },
    { key: "reward", title: "Reward", width: 66, priority: 5, end: true, render: (run) => html`<span class="figure">${run.mean_reward === null || run.mean_reward === undefined ? "–" : run.mean_reward.toFixed(3)}</span>` },
    { key: "episodes", title: "Episodes", width: 90, priority: 2, end: true, render: Progress },
    { key: "tokens", title: "Tokens", width: 90, priority: 6, end: true, render: (run) => html`<span class="figure">${number((run.tokens?.prompt ?? 0) + (run.tokens?.completion ?? 0) || null)}</span>` },
    { key: "cost", title: "Cost", width: 70, priority: 7, end: true, render: (run) => html`<span class="figure">${dollars(run.cost_usd)}</span>` },
    { key: "time", title: "Took", width: 90, priority: 8, end: true, render: (run) => html`<span class="figure">${seconds(run.seconds)}</span>` },
    { key: "at", title: "Started", width: 130, priority: 4, render: (run) => html`<span class="dim">${date(run.started_at)}</span>` },
  ];
  return all.filter(Boolean).map((one) => ({ ...one, render: (run) => (run.error && !["choose", "name", "status"].includes(one.key) ? null : one.render(run)) }));
}

function Name({ run, chosen: [other, ...more] }) {
  if (run.error) return html`<span class="stack"><b><${Word} value=${run.name} /></b><span class="bad-text">${run.error}</span></span>`;
  const parts = [run.policy, run.model, run.dialect, run.history].filter(Boolean).join(" · ");
  const isOffered = other && more.length === 0 && other !== run.id;
  return html`<span class="stack"><span class="ellipsis"><a href=${runHref(run.id)} tabindex="-1" class="strong"><${Word} value=${run.name} /></a>
    ${isOffered && html` <a href=${href(["compare"], { run: [other, run.id] })} tabindex="-1">Compare</a>`}</span>
    <span class="dim ellipsis"><${Word} value=${`${parts} · ${listed(run.scenarios)}`} /></span></span>`;
}

export function Status(run) {
  const tone = { live: "accent", reading: "accent", "cut off": "warn", gone: "bad" }[run.status] ?? "";
  const text = run.status === "reading" ? `Reading, ${percent(run.folded, 0)}` : run.status === "live" ? "Live" : words(run.status);
  return html`<${Tag} tone=${tone}>${run.status === "live" && html`<i class="pulse"></i>`}${text}<//>`;
}

function Progress(run) {
  if (run.part) return html`<span class="stack end"><span class="figure">${number(run.part.episodes)}</span><span class="dim">part of ${number(run.part.of)}</span></span>`;
  const isPart = run.planned && run.ended < run.planned;
  return html`<span class="figure">${isPart ? `${number(run.ended)} / ${number(run.planned)}` : number(run.episodes)}</span>`;
}

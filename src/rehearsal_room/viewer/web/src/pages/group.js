// The tries of one task: states that they share, where they part, and two of them side by side.
import { useState } from "preact/hooks";
import { count, decimal, isNumber, labelName, percent } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { episodeHref, go, href, listHref, route, runHref, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { Label, Loaded, Notice } from "../parts/basics.js";
import { Graph, tone } from "../parts/graph.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { Passage, Word } from "../parts/texts.js";

export function Group({ run, group }) {
  const load = useLoad(api`/api/runs/${run}/groups/${group}`);
  const summary = useLoad(api`/api/runs/${run}`);
  useTitle(load.data?.task ?? "Tries");
  return html`<nav class="crumbs" aria-label="Path"><a href=${href(["runs"])}>Runs</a><${Icon} name="right" /><a href=${runHref(run)}><${Word} value=${summary.data?.line.name ?? run} /></a></nav>
    <${Loaded} of=${load}>${(data) => html`<${Members} run=${run} data=${data} />`}<//>`;
}

function Members({ run, data }) {
  const { members, nodes, edges } = data;
  const [pair, setPair] = useState([]);
  const chosen = route.value.query.get("state");
  const done = members.filter((one) => one.label === "completed").length;
  const judged = members.filter((one) => one.label).length;
  const flip = (id) => setPair((now) => (now.includes(id) ? now.filter((one) => one !== id) : [...now, id].slice(-2)));
  const both = pair.length === 2 ? pair : bestAndWorst(members);
  const node = nodes.find((one) => one.digest === chosen);
  return html`
    <div class="page-head"><h1><${Word} value=${data.task} /></h1>${data.scenario !== data.task && html`<span class="dim"><${Word} value=${data.scenario} /></span>`}<span class="spring"></span>
      ${both && html`<button class="button primary" onClick=${() => go(href(["run", run, "pair"], { a: both[0], b: both[1] }))}>Side by side: ${both[0]} and ${both[1]}</button>`}</div>
    <${Passage} class="lead dim clamp" value=${data.instruction} most=${400} />
    <p class="lead">${members.length < data.total ? `The first ${members.length} of ${count(data.total, "try", "tries")}` : count(members.length, "try", "tries")}, ${done} of ${judged} completed${nodes.length > 0 ? `, ${count(nodes.length, "state")}. Tries that reach the same rows meet in one state` : ""}. <a href=${listHref(run, { scenario: data.scenario, task: data.task })}>Show them as a list</a></p>
    ${nodes.length === 0 ? html`<${Notice}>The states of this world are not known, so there is no graph of them.<//>` : html`<div class="episode">
      <section class="card" aria-label="States"><${Graph} nodes=${nodes} edges=${edges} chosen=${chosen} onChoose=${(digest) => setQuery({ state: digest === chosen ? "" : digest })} />
        <p class="graph-key dim"><i class="high"></i>80% or more completed <i class="middle"></i>between <i class="low"></i>under 20% <i class="ring"></i>episodes end here</p></section>
      <aside class="episode-side" aria-label="Chosen state">${node ? html`<${State} run=${run} node=${node} nodes=${nodes} edges=${edges} />` : html`<${Decisions} nodes=${nodes} edges=${edges} />`}</aside>
    </div>`}
    <h2 class="section">Tries <span class="dim">choose two for side by side</span></h2>
    <${Grid} label="Tries" total=${members.length} rowAt=${(i) => members[i]} onOpen=${(row) => go(episodeHref(run, row.episode))} maxHeight="50vh" columns=${[
      { key: "pick", title: "", label: "Chosen", width: 24, render: (row) => html`<input type="checkbox" tabindex="-1" aria-label=${`Choose ${row.episode}`} checked=${pair.includes(row.episode)} onChange=${() => flip(row.episode)} />` },
      { key: "member", title: "Group, member", width: 110, priority: 4, render: (row) => html`<span class="dim"><${Word} value=${row.group} />, ${row.member}</span>` },
      { key: "episode", title: "Episode", width: 90, grow: 1, render: (row) => html`<a class="mono" tabindex="-1" href=${episodeHref(run, row.episode)}>${row.episode}</a>` },
      { key: "label", title: "Label", width: 140, narrow: 28, grow: 1, render: (row, isNarrow) => html`<${Label} name=${labelName(row)} small isShort=${isNarrow} />` },
      { key: "reward", title: "Reward", width: 70, end: true, priority: 1, render: (row) => html`<span class="figure">${decimal(row.reward)}</span>` },
      ...(members.some((row) => isNumber(row.share)) ? [{ key: "share", title: "Share", width: 60, end: true, priority: 1, render: (row) => html`<span class="figure">${isNumber(row.share) ? percent(row.share, 0) : "–"}</span>` }] : []),
      { key: "turns", title: "Turns", width: 60, end: true, priority: 2, render: (row) => html`<span class="figure">${row.turns}</span>` },
      { key: "errors", title: "Errors", width: 60, end: true, priority: 3, render: (row) => html`<span class="figure">${row.errors}</span>` },
      { key: "changed", title: "Changed tables", width: 180, grow: 3, priority: 5, render: (row) => html`<span class="mono dim ellipsis"><${Word} value=${row.changed.join(", ") || "–"} /></span>` },
    ]} />`;
}

function bestAndWorst(members) {
  if (members.length < 2) return null;
  const sorted = [...members].sort((a, b) => (b.reward ?? -1) - (a.reward ?? -1));
  return [sorted[0].episode, sorted.at(-1).episode];
}

const rate = (value) => (value === null || value === undefined ? "not judged" : `${percent(value, 0)} completed`);

function State({ run, node, nodes, edges }) {
  const out = edges.filter((edge) => edge.from === node.digest && edge.to !== node.digest);
  const success = new Map(nodes.map((one) => [one.digest, one.success]));
  return html`<section class="card"><h2>${node.is_start ? "Start" : node.is_end ? "End state" : "State"}</h2>
    <p>${count(node.episodes.length, "episode")}, ${rate(node.success)}</p><p class="dim mono ellipsis">${node.digest}</p>
    ${out.length > 0 && html`<h3>What was done next</h3><ul class="decisions">${out.map((edge) => html`<${Decision} edge=${edge} success=${success.get(edge.to)} />`)}</ul>`}
    <h3>Episodes</h3><p class="links wrap">${node.episodes.slice(0, 40).map((one) => html`<a class="mono" href=${episodeHref(run, one)}>${one}</a>`)}</p></section>`;
}

// The states in which the tries' decisions differ most in success.
function Decisions({ nodes, edges }) {
  const success = new Map(nodes.map((one) => [one.digest, one.success]));
  const found = nodes
    .map((node) => ({ node, out: edges.filter((edge) => edge.from === node.digest && edge.to !== node.digest) }))
    .filter(({ out }) => out.length > 1)
    .map((one) => ({ ...one, spread: spread(one.out.map((edge) => success.get(edge.to))) }))
    .sort((a, b) => b.spread - a.spread);
  return html`<section class="card"><h2>Decisions that matter most</h2>
    ${found.length === 0 && html`<p class="dim">All tries made the same changes.</p>`}
    ${found.slice(0, 4).map(({ node, out }) => html`<h3>${node.is_start ? "At the start" : `After ${count(node.depth, "change")}`}</h3><ul class="decisions">${out.slice(0, 6).map((edge) => html`<${Decision} edge=${edge} success=${success.get(edge.to)} />`)}</ul>`)}
  </section>`;
}

function spread(values) {
  const known = values.filter((one) => one !== null && one !== undefined);
  return known.length > 1 ? Math.max(...known) - Math.min(...known) : 0;
}

function Decision({ edge, success }) {
  const [call, ...rest] = edge.calls ?? [];
  return html`<li><i class=${`swatch ${tone(success)}`}></i><div><b class="mono"><${Word} value=${call?.name ?? "answer"} /></b>${rest.length > 0 && html` <span class="dim">and ${rest.length} more</span>`}
    ${call?.arguments !== undefined && html`<div class="mono dim small ellipsis"><${Word} value=${typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments)} /></div>`}
    <div class="dim small">${count(edge.episodes.length, "episode")}, ${rate(success)}</div></div></li>`;
}

// Tasks by members: how each try of each task ended.
import { labelName, labelOf, decimal } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { episodeHref, href } from "../base/route.js";
import { api } from "../base/source.js";
import { Label, Loaded } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";

export function TaskGrid({ run }) {
  const load = useLoad(api`/api/runs/${run}/grid`);
  return html`<${Loaded} of=${load}>${(grid) => html`
    <div class="bar"><p class="dim">Each square is an episode; squares with the same number in a row ended in the same state of the world.</p>
      <span class="legend-labels">${["completed", "partially_completed", "agent_error", "environment_error", "unjudged"].map((name) => html`<${Label} name=${name} small />`)}</span></div>
    <${Grid} label="Tasks by members" total=${grid.tasks.length} rowHeight=${44} columns=${columns(run, grid)} rowAt=${(i) => ({ ...grid.tasks[i], cells: grid.cells[i] })} fit=${true} />`}<//>`;
}

const CELL = 30; // pixels

function columns(run, grid) {
  return [
    { key: "task", title: "Task", width: 150, grow: 1, render: (row) => html`<span class="stack"><a href=${groupHref(run, row)} class="strong ellipsis"><${Word} value=${row.task} /></a><span class="dim ellipsis"><${Word} value=${row.scenario} /></span></span>` },
    { key: "share", title: "Completed", width: 74, end: true, priority: 1, render: (row) => html`<span class="figure">${row.cells.filter((one) => one?.label === "completed").length} of ${row.cells.filter(Boolean).length}</span>` },
    { key: "cells", title: "Members", width: Math.min(150, CELL * grid.members), grow: 2.5, render: (row) => html`<span class="cells">${row.cells.slice(0, 64).map((one, i) => html`<${Square} run=${run} one=${one} number=${stateNumber(row.cells, i)} member=${i} />`)}</span>` },
  ];
}

function groupHref(run, row) {
  return row.group ? href(["run", run, "group", row.group]) : href(["run", run], { task: row.task, scenario: row.scenario });
}

// States of a row, counted in the order in which they appear.
function stateNumber(cells, i) {
  const digests = [...new Set(cells.filter((one) => one?.end_digest).map((one) => one.end_digest))];
  return cells[i]?.end_digest ? digests.indexOf(cells[i].end_digest) + 1 : "";
}

function Square({ run, one, number, member }) {
  if (!one) return html`<span class="square empty" aria-hidden="true"></span>`;
  const { text, tone, icon } = labelOf(labelName(one));
  const words = `Member ${member}: ${text}, reward ${decimal(one.reward)}${number ? `, end state ${number}` : ""}`;
  return html`<a class=${`square ${tone}`} href=${episodeHref(run, one.episode)} title=${words} aria-label=${words}><${Icon} name=${icon} /><small>${number}</small></a>`;
}

// Tasks by tries: how each try of each task ended.
import { decimal, labelName, labelOf, number } from "../base/format.js";
import { html } from "../base/html.js";
import { episodeHref, go, href, listHref } from "../base/route.js";
import { api } from "../base/source.js";
import { Label, Notice } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { usePagedRows } from "../parts/paged_rows.js";
import { Word } from "../parts/texts.js";

export function TaskGrid({ run }) {
  const rows = usePagedRows(api`/api/runs/${run}/grid`);
  if (rows.error) return html`<${Notice} tone="bad" role="alert">${rows.error}<//>`;
  if (rows.total === 0) return rows.isLoading ? html`<p class="loading" role="status">Loading…</p>` : html`<${Notice}>No episode has started yet.<//>`;
  return html`
    <div class="bar"><p class="dim">Each square is a try; squares with the same number in a row ended in the same state of the world.</p>
      <span class="legend-labels">${["completed", "partially_completed", "agent_error", "environment_error", "unjudged"].map((name) => html`<${Label} name=${name} small />`)}</span></div>
    <${Grid} label="Tasks by tries" total=${rows.total} rowHeight=${44} columns=${columns(run)} rowAt=${rows.rowAt} onRange=${rows.onRange} onOpen=${(row) => go(taskHref(run, row))} />`;
}

function columns(run) {
  return [
    { key: "task", title: "Task", width: 110, grow: 1, render: (row) => html`<span class="stack"><a href=${taskHref(run, row)} tabindex="-1" class="strong ellipsis" title=${row.task}><${Word} value=${row.task} /></a>${row.scenario !== row.task && html`<span class="dim ellipsis"><${Word} value=${row.scenario} /></span>`}</span>` },
    { key: "share", title: "Completed", width: 74, end: true, priority: 1, render: (row) => html`<span class="figure">${number(row.completed)} of ${number(row.tries)}</span>` },
    { key: "cells", title: "Tries", width: 150, grow: 2.5, render: (row) => html`<span class="cells">${row.cells.map((one, i) => html`<${Square} run=${run} one=${one} number=${stateNumber(row.cells, i)} at=${i + 1} />`)}
      ${row.tries > row.cells.length && html`<a class="square more" href=${listHref(run, { scenario: row.scenario, task: row.task })} aria-label=${`All ${row.tries} tries`}>+${number(row.tries - row.cells.length)}</a>`}</span>` },
  ];
}

function taskHref(run, row) {
  return row.group ? href(["run", run, "group", row.group]) : listHref(run, { task: row.task, scenario: row.scenario });
}

// States of a row, counted in the order in which they appear.
function stateNumber(cells, i) {
  const digests = [...new Set(cells.filter((one) => one.end_digest).map((one) => one.end_digest))];
  return cells[i].end_digest ? digests.indexOf(cells[i].end_digest) + 1 : "";
}

function Square({ run, one, number: state, at }) {
  const { text, tone, icon } = labelOf(labelName(one));
  const words = `Try ${at}: ${text}, reward ${decimal(one.reward)}${state ? `, end state ${state}` : ""}`;
  return html`<a class=${`square ${tone}`} href=${episodeHref(run, one.episode)} title=${words} aria-label=${words}><${Icon} name=${icon} /><small>${state}</small></a>`;
}

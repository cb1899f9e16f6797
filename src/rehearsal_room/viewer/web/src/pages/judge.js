// The queue of episodes to label by hand, with evidence.
import { useState } from "preact/hooks";
import { labelOf } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { episodeHref, route, setQuery } from "../base/route.js";
import { api, post } from "../base/source.js";
import { visible } from "../base/text.js";
import { Label, Loaded, Notice, Tag } from "../parts/basics.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";
import { Evidence } from "../parts/verdict.js";

const LABELS = ["completed", "partially_completed", "agent_error", "environment_error"];

export function Judge({ run }) {
  const load = useLoad(api`/api/runs/${run}/judge/queue`);
  return html`<${Loaded} of=${load}>${(data) => (data.items.length ? html`<${Queue} run=${run} data=${data} reload=${load.reload} />` : html`<${Notice}>Nothing to label: no verdicts disagree, and none is missing.<//>`)}<//>`;
}

function Queue({ run, data, reload }) {
  const { items } = data;
  const { query } = route.value;
  const [note, setNote] = useState("");
  const [error, setError] = useState(null);
  const found = items.findIndex((one) => one.episode === query.get("item"));
  const at = found < 0 ? Math.max(0, items.findIndex((one) => !one.mine)) : found;
  const item = items[at];
  const move = (by) => {
    setNote("");
    setQuery({ item: items[Math.max(0, Math.min(items.length - 1, at + by))].episode });
  };
  const give = async (label) => {
    try {
      await post(api`/api/runs/${run}/judge/labels`, { episode: item.episode, label, note });
      setError(null);
      reload();
      if (at < items.length - 1) move(1);
    } catch (problem) {
      setError(problem.message);
    }
  };
  useKeys([
    ...LABELS.map((label, i) => [String(i + 1), `Label: ${labelOf(label).text.toLowerCase()}`, () => give(label)]),
    ["j", "Next episode", () => move(1)],
    ["k", "Previous episode", () => move(-1)],
  ]);
  const done = items.filter((one) => one.mine).length;
  return html`<div class="bar"><p><b>${done} of ${items.length}</b> labelled <span class="dim">as <${Word} value=${data.labeller ?? ""} />, stored where <code>rehearse label</code> stores them</span></p><span class="spring"></span>
      <button class="button" disabled=${at === 0} onClick=${() => move(-1)}><${Icon} name="up" />Previous <kbd>k</kbd></button><button class="button" disabled=${at === items.length - 1} onClick=${() => move(1)}><${Icon} name="down" />Next <kbd>j</kbd></button></div>
    <div class="with-side judge">
      <nav class="side queue" aria-label="Queue"><ol>${around(items, at).map(([one, i]) => html`<li><button aria-current=${i === at ? "true" : undefined} onClick=${() => setQuery({ item: one.episode })}><span class="mono">${one.episode}</span>${one.mine ? html`<${Label} name=${one.mine} small />` : html`<span class="dim">open</span>`}<span class="dim ellipsis"><${Word} value=${one.task} /></span></button></li>`)}</ol></nav>
      <section class="stretch" aria-label="Episode to label">
        <div class="card"><div class="row"><h2><${Word} value=${item.task} /></h2><a class="mono" href=${episodeHref(run, item.episode)}>${item.episode}</a><span class="dim"><${Word} value=${item.scenario} /></span></div>
          <p class="row">${item.code && html`<span class="dim">Code</span><${Label} name=${item.code} small />`}${item.label && html`<span class="dim">Models</span><${Label} name=${item.label} small />`}${item.mine && html`<span class="dim">You</span><${Label} name=${item.mine} small />`}</p>
          ${item.reason && html`<p class="quoted"><${Word} value=${item.reason} /></p>`}
          <div class="label-choice" role="group" aria-label="Your label">${LABELS.map((label, i) => html`<button class=${`button ${item.mine === label ? "primary" : ""}`} aria-pressed=${item.mine === label} onClick=${() => give(label)}><kbd>${i + 1}</kbd>${labelOf(label).text}</button>`)}</div>
          <label class="field"><span>Note (optional)</span><input type="text" value=${note} onInput=${(event) => setNote(event.currentTarget.value)} /></label>
          ${error && html`<${Notice} tone="bad" role="alert">${visible(error)}<//>`}</div>
        <div class="card evidence-card"><h2>Evidence</h2>${item.evidence?.length ? html`<${Evidence} items=${item.evidence} />` : html`<p class="dim">No evidence was recorded. <${Tag}>Open the episode<//></p>`}</div>
      </section>
    </div>`;
}

const SHOWN = 60;

function around(items, at) {
  const from = Math.max(0, Math.min(at - SHOWN / 2, items.length - SHOWN));
  return items.slice(from, from + SHOWN).map((one, i) => [one, from + i]);
}

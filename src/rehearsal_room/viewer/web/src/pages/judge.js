// The queue of episodes to label by hand, with evidence.
import { useState } from "preact/hooks";
import { labelOf } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { inWords, listQuery } from "../base/list_query.js";
import { episodeHref, route, runHref, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { visible } from "../base/text.js";
import { Label, Loaded, Notice } from "../parts/basics.js";
import { HAND_LABELS, sayByHand } from "../parts/hand_label.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";
import { Evidence } from "../parts/verdict.js";

// The queue has the episodes of the filters in the address; without any, those whose verdict is
// contested or missing.
export function Judge({ run }) {
  const asked = listQuery(route.value.query);
  const load = useLoad(`${api`/api/runs/${run}/judge/queue`}?${asked}`);
  const filters = inWords(route.value.query);
  return html`<${Loaded} of=${load}>${(data) => (data.items.length ? html`<${Queue} run=${run} data=${data} filters=${filters} reload=${load.reload} />` : html`<${Notice}>${filters ? html`No episode that is over matches <${Word} value=${filters} />.` : "Nothing to label: no verdicts disagree, and none is missing. The list of episodes has a button that makes a queue from its filters."}<//>`)}<//>`;
}

function Queue({ run, data, filters, reload }) {
  const { items } = data;
  const { query } = route.value;
  const [note, setNote] = useState(null); // null: as it is stored
  const [error, setError] = useState(null);
  const found = items.findIndex((one) => one.episode === query.get("item"));
  const at = found < 0 ? Math.max(0, items.findIndex((one) => !one.mine?.label)) : found;
  const item = items[at];
  const move = (by) => {
    setNote(null);
    setQuery({ item: items[Math.max(0, Math.min(items.length - 1, at + by))].episode });
  };
  const give = async (label) => {
    try {
      await sayByHand(run, { episode: item.episode, by_hand: item.mine ? [item.mine] : [] }, { label, note: note ?? undefined });
      setError(null);
      reload();
      if (at < items.length - 1) move(1);
    } catch (problem) {
      setError(problem.message);
      reload();
    }
  };
  useKeys([
    ...HAND_LABELS.map((label, i) => [String(i + 1), `Label: ${labelOf(label).text.toLowerCase()}`, () => give(label)]),
    ["j", "Next episode", () => move(1)],
    ["k", "Previous episode", () => move(-1)],
  ]);
  const evidence = useLoad(api`/api/runs/${run}/judge/evidence/${item.episode}`);
  const done = items.filter((one) => one.mine?.label).length;
  const { agrees, disagrees } = data.agreement;
  return html`<div class="bar"><p><b>${done} of ${items.length}</b> labelled <span class="dim">as <${Word} value=${data.labeller ?? ""} />, stored where <code>rehearse judge label</code> stores them${data.total > items.length ? `; the first ${items.length} of ${data.total}` : ""}</span>${filters && html`<br /><span class="dim">Episodes with <a href=${`${runHref(run, "episodes")}?${listQuery(query)}`}><${Word} value=${filters} /></a></span>`}${agrees + disagrees > 0 && html`<br /><span class="dim">The judge agrees with ${agrees} of your ${agrees + disagrees} labels in this run.</span>`}</p><span class="spring"></span>
      <button class="button" disabled=${at === 0} onClick=${() => move(-1)}><${Icon} name="up" />Previous <kbd>k</kbd></button><button class="button" disabled=${at === items.length - 1} onClick=${() => move(1)}><${Icon} name="down" />Next <kbd>j</kbd></button></div>
    <div class="with-side judge">
      <nav class="side queue" aria-label="Queue"><ol>${around(items, at).map(([one, i]) => html`<li><button aria-current=${i === at ? "true" : undefined} onClick=${() => setQuery({ item: one.episode })}><span class="mono">${one.episode}</span>${one.mine?.label ? html`<${Label} name=${one.mine.label} small />` : html`<span class="dim">open</span>`}<span class="dim ellipsis"><${Word} value=${one.task} /></span></button></li>`)}</ol></nav>
      <section class="stretch" aria-label="Episode to label">
        <div class="card"><div class="row"><h2><${Word} value=${item.task} /></h2><a class="mono" href=${episodeHref(run, item.episode)}>${item.episode}</a><span class="dim"><${Word} value=${item.scenario} /></span></div>
          <p class="row">${item.code && html`<span class="dim">Code</span><${Label} name=${item.code} small />`}${item.label && html`<span class="dim">${item.judgements ? "Models" : "Judge"}</span><${Label} name=${item.label} small />`}${item.mine?.label && html`<span class="dim">You</span><${Label} name=${item.mine.label} small />`}</p>
          ${item.reason && html`<p class="quoted"><${Word} value=${item.reason} /></p>`}
          <div class="label-choice" role="group" aria-label="Your label">${HAND_LABELS.map((label, i) => html`<button class=${`button ${item.mine?.label === label ? "primary" : ""}`} aria-pressed=${item.mine?.label === label} onClick=${() => give(label)}><kbd>${i + 1}</kbd>${labelOf(label).text}</button>`)}</div>
          <label class="field"><span>Note (optional)</span><input type="text" value=${note ?? item.mine?.note ?? ""} onInput=${(event) => setNote(event.currentTarget.value)} /></label>
          ${error && html`<${Notice} tone="bad" role="alert">${visible(error)}<//>`}</div>
        <div class="card evidence-card"><h2>Evidence</h2><${Loaded} of=${evidence}>${(found) => (found.evidence.length ? html`<${Evidence} items=${found.evidence} />` : html`<p class="dim">No evidence was recorded. <a href=${episodeHref(run, item.episode)}>Open the episode</a></p>`)}<//></div>
      </section>
    </div>`;
}

const SHOWN = 60;

function around(items, at) {
  const from = Math.max(0, Math.min(at - SHOWN / 2, items.length - SHOWN));
  return items.slice(from, from + SHOWN).map((one, i) => [one, from + i]);
}

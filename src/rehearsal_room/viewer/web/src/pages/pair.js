// Two episodes side by side, of one run or of two: where they first part, and what differs in their
// worlds.
import { count, decimal, labelName } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { episodeHref, href, route, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { Fold, Label, Loaded, Notice, Tag } from "../parts/basics.js";
import { Icon } from "../parts/icon.js";
import { Differences } from "../parts/rows.js";
import { Passage, Word } from "../parts/texts.js";
import { Call } from "../parts/turn.js";
import { VirtualList } from "../parts/virtual_list.js";
import { Crumbs } from "./episode.js";

export function Pair({ run }) {
  const { query } = route.value;
  const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
  const runs = run ? [run, run] : [query.get("run") ?? "", query.get("other") ?? ""];
  useTitle(`${a} and ${b}`);
  const path = run ? api`/api/runs/${run}/pair` : "/api/pair";
  const pair = useLoad(`${path}?${new URLSearchParams({ ...(run ? {} : { run: runs[0], other: runs[1] }), a, b })}`);
  const left = useLoad(api`/api/runs/${runs[0]}/episodes/${a}`);
  const right = useLoad(api`/api/runs/${runs[1]}/episodes/${b}`);
  const list = useLoad(run ? null : "/api/runs");
  const names = runs.map((id) => list.data?.runs.find((one) => one.id === id)?.name ?? id);
  const exchange = () => setQuery({ a: b, b: a, ...(run ? {} : { run: runs[1], other: runs[0] }) });
  return html`${run ? html`<${Crumbs} run=${run} data=${left.data} />` : html`<${Path} runs=${runs} />`}
    <div class="page-head"><h1>Side by side</h1><span class="spring"></span><button class="button" onClick=${exchange}>Exchange</button></div>
    <${Loaded} of=${pair}>${(found) => html`<${Loaded} of=${left}>${(one) => html`<${Loaded} of=${right}>${(two) => html`<${Sides} runs=${runs} names=${run ? null : names} pair=${found} a=${one} b=${two} />`}<//>`}<//>`}<//>`;
}

function Path({ runs }) {
  return html`<nav class="crumbs" aria-label="Path"><a href=${href(["runs"])}>Runs</a><${Icon} name="right" /><a href=${href(["compare"], { run: runs })}>Compare</a></nav>`;
}

function Sides({ runs, names: of, pair, a, b }) {
  const { aligned, parts_at: parting, why_calls_alone: why } = pair;
  const names = [a, b].map((one, i) => (of ? `${"AB"[i]}: ${one.line.episode}` : one.line.episode));
  const isParting = (line) => parting && line.a !== undefined && (line.a === parting.a || line.a === null) && (line.b === parting.b || line.b === null);
  const at = aligned.findIndex(isParting);
  const before = at < 0 ? aligned : aligned.slice(0, at);
  const after = at < 0 ? [] : aligned.slice(at);
  const isSame = before.every((line) => line.same === "both" || (why && line.same === "call"));
  useKeys([["d", "Where they part", () => document.querySelector(".parting")?.focus()]]);
  return html`
    <div class="sides head">${[a, b].map((one, i) => html`<div class="card"><div class="row"><a class="mono strong" href=${episodeHref(runs[i], one.line.episode)}>${one.line.episode}</a><${Label} name=${labelName(one.line)} small /></div>
      <p class="dim">${of ? html`<b>${"AB"[i]}</b> <${Word} value=${of[i]} />` : `member ${one.line.member}`} · <${Word} value=${one.line.task} /> · reward ${decimal(one.line.reward)} · ${count(one.turns.length, "turn")}</p></div>`)}</div>
    ${(pair.remarks ?? []).map((line) => html`<${Notice} tone="warn"><${Word} value=${line} /><//>`)}
    ${why && html`<${Notice} tone="warn">${why}<//>`}
    ${parting ? null : html`<${Notice}>${why ? "The two made the same calls." : "The two made the same calls and saw the same states."}<//>`}
    ${before.length > 0 && (isSame ? html`<${Fold} summary=${`The first ${before.length === 1 ? "turn is" : `${before.length} turns are`} the same`}><${Lines} lines=${before} a=${a} b=${b} /><//>` : html`<${Lines} lines=${before} a=${a} b=${b} />`)}
    ${after.length > 0 && html`<section class="parting" tabindex="-1" aria-label="Where they part"><p><${Tag} tone="bad">Here they part<//></p><${Lines} lines=${after.slice(0, 1)} a=${a} b=${b} />
      ${!why && html`<div class="card"><h2>What differs in their worlds after this</h2><${Differences} rows=${pair.world_difference} names=${names} /></div>`}</section>`}
    ${after.length > 1 && html`<${Lines} lines=${after.slice(1)} a=${a} b=${b} />`}
    ${!why && html`<div class="card"><h2>What differs in their worlds at the end</h2><${Differences} rows=${pair.end_difference} names=${names} /></div>`}`;
}

const MEANING = { both: "Same call, same state", call: "Same call, other state", digest: "Other call, same state", none: "Other call, other state" };

function Lines({ lines, a, b }) {
  return html`<${VirtualList} count=${lines.length} estimate=${180} render=${(i) => html`<div class=${`sides line ${lines[i].same}`} title=${MEANING[lines[i].same]}>
    <${Side} data=${a} turn=${lines[i].a} /><${Side} data=${b} turn=${lines[i].b} /></div>`} />`;
}

function Side({ data, turn }) {
  const one = turn === null || turn === undefined ? null : data.turns[turn];
  if (!one) return html`<div class="turn gone"><span class="dim">Nothing here</span></div>`;
  return html`<div class="turn"><header class="turn-head"><h2>Turn ${turn + 1}</h2></header>
    ${one.text && one.text !== one.answer && html`<${Passage} class="reply" value=${one.text} most=${300} />`}
    ${(one.calls ?? []).slice(0, 8).map((call, i) => html`<${Call} call=${call} result=${one.results?.[i]} index=${i} byUser />`)}
    ${one.answer !== null && one.answer !== undefined && html`<div class="answer"><p class="minor">Answer</p><${Passage} value=${one.answer} most=${600} /></div>`}
    ${one.format_error && html`<p class="bad-text"><${Word} value=${one.format_error} /></p>`}</div>`;
}

// One episode as a conversation, with the rows that each call changed. People count turns from 1, in
// addresses too; the data counts from 0.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, decimal, isNumber, labelName, number, percent, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useBarHeight, useLoad, useTitle } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { firstError, firstWrongWrite } from "../base/marks.js";
import { presence } from "../base/presence.js";
import { go, href, route, runHref, setQuery } from "../base/route.js";
import { api, events, post } from "../base/source.js";
import { about, canDo } from "../base/state.js";
import { visible } from "../base/text.js";
import { Blame } from "../parts/blame.js";
import { Fold, Label, Loaded, Notice, Tag } from "../parts/basics.js";
import { ChangedRows, Harm } from "../parts/episode_rows.js";
import { Icon } from "../parts/icon.js";
import { Prose } from "../parts/markdown.js";
import { Spans } from "../parts/spans.js";
import { Sent } from "../parts/sent.js";
import { HandLabel } from "../parts/hand_label.js";
import { Copies, ListBar } from "../parts/list_bar.js";
import { Passage, Word } from "../parts/texts.js";
import { Timeline } from "../parts/timeline.js";
import { Turn } from "../parts/turn.js";
import { VerdictPanel } from "../parts/verdict.js";
import { VirtualList } from "../parts/virtual_list.js";
import { Outline } from "../parts/outline.js";

export function Episode({ run, episode }) {
  const load = useLoad(api`/api/runs/${run}/episodes/${episode}`);
  useTitle(episode, load.data?.line.task);
  const isLive = load.data && !load.data.ended;
  useEffect(() => {
    if (!isLive) return undefined;
    return events(api`/api/runs/${run}/events`, {
      folded: (event) => (event.more || event.rows.some((row) => row.episode === episode)) && load.reload(),
      finished: () => load.reload(),
    });
  }, [isLive, run, episode]);
  return html`<${Crumbs} run=${run} data=${load.data} />
    <${Loaded} of=${load}>${(data) => html`<${Conversation} run=${run} data=${data} />`}<//>`;
}

export function Crumbs({ run, data, children }) {
  const summary = useLoad(api`/api/runs/${run}`);
  const { runs } = presence.value;
  const before = useRef(runs);
  useEffect(() => {
    if (before.current && before.current !== runs) summary.reload();
    before.current = runs;
  }, [runs]);
  const line = data?.line;
  return html`<nav class="crumbs" aria-label="Path">
    <a href=${href(["runs"])}>Runs</a><${Icon} name="right" /><a href=${runHref(run)}><${Word} value=${summary.data?.line.name ?? run} /></a>
    ${line && html`<${Icon} name="right" /><a href=${href(["run", run, "group", line.group])}><${Word} value=${line.task} /></a>`}
    ${children}
  </nav>
  ${summary.data?.line.status === "gone" && html`<p class="bad-text" role="status">The folder of this run was deleted or moved. The page shows what was read before.</p>`}`;
}

function Conversation({ run, data }) {
  const { line, turns } = data;
  const list = useRef(null);
  const bar = useBarHeight();
  const wanted = route.value.query.get("turn");
  const current = wanted === null ? null : Math.max(0, Math.min(Math.trunc(Number(wanted)) || 1, turns.length) - 1);
  const found = useLoad(data.ended ? api`/api/runs/${run}/episodes/${line.episode}/failures` : null);
  const canReplay = Boolean(data.ended) && canDo("scratch");
  const failures = found.data?.failures ?? data.failures ?? [];
  const isKnown = !data.ended || Boolean(found.data || found.error);
  const [replay, setReplay] = useState({});
  const divergence = replay.found?.divergence;
  const marks = useMemo(
    () => ({ error: firstError(data), write: isKnown ? firstWrongWrite(data, failures) : null, divergence }),
    [data, isKnown, divergence],
  );
  const show = (turn, call) => {
    if (turn === null || turn === undefined || !turns.length) return;
    const to = Math.max(0, Math.min(turns.length - 1, turn));
    setQuery({ turn: to + 1 });
    list.current?.scrollTo(to, (item) => focusOn(item, call));
  };
  useEffect(() => {
    if (current !== null) list.current?.scrollTo(current, (item) => focusOn(item));
  }, [line.episode]);
  const repeat = async () => {
    if (divergence) return show(divergence.turn, divergence.call);
    if (!canReplay || replay.isBusy || replay.found) return undefined;
    setReplay({ isBusy: true });
    try {
      const found = await post(api`/api/runs/${run}/episodes/${line.episode}/replay`);
      setReplay({ found });
      show(found.divergence?.turn, found.divergence?.call);
    } catch (error) {
      setReplay({ error: error.message });
    }
    return undefined;
  };
  const isBlaming = route.value.query.get("blame") !== null;
  const canBlame = canReplay && !data.is_dialogue && turns.length > 0 && ["partially_completed", "agent_error"].includes(line.label);
  const blame = () => canBlame && setQuery({ blame: isBlaming ? null : "new" });
  const step = (by) => show(current === null ? (by > 0 ? 0 : turns.length - 1) : current + by);
  const worldTurn = current === null ? turns.length : current + 1;
  useKeys([
    ["j", "Next turn", () => step(1)],
    ["k", "Previous turn", () => step(-1)],
    ["e", "First error", () => marks.error && show(marks.error.turn, marks.error.call)],
    ["w", "First wrong write", () => marks.write && show(marks.write.turn, marks.write.call)],
    ["d", "Replay, and go to where it diverges", repeat],
    ["b", "The turn to blame", blame],
    ["o", "World at this turn", () => go(href(["run", run, "episode", line.episode, "world"], { turn: worldTurn }))],
    ["g", "Group of this episode", () => go(href(["run", run, "group", line.group]))],
    ["f", "Fork before this turn", () => go(href(["run", run, "episode", line.episode, "fork"], { turn: current ?? turns.length }))],
  ]);
  const summaries = Object.groupBy(data.summaries ?? [], (one) => one.turn);
  const asked = Object.groupBy(data.asked ?? [], (one) => Math.min(one.turn, turns.length));
  return html`
    <div class="page-head"><h1><${Word} value=${line.task} /></h1><${Label} name=${labelName(line)} />
      <span class="dim mono">${line.episode}</span><span class="spring"></span>
      <a class="button" href=${href(["run", run, "group", line.group])}><${Icon} name="graph" />Group</a>
      <a class="button" href=${href(["run", run, "episode", line.episode, "world"], { turn: worldTurn })}><${Icon} name="table" />World</a>
      <a class="button" href=${href(["run", run, "episode", line.episode, "fork"], { turn: current ?? turns.length })}><${Icon} name="fork" />Fork</a>
    </div>
    <div class="lead facts"><p class="dim"><${Facts} data=${data} /></p><${Copies} data=${data} /></div>
    <div class="episode-bar" ref=${bar}>
      <${ListBar} run=${run} data=${data} list=${list} />
      <div class="jumps" role="toolbar" aria-label="Jump to">
        ${marks.write && html`<button class="button danger" onClick=${() => show(marks.write.turn, marks.write.call)}>${marks.write.isSure ? "First wrong write" : "First write"} <kbd>w</kbd></button>`}
        ${marks.error && html`<button class="button" onClick=${() => show(marks.error.turn, marks.error.call)}>First error <kbd>e</kbd></button>`}
        ${canReplay && html`<button class="button" disabled=${replay.isBusy || (replay.found && !divergence)} onClick=${repeat}>${divergence ? "Divergence" : "Replay"} <kbd>d</kbd></button>`}
        ${canBlame && html`<button class="button" aria-expanded=${isBlaming} onClick=${blame}>Turn to blame <kbd>b</kbd></button>`}
        <span class="spring"></span>
        <button class="button step" onClick=${() => step(-1)} disabled=${!turns.length}><${Icon} name="up" />Previous turn <kbd>k</kbd></button>
        <button class="button step" onClick=${() => step(1)} disabled=${!turns.length}><${Icon} name="down" />Next turn <kbd>j</kbd></button>
      </div>
    </div>
    <${Replay} of=${replay} />
    ${canBlame && isBlaming && html`<${Blame} run=${run} data=${data} onTurn=${show} />`}
    <div class="episode">
      <section class="conversation" aria-label="Conversation">
        <article class="said task-text"><h2>Task${data.user_name && html` <span class="dim">from <${Word} value=${data.user_name} /></span>`}</h2><${Prose} value=${data.instruction} most=${2400} />
          ${data.own_instruction && html`<${Fold} summary="The task's own instruction, which the fork replaced"><${Passage} value=${data.own_instruction} /><//>`}
          ${data.rules && html`<${Fold} summary="Rules of the world"><${Prose} value=${data.rules} most=${6000} /><//>`}
          <${Fold} summary=${count(data.tools?.length ?? 0, "tool")}><${ToolList} tools=${data.tools ?? []} /><//>
          <${ChangedRows} data=${data} onTurn=${show} />
          <${Timeline} data=${data} onTurn=${show} />
        </article>
        <${VirtualList} count=${turns.length} estimate=${320} handle=${list} render=${(i) => html`
          ${(summaries[i] ?? []).map((one) => html`<${Summary} text=${one.text} />`)}
          ${(asked[i] ?? []).map((one) => html`<${Asked} of=${one} />`)}
          <${Turn} run=${run} data=${data} turn=${turns[i]} isCurrent=${i === current} marks=${marks} onPick=${() => setQuery({ turn: i + 1 })} />`} />
        ${(asked[turns.length] ?? []).map((one) => html`<${Asked} of=${one} />`)}
        <${Output} of=${data.output} />
        <${Spans} of=${data.spans} />
        <${End} data=${data} />
      </section>
      <aside class="episode-side first" aria-label="Verdict and turns">
        <${Harm} data=${data} failures=${failures} onTurn=${show} />
        <${VerdictPanel} data=${data} failures=${failures} onTurn=${show} />
        ${hasAskedModels(data) && !about.value?.exported && html`<section class="card" aria-label="The judge's prompt"><${Sent} path=${api`/api/runs/${run}/episodes/${line.episode}/sent/judge`} label="What the judge was asked" /></section>`}
        <${HandLabel} run=${run} line=${line} />
        <${Outline} data=${data} current=${current} marks=${marks} onTurn=${show} />
      </aside>
    </div>`;
}

function Replay({ of }) {
  if (of.isBusy) return html`<p class="dim" role="status">The calls are made again in a fresh world.</p>`;
  if (of.error) return html`<${Notice} tone="bad" role="alert">${visible(of.error)}<//>`;
  if (!of.found) return null;
  const { calls, divergence } = of.found;
  if (!divergence) return html`<p class="dim" role="status">Replayed: ${count(calls, "call")}, everything is equal to the log.</p>`;
  const where = divergence.turn === null ? (divergence.what === "start" ? "before the first turn" : "after the last turn") : `at turn ${divergence.turn + 1}`;
  return html`<${Notice} tone="bad" role="status">The replay diverges ${where} (${words(divergence.what)}). Logged: <${Word} value=${divergence.expected} />. Replayed: <${Word} value=${divergence.found} />.<//>`;
}

function focusOn(item, call) {
  const element = (call !== undefined && item.querySelector(`[data-call="${call}"]`)) || item.querySelector(".turn");
  if (!element) return;
  element.focus({ preventScroll: true });
  const { top } = element.getBoundingClientRect();
  const bar = document.querySelector(".episode-bar")?.getBoundingClientRect().bottom ?? 0;
  if (call !== undefined && (top < bar || top > innerHeight * 0.6)) scrollBy({ top: top - bar - 24, behavior: "instant" });
}

function Facts({ data }) {
  const { line } = data;
  const parts = [line.scenario !== line.task && line.scenario, `group ${line.group}, member ${line.member}`, data.policy, data.dialect && `dialect ${data.dialect}`, data.history && `history ${data.history}`, count(line.turns, "turn"), seconds(line.seconds), line.reward !== null && line.reward !== undefined && `reward ${decimal(line.reward)}`, isNumber(line.share) && `share ${percent(line.share, 0)}`];
  return html`<${Word} value=${parts.filter(Boolean).join(" · ")} />${data.forked_from && html` · fork of <${Word} value=${`${data.forked_from.episode} after turn ${data.forked_from.turn}`} />`}`;
}

const hasAskedModels = (data) => (data.verdicts ?? []).some((one) => one.judgements?.length > 0 || one.asked?.length > 0);

function ToolList({ tools }) {
  return html`<dl class="tools">${tools.map((tool) => html`<div><dt class="mono"><${Word} value=${tool.name} /></dt><dd><${Passage} value=${tool.description} most=${300} /><${Parameters} of=${tool.schema} /></dd></div>`)}</dl>`;
}

// The parameters of a tool: name, type, whether it is needed, and its description.
function Parameters({ of }) {
  const entries = Object.entries(of?.properties ?? {});
  if (entries.length === 0) return html`<p class="dim">no parameters</p>`;
  const needed = new Set(of.required ?? []);
  return html`<ul class="parameters">${entries.slice(0, 60).map(([name, one]) => html`<li><code><${Word} value=${name} /></code> <span class="dim"><${Word} value=${typeOf(one)} />${needed.has(name) ? "" : ", optional"}</span>${one?.description && html` <${Word} value=${one.description} />`}</li>`)}</ul>`;
}

function typeOf(one) {
  if (!one || typeof one !== "object") return "any";
  if (one.enum) return one.enum.map((value) => JSON.stringify(value)).join(" | ").slice(0, 200);
  const variants = one.anyOf ?? one.oneOf;
  if (variants) return variants.map(typeOf).join(" | ");
  if (Array.isArray(one.type)) return one.type.join(" | ");
  return one.type === "array" && one.items ? `${typeOf(one.items)}[]` : (one.type ?? "any");
}

function Summary({ text }) {
  return html`<article class="said summary"><h3>Summary of earlier turns</h3><${Passage} value=${text} /></article>`;
}

function Asked({ of }) {
  const from = of.parent === null ? "a new conversation" : `goes on after request ${of.parent + 1}`;
  const facts = [from, of.first_turn > 0 && `shown from turn ${of.first_turn + 1}`, of.usage && `${number(of.usage.prompt)} tokens in, ${number(of.usage.completion)} out`, seconds(of.seconds)];
  return html`<article class="said asked"><h3>The agent asks its model <span class="dim">request ${of.request + 1} · ${facts.filter(Boolean).join(" · ")}</span></h3>
    <${Fold} summary=${count(of.messages.length, "new message")}>${of.messages.map((one) => html`<div><span class="dim">${one.role}</span> <${Passage} value=${one.text} most=${2400} />${one.calls.map((call) => html`<${AskedCall} of=${call} />`)}</div>`)}<//>
    ${of.error && html`<${Passage} class="bad-text" value=${of.error} />`}
    ${of.reasoning && html`<${Fold} summary="Reasoning"><${Passage} value=${of.reasoning} most=${4000} /><//>`}
    ${of.text && html`<${Passage} value=${of.text} most=${2400} />`}
    ${of.calls.map((call) => html`<${AskedCall} of=${call} />`)}
  </article>`;
}

function AskedCall({ of }) {
  const text = typeof of.arguments === "string" ? of.arguments : JSON.stringify(of.arguments);
  return html`<p class="mono"><${Word} value=${`${of.name}(${text})`} /></p>`;
}

function Output({ of }) {
  if (!of || (!of.stdout && !of.stderr && !of.status)) return null;
  const status = of.status === null ? "" : `, status ${of.status}`;
  return html`<article class="said asked"><h3>What the agent's process wrote${status}</h3>
    ${of.stdout && html`<${Fold} summary="Standard output"><${Passage} value=${of.stdout} most=${4000} /><//>`}
    ${of.stderr && html`<${Fold} summary="Standard error" open=${Boolean(of.status)}><${Passage} value=${of.stderr} most=${4000} /><//>`}
  </article>`;
}

function End({ data }) {
  const { ended } = data;
  if (!ended) return html`<p class="ending" role="status">The episode has not ended.</p>`;
  return html`<div class="ending"><${Tag}>${words(ended.ending)}<//><span class="dim">after ${count(ended.num_steps, "turn")}, ${seconds(ended.seconds)}</span>
    ${ended.error && html`<${Passage} class="bad-text" value=${ended.error} />`}</div>`;
}


// One run: counters, and its views as tabs.
import { useEffect, useRef, useState } from "preact/hooks";
import { count, decimal, dollars, isNumber, listed, number, percent, seconds, sentence } from "../base/format.js";
import { html } from "../base/html.js";
import { useLatest, useLoad, useTitle } from "../base/hooks.js";
import { presence } from "../base/presence.js";
import { href, runHref } from "../base/route.js";
import { api, events } from "../base/source.js";
import { canDo } from "../base/state.js";
import { Figures, Interval, Loaded, Tabs, Tag } from "../parts/basics.js";
import { Word } from "../parts/texts.js";
import { Episodes } from "./episodes.js";
import { Judge } from "./judge.js";
import { Overview } from "./overview.js";
import { Status } from "./runs.js";
import { TaskGrid } from "./task_grid.js";
import { Tasks } from "./tasks.js";
import { Throughput } from "./throughput.js";
import { Training } from "./training.js";

const REFRESH = 2000; // milliseconds between two readings of a live run's summary

export function Run({ run, tab }) {
  // The rows come first: the summary of a long run keeps the server busy for a moment.
  const [areRowsThere, setRowsThere] = useState(false);
  const load = useLoad(["tasks", "episodes"].includes(tab) && !areRowsThere ? null : api`/api/runs/${run}`);
  const [live, setLive] = useState(null); // the last event of a live run
  const onRows = useRef(null); // the table's function for rows that changed
  const reload = useLatest(load.reload);
  const isLive = load.data?.line.status === "live";
  const { times } = presence.value;
  const [isWatched, setWatched] = useState(false); // from the first sight of a live run to its last event
  if (isLive && !isWatched) setWatched(true);
  const isFinding = load.data?.reasons?.found < load.data?.reasons?.episodes;
  const isPartial = load.data?.line.folded < 1 || isFinding;
  useEffect(() => {
    if (!isPartial) return undefined;
    const timer = setTimeout(() => reload.current(), 1000);
    return () => clearTimeout(timer);
  }, [load.data]);
  const wasFinding = useRef(false);
  useEffect(() => {
    if (wasFinding.current && !isFinding) onRows.current?.({ rows: [], isOver: true }); // the rows have reasons now
    wasFinding.current = isFinding;
  }, [isFinding]);
  useTitle(load.data?.line.name ?? run);
  useEffect(() => {
    if (!isWatched) return undefined;
    let timer = null;
    const ends = []; // timers: what a run writes last may be folded a moment after its end
    const readAgain = () => {
      onRows.current?.({ rows: [], isOver: true });
      reload.current();
    };
    const later = () => {
      timer ??= setTimeout(() => {
        timer = null;
        reload.current();
      }, REFRESH);
    };
    const stop = events(api`/api/runs/${run}/events`, {
      folded: (event) => {
        setLive(event);
        onRows.current?.(event);
        later();
      },
      finished: () => {
        setLive(null);
        for (const after of [0, 1000, 4000]) ends.push(setTimeout(readAgain, after));
      },
    });
    return () => {
      clearTimeout(timer);
      ends.forEach(clearTimeout);
      stop();
    };
  }, [run, isWatched, times]);
  return html`
    <nav class="crumbs" aria-label="Path"><a href=${href(["runs"])}>Runs</a></nav>
    ${load.error || !load.data ? html`<div class="head-space"><${Loaded} of=${load}>${() => null}<//></div>` : html`<${Head} summary=${load.data} live=${live} />`}
    <${Tabs} label="Views of the run" current=${tab} items=${[
      ["tasks", "Tasks", runHref(run, "tasks")],
      ["episodes", "Episodes", runHref(run, "episodes")],
      ["grid", "Task grid", runHref(run, "grid")],
      ["overview", "Overview", runHref(run, "overview")],
      ["throughput", "Throughput", runHref(run, "throughput")],
      load.data?.line.kind === "training" && ["training", "Training", runHref(run, "training")],
      canDo("label") && ["judge", "Judge", runHref(run, "judge")],
    ]} />
    ${load.error ? null : views({ run, tab, summary: load.data, onRows, onFirst: () => setRowsThere(true) })}`;
}

function views({ run, tab, summary, onRows, onFirst }) {
  if (tab === "tasks") return html`<${Tasks} run=${run} summary=${summary} onFirst=${onFirst} />`;
  if (tab === "overview") return summary && html`<${Overview} run=${run} summary=${summary} />`;
  if (tab === "throughput") return summary && html`<${Throughput} curves=${summary.curves} />`;
  if (tab === "grid") return html`<${TaskGrid} run=${run} />`;
  if (tab === "training") return html`<${Training} run=${run} />`;
  if (tab === "judge") return html`<${Judge} run=${run} />`;
  // The rows do not wait for the summary.
  return html`<${Episodes} run=${run} summary=${summary} onRows=${onRows} onFirst=${onFirst} />`;
}

function Head({ summary, live }) {
  const line = live?.line ?? summary.line;
  const { ended } = line;
  const tokens = line.tokens ?? {};
  return html`
    <div class="page-head"><h1><${Word} value=${line.name} /></h1>${Status(line)}
      ${summary.forked_from && html`<${Tag}>Fork of ${summary.forked_from.run ?? summary.forked_from}<//>`}</div>
    <p class="lead dim"><${Word} value=${[line.policy, line.model, line.dialect, line.history].filter(Boolean).join(" · ")} /> on <span title=${line.scenarios.slice(0, 60).join(", ")}><${Word} value=${listed(line.scenarios)} /></span></p>
    <${Figures} items=${[
      ["Completed", percent(line.completed?.value), line.completed && html`<span title=${line.about ? sentence(line.about) : null}>${percent(line.completed.lower)} to ${percent(line.completed.upper)}${line.about?.startsWith("the unit is the world") ? " by world" : ""}${line.without_verdict ? `; ${percent(line.bounds[0])} to ${percent(line.bounds[1])} with the ${number(line.without_verdict)} without a verdict` : ""}</span>`,
        line.completed && html`<${Interval} value=${line.completed.value} lower=${line.completed.lower} upper=${line.completed.upper} tone="good" />`],
      ["Mean reward", decimal(line.mean_reward, 3)],
      isNumber(line.mean_share) && ["Mean share of a task", percent(line.mean_share)],
      ["Episodes", line.planned && ended < line.planned ? `${number(ended)} of ${number(line.planned)}` : number(line.episodes),
        line.status === "live" ? `${number(live?.live ?? line.episodes - line.ended)} live` : line.unjudged ? `${number(line.unjudged)} unjudged` : null],
      tokens.prompt > 0 && ["Tokens", number((tokens.prompt ?? 0) + (tokens.completion ?? 0)), tokens.prompt ? `${percent((tokens.cached ?? 0) / tokens.prompt, 0)} of the prompts cached` : null],
      line.cost_usd !== null && line.cost_usd !== undefined && ["Cost", dollars(line.cost_usd)],
      ["Took", seconds(line.seconds), line.failed_worlds ? count(line.failed_worlds, "failed world") : null],
    ]} />
    ${line.folded < 1 && html`<p class="dim" role="status">Reading the log: ${percent(line.folded, 0)} is indexed.</p>`}
    ${summary.reasons?.found < summary.reasons?.episodes && html`<p class="dim" role="status">This log has no reasons yet. What went wrong has been found for ${number(summary.reasons.found)} of ${number(summary.reasons.episodes)} episodes.</p>`}
    ${line.status === "gone" && html`<p class="bad-text" role="status">The folder of this run was deleted or moved. The page shows what was read before.</p>`}
    ${line.status === "cut off" && html`<p class="dim">This run was cut off. <code>rehearse run --resume</code> goes on with it.</p>`}`;
}

// The world of an episode at a turn.
import { useEffect, useState } from "preact/hooks";
import { labelName } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { episodeHref, go, href, route, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { changesOf } from "../base/world.js";
import { Label, Loaded } from "../parts/basics.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";
import { Sql, WorldTables } from "../parts/world_tables.js";
import { Crumbs } from "./episode.js";

export function World({ run, episode }) {
  useTitle("World", episode);
  const data = useLoad(api`/api/runs/${run}/episodes/${episode}`);
  return html`<${Crumbs} run=${run} data=${data.data}><${Icon} name="right" /><a href=${episodeHref(run, episode)}>${episode}</a><//>
    <${Loaded} of=${data}>${(found) => html`<${AtTurn} run=${run} data=${found} />`}<//>`;
}

function AtTurn({ run, data }) {
  const { line, turns } = data;
  const { query } = route.value;
  const wanted = Number(query.get("turn") ?? turns.length);
  const turn = Math.max(0, Math.min(turns.length, Number.isFinite(wanted) ? wanted : 0));
  const asked = useSettled(turn);
  const base = api`/api/runs/${run}/episodes/${line.episode}/world`;
  const load = useLoad(`${base}?turn=${asked}`);
  const set = (to) => setQuery({ turn: Math.max(0, Math.min(turns.length, to)) });
  const writes = turns.map((one) => changesOf(one).length);
  useKeys([
    ["j", "Next turn", () => set(turn + 1)],
    ["k", "Previous turn", () => set(turn - 1)],
    ["n", "Next turn that changed rows", () => set(nextWrite(writes, turn, 1))],
    ["p", "Previous turn that changed rows", () => set(nextWrite(writes, turn, -1))],
    ["f", "Fork from this state", () => go(href(["run", run, "episode", line.episode, "fork"], { turn }))],
  ]);
  return html`
    <div class="page-head"><h1>World <span class="dim">of ${line.episode}</span></h1><${Label} name=${labelName(line)} /><span class="spring"></span>
      <a class="button" href=${episodeHref(run, line.episode, { turn: turn || undefined })}>Conversation</a>
      <a class="button" href=${href(["run", run, "episode", line.episode, "fork"], { turn })}><${Icon} name="fork" />Fork from here</a></div>
    <section class="card scrubber" aria-label="Turn">
      <div class="row"><button class="button icon-only" aria-label="Previous turn" disabled=${turn === 0} onClick=${() => set(turn - 1)}><${Icon} name="left" /></button>
        <button class="button icon-only" aria-label="Next turn" disabled=${turn === turns.length} onClick=${() => set(turn + 1)}><${Icon} name="right" /></button>
        <p><b>${turn === 0 ? "Start" : `After turn ${turn}`}</b> <span class="dim">of ${turns.length}</span> ${turn > 0 && html`<span class="mono"><${Word} value=${namesOf(turns[turn - 1])} /></span>`}</p></div>
      <div class="track"><input type="range" min="0" max=${turns.length} value=${turn} aria-label="Turn" aria-valuetext=${turn === 0 ? "Start" : `After turn ${turn}`} onInput=${(event) => set(Number(event.currentTarget.value))} />
        <${Marks} writes=${writes} /></div>
    </section>
    <${Loaded} of=${load}>${(world) => html`
      <${WorldTables} world=${world} base=${base} query=${`turn=${asked}`} table=${query.get("table") ?? ""} onTable=${(table) => setQuery({ table })} only=${query.get("only") ?? "all"} onOnly=${(only) => setQuery({ only: only === "all" ? "" : only })} />
      <${Sql} key="sql" path=${api`/api/runs/${run}/episodes/${line.episode}/sql`} more=${{ turn: asked }} table=${query.get("table")} />
      <p class="dim digest">State <code><${Word} value=${world.digest ?? ""} /></code></p>`}<//>`;
}

// A value once it has rested for a moment, so that scrubbing does not ask for every turn.
function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 60);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

const namesOf = (turn) => (turn.calls ?? []).map((one) => one.name).join(", ") || (turn.answer ? "answer" : "");

function nextWrite(writes, turn, by) {
  for (let at = turn + by; at > 0 && at <= writes.length; at += by) if (writes[at - 1]) return at;
  return turn;
}

// Where rows changed, under the scrubber.
function Marks({ writes }) {
  const total = writes.length;
  if (!total) return null;
  return html`<svg class="track-marks" viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">${writes.map((n, i) => (n ? html`<rect x=${(1000 * (i + 1)) / total - 3} width="6" y="0" height="6" />` : null))}</svg>`;
}

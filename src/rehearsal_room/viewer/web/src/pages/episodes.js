// The table of a run's episodes, with filters. All of it stands in the URL, and Back undoes it.
import { useEffect, useRef, useState } from "preact/hooks";
import { csvOf, save } from "../base/csv.js";
import { count, decimal, isNumber, labelName, labelOf, number, percent, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLatest } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { canBeExcluded, FILTERS, filterName, listQuery, signed, SORTS, unsigned, valueText } from "../base/list_query.js";
import { episodeHref, go, href, route, setQuery } from "../base/route.js";
import { api, get, getText } from "../base/source.js";
import { canDo } from "../base/state.js";
import { Label, Notice } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { HAND_LABELS, sayByHand } from "../parts/hand_label.js";
import { Icon } from "../parts/icon.js";
import { usePagedRows } from "../parts/paged_rows.js";
import { Word } from "../parts/texts.js";
import { Facets } from "./facets.js";

export function Episodes({ run, summary, onRows, onFirst }) {
  const { query } = route.value;
  const asked = listQuery(query);
  const isFiltered = listQuery(query, { sort: false }).size > 0;
  const text = query.get("text") ?? "";
  const sort = asked.get("sort") ?? "episode";
  asked.set("sort", sort);
  const rows = usePagedRows(`${api`/api/runs/${run}/episodes`}?${asked}`);
  const isFollowed = query.getAll("ending").includes("live"); // only those that play: who ends leaves the list
  const [waiting, setWaiting] = useState(0); // episodes that are in the list by now and not in the table
  const [problem, setProblem] = useState(null);
  const [round, setRound] = useState(0); // of the counts beside the filters
  const search = useRef(null);
  const seen = useRef(0);
  useEffect(() => setWaiting(0), [asked.toString()]);
  useEffect(() => {
    onRows.current = async (event) => {
      const isNew = event.episodes !== seen.current;
      seen.current = event.episodes;
      if (event.isOver || event.rows?.length || isNew) setRound((one) => one + 1);
      if (event.isOver || isFollowed) {
        setWaiting(0);
        return rows.refresh();
      }
      rows.patch(event.rows ?? [], "episode");
      // In the order of their numbers, new episodes come at the end: nothing moves. Any other list
      // would move under the reader: it says how many have come.
      if (sort === "episode" && !isFiltered) return isNew && rows.refresh();
      return setWaiting(await rows.numMore());
    };
    return () => {
      onRows.current = null;
    };
  });
  const [areThere, setThere] = useState(false); // the first rows; what else is asked for comes later
  useEffect(() => {
    if (rows.isLoading) return;
    onFirst();
    setThere(true);
  }, [rows.isLoading]);
  const again = useLatest(rows.refresh);
  useEffect(() => { // another tab may have labelled an episode
    const look = () => {
      if (document.hidden) return;
      again.current();
      setRound((one) => one + 1);
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const [hits, onRange] = useHits(run, text, rows);
  const open = (row) => go(episodeHref(run, row.episode, hitQuery(query, hits[row.episode])));
  const label = async (one) => {
    const row = rows.rowAt(Number(document.activeElement?.closest("[data-row]")?.dataset.row ?? -1));
    if (!row) return setProblem("Go to a row first: the keys 1 to 4 label the row in focus.");
    try {
      const { line } = await sayByHand(run, row, { label: one });
      setProblem(null);
      rows.patch([line], "episode");
      setRound((now) => now + 1);
    } catch (error) {
      setProblem(error.message);
      rows.refresh();
    }
    return undefined;
  };
  useKeys([
    ["/", "Search the episodes", () => search.current?.focus()],
    ...(canDo("label") ? HAND_LABELS.map((one, i) => [String(i + 1), `Label the row in focus: ${labelOf(one).text.toLowerCase()}`, () => label(one)]) : []),
  ]);
  const part = summary?.line.part;
  return html`<div class="with-side table-first">
    <section class="stretch" aria-label="Episodes">
      <div class="bar">
        <label class="field search grow"><span class="sr-only">Search the text of the episodes</span><${Icon} name="search" />
          <${SearchField} field=${search} /></label>
        <span class="dim" role="status">${rows.isLoading ? "Searching…" : count(rows.total, "episode")}${part && !rows.isLoading ? `, part of ${number(part.of)}` : ""}</span>
        ${waiting > 0 && html`<button class="button primary" onClick=${() => {
          setWaiting(0);
          rows.refresh();
        }}>${count(waiting, "new one")}: show</button>`}
        <${Outputs} run=${run} total=${rows.total} onProblem=${setProblem} />
      </div>
      <p class="dim small search-help" id="search-help">Words match from their beginning: <code>refun</code> finds refund. <code>"two words"</code> a phrase, <code>a OR b</code>, <code>-not</code>, <code>tool:word</code> in what a tool said, <code>e000010</code> an episode. Letters and digits only.</p>
      <${Unknown} />
      <${Chips} />
      ${problem && html`<${Notice} tone="bad" role="alert">${problem}<button class="link" onClick=${() => setProblem(null)}>Close</button><//>`}
      ${rows.error
        ? html`<${Notice} tone="bad" role="alert">${rows.error}<//>`
        : rows.total === 0 && !rows.isLoading
          ? html`<${Notice}>${isFiltered ? "No episode matches these filters." : "No episode has started yet."}<//>`
          : html`<${Grid} label="Episodes" columns=${columns(run, query, hits, text !== "", hasShares(rows))} total=${rows.total} rowAt=${rows.rowAt} onRange=${onRange} sort=${sort} rowHeight=${text ? 60 : 36}
              onSort=${(next) => setQuery({ sort: next }, { push: true })} onOpen=${open} rowClass=${(row) => (row.ending ? "" : "live")} />`}
    </section>
    <aside class="side" aria-label="Filters"><${Facets} run=${run} round=${round} isWanted=${areThere && !rows.error} /></aside>
  </div>`;
}

// The places of a search's words, for the rows in view: [{ episode: hit }, onRange].
function useHits(run, text, rows) {
  const [found, setFound] = useState({ text: "", hits: {} });
  const asked = useRef({ text: "", episodes: new Set() });
  const [range, setRange] = useState([0, 20]);
  useEffect(() => {
    if (asked.current.text !== text) asked.current = { text, episodes: new Set() };
    if (!text || rows.error) return;
    const missing = [];
    for (let i = range[0]; i < range[1] && missing.length < 100; i++) {
      const episode = rows.rowAt(i)?.episode;
      if (episode && !asked.current.episodes.has(episode)) missing.push(episode);
    }
    if (missing.length === 0) return;
    for (const one of missing) asked.current.episodes.add(one);
    const query = new URLSearchParams([["text", text], ...missing.map((one) => ["episode", one])]);
    get(`${api`/api/runs/${run}/hits`}?${query}`).then(
      ({ hits }) => asked.current.text === text && setFound((one) => ({ text, hits: { ...(one.text === text ? one.hits : {}), ...hits } })),
      () => {}, // the table's own request says what cannot be read
    );
  });
  const onRange = (first, last) => {
    rows.onRange(first, last);
    setRange((one) => (one[0] === first && one[1] === last ? one : [first, last]));
  };
  const latest = useRef(onRange);
  latest.current = onRange;
  const stable = useRef((first, last) => latest.current(first, last));
  return [found.text === text ? found.hits : {}, stable.current];
}

// What the address of an episode has besides the episode: the list that it is in, and the hit.
function hitQuery(query, hit) {
  const list = listQuery(query).toString();
  if (!hit) return { in: list };
  return { in: list, turn: hit.turn === null ? undefined : hit.turn + 1, find: hit.snippet[1] };
}

// While somebody types, the address changes in place: one search is one step of Back.
function SearchField({ field }) {
  const text = route.value.query.get("text") ?? "";
  const timer = useRef(null);
  const isNew = useRef(true);
  useEffect(() => {
    if (document.activeElement !== field.current || !timer.current) field.current.value = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const put = () => {
    clearTimeout(timer.current);
    timer.current = null;
    if (!field.current || field.current.value === (route.value.query.get("text") ?? "")) return;
    setQuery({ text: field.current.value }, { push: isNew.current });
    isNew.current = false;
  };
  const later = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(put, 200);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter") {
      put();
      isNew.current = true;
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector(".grid-row[tabindex='0']")?.focus();
    }
  };
  return html`<input ref=${field} type="search" placeholder='refund OR voucher -"gift card"' aria-describedby="search-help" defaultValue=${text} onInput=${later} onKeyDown=${onKeyDown} onBlur=${() => {
    put();
    isNew.current = true;
  }} />`;
}

// The whole filtered table as CSV, its episodes as one HTML file, and as a queue to label.
function Outputs({ run, total, onProblem }) {
  const [state, setState] = useState("");
  const { query } = route.value;
  const work = (name, make) => async () => {
    setState(name);
    try {
      await make();
      onProblem(null);
    } catch (error) {
      onProblem(error.message);
    }
    setState("");
  };
  const csv = work("Reading…", async () => {
    const text = await csvOf(run, query, (n, all) => setState(`${number(n)} of ${number(all)}`));
    save(text, `${run}.csv`, "text/csv");
  });
  const file = work("Making the file…", async () => {
    save(await getText(`${api`/api/runs/${run}/export`}?${listQuery(query)}`), `${run}.html`, "text/html");
  });
  return html`<span class="row outputs">${state && html`<span class="dim small" role="status">${state}</span>`}
    <button class="button" disabled=${Boolean(state)} onClick=${csv} title="The whole filtered table">CSV</button>
    ${canDo("label") && html`<button class="button" disabled=${Boolean(state)} onClick=${file} title=${`These episodes as one HTML file to send${total > 1000 ? ": the first 1,000" : ""}`}>HTML file</button>
      <a class="button" href=${href(["run", run, "judge"], queryOf(listQuery(query)))} title="Label these episodes by hand, one after the other">Queue</a>`}</span>`;
}

function queryOf(words) {
  const found = {};
  for (const name of new Set(words.keys())) found[name] = words.getAll(name);
  return found;
}

// Filters of an address that are not known here, such as those of another version: nothing is lost.
function Unknown() {
  const { query } = route.value;
  const names = [...new Set(query.keys())].filter((name) => !FILTERS.includes(name) && name !== "sort");
  const sort = query.get("sort");
  const isOdd = sort && !SORTS.includes(sort.replace(/^-/, ""));
  if (names.length === 0 && !isOdd) return null;
  const shown = [...names.flatMap((name) => query.getAll(name).map((value) => `${name}=${value}`)), isOdd && `sort=${sort}`].filter(Boolean);
  const remove = () => setQuery(Object.fromEntries([...names, ...(isOdd ? ["sort"] : [])].map((name) => [name, []])), { push: true });
  return html`<${Notice} role="status"><span>This address has what is not known here, and it is left out: <code><${Word} value=${shown.join(", ").slice(0, 400)} /></code></span><button class="button" onClick=${remove}>Remove it</button><//>`;
}

// The filters in force; a click turns one round or takes it away.
function Chips() {
  const { query } = route.value;
  const found = FILTERS.flatMap((name) => query.getAll(name).filter(Boolean).map((value) => [name, value]));
  if (found.length === 0) return null;
  const put = (name, value, others) => setQuery({ [name]: route.value.query.getAll(name).flatMap((one) => (one === value ? others : [one])) }, { push: true });
  return html`<div class="chips" role="group" aria-label="Filters in force">
    ${found.map(([name, text]) => {
      const { isNot, value } = signed(name, text);
      const title = `${filterName(name)}: ${valueText(name, value)}`;
      return html`<span class=${`chip on ${isNot ? "excluded" : ""}`}><span>${filterName(name)}</span>
        ${canBeExcluded(name) && html`<button class="turn-round" aria-label=${`${isNot ? "not" : "is"} ${title}: turn round`} title=${isNot ? "Ask for it instead" : "Exclude it instead"} onClick=${() => put(name, text, [unsigned(name, value, !isNot)])}>${isNot ? "not" : "is"}</button>`}
        <b><${Word} value=${valueText(name, value)} /></b>
        <button class="remove" aria-label=${`Remove the filter ${title}`} title="Remove" onClick=${() => put(name, text, [])}><${Icon} name="close" /></button></span>`;
    })}
    <button class="link" onClick=${() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, []])), { push: true })}>Remove all</button>
  </div>`;
}

const figure = (value) => html`<span class="figure">${value}</span>`;

// Whether a row that is there says how much of its task was done.
const hasShares = (rows) => Array.from({ length: Math.min(rows.total, 100) }, (_, i) => rows.rowAt(i)).some((row) => isNumber(row?.share));

function columns(run, query, hits, isSearch, isShared) {
  const all = [
    { key: "episode", title: "Episode", width: 76, narrow: 66, sort: "episode", render: (row) => html`<a class="mono" tabindex="-1" href=${episodeHref(run, row.episode, hitQuery(query, hits[row.episode]))}>${row.episode}</a>` },
    { key: "label", title: "Label", width: 136, narrow: 44, sort: "label", render: (row, isNarrow) => html`<${Label} name=${labelName(row)} small isShort=${isNarrow} /><${ByHand} row=${row} />` },
    { key: "task", title: "Task", width: 150, narrow: isSearch ? 190 : 80, grow: 3, sort: "task", render: (row) => html`<span class="stack"><span class="ellipsis" title=${row.task}><${Word} value=${row.task} class="strong" />${row.scenario !== row.task && html` <span class="dim"><${Word} value=${row.scenario} /></span>`}</span>${isSearch && html`<${Hit} run=${run} row=${row} hit=${hits[row.episode]} query=${query} />`}</span>` },
    { key: "reward", title: "Reward", width: 60, priority: 2, end: true, sort: "reward", render: (row) => figure(decimal(row.reward)) },
    isShared && { key: "share", title: "Share", width: 56, priority: 2, end: true, sort: "share", render: (row) => figure(isNumber(row.share) ? percent(row.share, 0) : "–") },
    { key: "turns", title: "Turns", width: 52, priority: 3, end: true, sort: "turns", render: (row) => figure(number(row.turns)) },
    { key: "calls", title: "Calls", width: 48, priority: 6, end: true, sort: "calls", render: (row) => figure(number(row.calls)) },
    { key: "errors", title: "Errors", width: 54, priority: 4, end: true, sort: "errors", render: (row) => html`<span class=${`figure ${row.errors ? "bad-text" : "dim"}`}>${row.errors}</span>` },
    { key: "changed", title: "Changed tables", width: 130, grow: 2, priority: 5, render: (row) => html`<span class="ellipsis mono dim"><${Word} value=${row.changed.join(", ") || "–"} /></span>` },
    { key: "ending", title: "Ending", width: 84, priority: 9, sort: "ending", render: (row) => html`<span class="dim">${words(row.ending ?? "live")}</span>` },
    { key: "seconds", title: "Took", width: 64, priority: 7, end: true, sort: "seconds", render: (row) => figure(seconds(row.seconds)) },
    { key: "tokens", title: "Tokens", width: 64, priority: 8, end: true, sort: "tokens", render: (row) => figure(number(tokensOf(row))) },
  ].filter(Boolean);
  return isSearch ? all.filter((one) => !["calls", "changed", "ending", "seconds", "tokens"].includes(one.key)) : all;
}

const tokensOf = (row) => (typeof row.tokens === "number" || !row.tokens ? row.tokens : row.tokens.prompt + row.tokens.completion);

// What people said about an episode, as a mark.
function ByHand({ row }) {
  if (!row.by_hand?.length) return null;
  const shown = row.by_hand.map((one) => `${one.labeller}: ${one.label ? labelOf(one.label).text : "a note"}${one.note ? ` (${one.note.slice(0, 200)})` : ""}`).join("; ");
  const differs = row.by_hand.some((one) => one.label && row.label && one.label !== row.label);
  return html`<span class=${`by-hand ${differs ? "differs" : ""}`} title=${`By hand: ${shown}`}><${Icon} name="pen" label=${`By hand: ${shown}`} /></span>`;
}

// The text around what a search found, which leads to the turn.
function Hit({ run, row, hit, query }) {
  if (!hit) return html`<span class="hit dim"> </span>`;
  const where = hit.turn === null ? words(hit.place) : `Turn ${hit.turn + 1}, ${hit.place}`;
  return html`<a class="hit ellipsis" tabindex="-1" href=${episodeHref(run, row.episode, hitQuery(query, hit))}><span class="dim">${where}</span> <bdi>${hit.snippet.map((one, i) => (i % 2 ? html`<mark><${Word} value=${one} /></mark>` : html`<${Word} value=${shortened(one, i)} />`))}</bdi></a>`;
}

const BEFORE = 28; // characters that stand before what was found, so that it is in view

function shortened(text, i) {
  const line = text.replace(/\s+/g, " ");
  return i === 0 && line.length > BEFORE ? `…${line.slice(-BEFORE)}` : line;
}

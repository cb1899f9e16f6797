// Filters, sorting and counts of episodes, as the server does them (for exported files).
import { textsOf } from "./episode_texts.js";
import { signed } from "./list_query.js";
import { clausesOf, fulfils, hitIn } from "./search.js";

const labelOf = (row) => row.label ?? (row.judge ? "unjudged" : "none");
const mine = (row) => row.by_hand?.find((one) => one.is_mine && one.label)?.label;

// The values of a row for each filter.
const VALUES = {
  label: (row) => [labelOf(row)],
  ending: (row) => [row.ending ?? "live"],
  error: (row) => row.causes ?? [],
  failure: (row) => row.kinds ?? [],
  harm: (row) => [row.broken_guards > 0 && "broken_guard", row.kinds?.includes("unasked_change") && "unasked_change"].filter(Boolean),
  by_hand: (row) => [
    mine(row) && "mine",
    row.by_hand?.some((one) => !one.is_mine && one.label) && "others",
    row.by_hand?.some((one) => one.note) && "note",
    row.label && mine(row) && (mine(row) === row.label ? "agrees" : "disagrees"),
  ].filter(Boolean),
  my_label: (row) => [mine(row)].filter(Boolean),
  scenario: (row) => [row.scenario],
  task: (row) => [row.task],
  group: (row) => [row.group],
  episode: (row) => [row.episode],
  tag: (row) => row.tags,
  table: (row) => row.changed,
  tool: (row) => row.tools ?? [],
  failed_call: (row, data) => failedCalls(data),
};
const BOUNDS = ["min_reward", "max_reward", "min_turns", "max_turns", "min_share", "max_share"];

export function selectEpisodes(rows, query, episode) {
  const found = inOrder(rows, query, episode);
  const offset = Number(query.get("offset") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  return { total: found.length, rows: found.slice(offset, offset + limit) };
}

export function neighboursOf(rows, query, episode, id) {
  const found = inOrder(rows, query, episode);
  const here = found.findIndex((row) => row.episode === id);
  if (here < 0) return { position: null, total: found.length, previous: null, next: null };
  return { position: here, total: found.length, previous: found[here - 1] ?? null, next: found[here + 1] ?? null };
}

// The number of rows of each value of each filter, under all other filters.
export function facetsOf(rows, query, episode) {
  const facets = {};
  for (const [name, values] of Object.entries(VALUES)) {
    const counts = new Map();
    for (const row of kept(rows, query, episode, name)) {
      for (const one of values(row)) counts.set(one, (counts.get(one) ?? 0) + 1);
    }
    facets[name] = { values: [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 250), left_out: Math.max(0, counts.size - 250) };
  }
  return { facets };
}

export function hitsOf(query, episode) {
  const clauses = clausesOf(query.getAll("text").join(" "));
  const found = {};
  for (const id of query.getAll("episode")) {
    const hit = hitIn(clauses, textsOf(episode(id)));
    if (hit) found[id] = hit;
  }
  return { hits: found };
}

function inOrder(rows, query, episode) {
  const found = kept(rows, query, episode);
  const sort = query.get("sort");
  return sort ? found.sort(order(sort.replace(/^-/, ""), sort.startsWith("-") ? -1 : 1)) : found;
}

function kept(rows, query, episode, but) {
  const clauses = clausesOf(query.getAll("text").join(" "));
  return rows.filter((row) => keeps(row, query, episode, but) && (clauses.length === 0 || fulfils(clauses, row.episode, places(episode(row.episode)))));
}

const known = new WeakMap(); // the texts of an episode

function places(data) {
  if (!data) return [];
  if (!known.has(data)) known.set(data, textsOf(data));
  return known.get(data);
}

function keeps(row, query, episode, but) {
  const isKept = Object.entries(VALUES).every(([name, values]) => {
    if (name === but) return true;
    const asked = query.getAll(name).map((one) => signed(name, one));
    if (asked.length === 0) return true;
    const has = values(row, name === "failed_call" ? episode(row.episode) : undefined);
    const wanted = asked.filter((one) => !one.isNot);
    return (wanted.length === 0 || wanted.some((one) => has.includes(one.value))) && !asked.some((one) => one.isNot && has.includes(one.value));
  });
  const bounds = BOUNDS.map((name) => query.get(name));
  return isKept && within(row.reward, bounds[0], bounds[1]) && within(row.turns, bounds[2], bounds[3]) && within(row.share, bounds[4], bounds[5]);
}

// The calls of an episode that failed, as `tool:error`.
function failedCalls(episode) {
  const found = new Set();
  for (const turn of episode?.turns ?? []) {
    for (const [calls, results] of [[turn.calls, turn.results], [turn.user?.calls, turn.user?.results]]) {
      (results ?? []).forEach((result, i) => result?.error && calls?.[i] && found.add(`${calls[i].name}:${result.error}`));
    }
  }
  return [...found];
}

function within(value, low, high) {
  if (!low && !high) return true;
  if (value === null || value === undefined) return false;
  return !(low && value < Number(low)) && !(high && value > Number(high));
}

const FIELDS = { tokens: (row) => row.tokens.prompt + row.tokens.completion };

function order(field, sign) {
  const of = FIELDS[field] ?? ((row) => row[field]);
  return (a, b) => {
    const [x, y] = [of(a), of(b)];
    if (x === y) return a.episode < b.episode ? -1 : 1;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * sign;
  };
}

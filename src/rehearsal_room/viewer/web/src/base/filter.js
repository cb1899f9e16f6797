// Filters and sorting of episodes, as the server does them (for exported files).

const EXACT = ["scenario", "task", "group"];

export function selectEpisodes(rows, query, episode) {
  const texts = new Map();
  const found = rows.filter((row) => keeps(row, query, episode, () => textOf(episode(row.episode), texts)));
  const sort = query.get("sort");
  if (sort) found.sort(order(sort.replace(/^-/, ""), sort.startsWith("-") ? -1 : 1));
  const offset = Number(query.get("offset") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  return { total: found.length, rows: found.slice(offset, offset + limit) };
}

function keeps(row, query, episode, text) {
  const any = (name, has) => {
    const wanted = query.getAll(name);
    return wanted.length === 0 || wanted.some(has);
  };
  return (
    EXACT.every((name) => any(name, (one) => row[name] === one)) &&
    any("label", (one) => labelOf(row) === one) &&
    any("ending", (one) => (row.ending ?? "live") === one) &&
    any("tag", (one) => row.tags.includes(one)) &&
    any("table", (one) => row.changed.includes(one)) &&
    any("tool", (one) => (row.tools ?? []).includes(one)) &&
    any("failure", (one) => (row.kinds ?? []).includes(one)) &&
    any("error", (one) => (row.causes ?? []).includes(one)) &&
    any("failed_call", (one) => failedCalls(episode(row.episode)).has(one)) &&
    within(row.reward, query.get("min_reward"), query.get("max_reward")) &&
    within(row.turns, query.get("min_turns"), query.get("max_turns")) &&
    (!query.get("text") || contains(text(), query.get("text")))
  );
}

// The calls of an episode that failed, as `tool:error`.
function failedCalls(episode) {
  const found = new Set();
  for (const turn of episode?.turns ?? []) {
    for (const [calls, results] of [[turn.calls, turn.results], [turn.user?.calls, turn.user?.results]]) {
      (results ?? []).forEach((result, i) => result?.error && calls?.[i] && found.add(`${calls[i].name}:${result.error}`));
    }
  }
  return found;
}

function labelOf(row) {
  if (row.label) return row.label;
  return row.unjudged ? "unjudged" : "none";
}

function within(value, low, high) {
  if (!low && !high) return true;
  if (value === null || value === undefined) return false;
  return !(low && value < Number(low)) && !(high && value > Number(high));
}

// Whether a text has all words; a quoted phrase counts as one.
function contains(text, words) {
  const wanted = words.toLowerCase().match(/"[^"]+"|\S+/g) ?? [];
  return wanted.every((word) => text.includes(word.replaceAll('"', "")));
}

function textOf(episode, texts) {
  if (!episode) return "";
  const id = episode.line.episode;
  if (!texts.has(id)) {
    const { instruction, turns, answer, verdicts } = episode;
    texts.set(id, JSON.stringify([instruction, turns, answer, verdicts]).toLowerCase());
  }
  return texts.get(id);
}

function order(field, sign) {
  return (a, b) => {
    const [x, y] = [a[field], b[field]];
    if (x === y) return a.episode < b.episode ? -1 : 1;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * sign;
  };
}

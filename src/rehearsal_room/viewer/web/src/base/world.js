// The world of an episode at a turn, from its start and the changes of its calls.

const keyOf = (key) => JSON.stringify(key);

// All changes of a turn, in order: those of the agent's calls, then those of a user's calls.
export function changesOf(turn) {
  const results = [...(turn.results ?? []), ...(turn.user?.results ?? [])];
  return results.flatMap((result) => result?.changes ?? []);
}

// The net changes of the turns from .. to - 1: table -> key -> { key, before, after }.
export function netChanges(episode, from, to) {
  const tables = new Map();
  for (const turn of episode.turns.slice(from, to)) {
    for (const { table, key, before, after } of changesOf(turn)) {
      const rows = tables.get(table) ?? new Map();
      tables.set(table, rows);
      const earlier = rows.get(keyOf(key));
      const first = earlier ? earlier.before : before;
      rows.set(keyOf(key), { key, before: first, after: after && { ...earlier?.after, ...after } });
    }
  }
  for (const rows of tables.values()) {
    for (const [key, row] of rows) if (isSame(row.before, row.after)) rows.delete(key);
  }
  return tables;
}

function isSame(before, after) {
  if (!before || !after) return !before && !after;
  return Object.keys(after).every((name) => before[name] === after[name]);
}

export function word(change) {
  if (!change) return "same";
  if (!change.before) return "new";
  return change.after ? "changed" : "deleted";
}

function counts(rows) {
  const found = { inserted: 0, updated: 0, deleted: 0 };
  const names = { new: "inserted", changed: "updated", deleted: "deleted" };
  for (const row of rows?.values() ?? []) found[names[word(row)]] += 1;
  return found;
}

function digestAt(episode, turn) {
  let digest = episode.line.start_digest;
  for (const one of episode.turns.slice(0, turn)) {
    for (const result of one.results ?? []) digest = result?.digest || digest;
  }
  return digest;
}

export function worldAt(episode, start, turn) {
  const fromStart = netChanges(episode, 0, turn);
  const fromBefore = netChanges(episode, Math.max(turn - 1, 0), turn);
  const tables = start.map(({ name, columns, rows }) => {
    const found = counts(fromStart.get(name));
    return {
      name,
      columns,
      rows: rows.length + found.inserted - found.deleted,
      from_start: found,
      from_before: counts(fromBefore.get(name)),
    };
  });
  return { turn, turns: episode.turns.length, digest: digestAt(episode, turn), tables };
}

export function tableAt(episode, start, turn, name, query) {
  const table = start.find((one) => one.name === name);
  if (!table) return undefined;
  const columns = table.columns.map((column) => column.name);
  const fromStart = netChanges(episode, 0, turn).get(name) ?? new Map();
  const fromBefore = netChanges(episode, Math.max(turn - 1, 0), turn).get(name) ?? new Map();
  const rows = table.rows.map((values, i) => {
    const key = table.keys?.[i] ?? keyValues(table, values);
    const changed = fromStart.get(keyOf(key));
    const old = Object.fromEntries(columns.map((column, j) => [column, values[j]]));
    return row(key, old, changed?.after && { ...old, ...changed.after }, changed, fromBefore, columns);
  });
  for (const change of fromStart.values()) {
    if (!change.before) rows.push(row(change.key, null, change.after, change, fromBefore, columns));
  }
  const only = query.get("only") ?? "all";
  const found = rows.filter((one) => (only === "all" ? one.start !== "deleted" : one[only] !== "same"));
  const offset = Number(query.get("offset") ?? 0);
  const limit = Number(query.get("limit") ?? 100);
  return { columns: table.columns, total: found.length, rows: found.slice(offset, offset + limit) };
}

function keyValues(table, values) {
  return values.filter((_, j) => table.columns[j].pk);
}

function row(key, old, after, changed, fromBefore, columns) {
  const shown = after ?? old ?? {};
  const was = {};
  if (old && after) {
    for (const column of columns) if (old[column] !== after[column]) was[column] = old[column];
  }
  return {
    key,
    values: columns.map((column) => shown[column] ?? null),
    start: word(changed),
    before: word(fromBefore.get(keyOf(key))),
    was: Object.keys(was).length ? was : null,
  };
}

// Filters and sorting of tasks, as the server does them (for exported files).

const SORTS = {
  name: (row) => row.name,
  world: (row) => row.scenario,
  rate: (row) => row.rate?.value ?? null,
  kinds: (row) => row.kinds[0]?.n ?? 0,
  cost: (row) => row.cost_usd,
};

// `tables` has the rows of each table: by task, world, tag and kind.
export function taskRows(tables, query) {
  const rows = tables?.[query.get("by") ?? "task"];
  if (!rows) return undefined;
  const name = (query.get("name") ?? "").toLowerCase();
  const any = (filter, values) => {
    const wanted = query.getAll(filter);
    return wanted.length === 0 || wanted.some((one) => values.includes(one));
  };
  const found = rows.filter((row) => row.name.toLowerCase().includes(name) && any("scenario", [row.scenario]) && any("tag", row.tags) && any("failure", row.kinds.map((one) => one.kind)));
  const sort = query.get("sort") ?? "rate";
  const column = sort.replace(/^-/, "");
  const value = SORTS[column] ?? ((row) => row[column]);
  found.sort((a, b) => compare(value(a), value(b), sort.startsWith("-") ? -1 : 1) || b.judged - a.judged || compare(a.name, b.name, 1));
  const offset = Number(query.get("offset") ?? 0);
  return { total: found.length, rows: found.slice(offset, offset + Number(query.get("limit") ?? 100)) };
}

function compare(a, b, sign) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return (a < b ? -1 : 1) * sign;
}

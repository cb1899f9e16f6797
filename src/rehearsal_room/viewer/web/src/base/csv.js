// The table of episodes as CSV (RFC 4180). A text that a spreadsheet would run as a formula is quoted.
import { listQuery } from "./list_query.js";
import { api, get } from "./source.js";

const COLUMNS = [
  ...["episode", "scenario", "task", "group", "member", "seed", "ending", "label", "reward", "share", "turns", "calls", "errors"],
  ...["causes", "kinds", "broken_guards", "tools", "changed", "tags", "seconds", "policy_s", "calls_s", "prompt_tokens"],
  ...["completion_tokens", "cost_usd", "judge", "first_error_turn", "attempt", "my_label", "my_note"],
];
const SIZE = 1000;

// All rows of a filter, asked for page by page; `onRows` hears how many are there.
export async function csvOf(run, query, onRows) {
  const lines = [COLUMNS.join(",")];
  for (let offset = 0; ; offset += SIZE) {
    const asked = listQuery(query);
    asked.append("offset", offset);
    asked.append("limit", SIZE);
    const { rows, total } = await get(`${api`/api/runs/${run}/episodes`}?${asked}`);
    for (const row of rows) lines.push(COLUMNS.map((name) => cell(valueOf(row, name))).join(","));
    onRows?.(lines.length - 1, total);
    if (rows.length < SIZE) return `${lines.join("\r\n")}\r\n`;
  }
}

function valueOf(row, name) {
  const mine = row.by_hand?.find((one) => one.is_mine);
  const special = { prompt_tokens: row.tokens?.prompt, completion_tokens: row.tokens?.completion, my_label: mine?.label, my_note: mine?.note };
  return name in special ? special[name] : row[name];
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = Array.isArray(value) ? value.join(" ") : String(value);
  const plain = /^[\s]*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

// Let the browser store a text under a name.
export function save(text, name, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The filters of the table of episodes, as words of an address. A value after a minus is excluded.
//
//   failure=-wrong_record  ->  { isNot: true, value: "wrong_record" }, in words: not Wrong record
import { labelOf, words } from "./format.js";

export const FILTERS = ["label", "ending", "error", "failure", "harm", "by_hand", "my_label", "scenario", "task", "group", "episode", "tag", "table", "tool", "failed_call", "min_reward", "max_reward", "min_share", "max_share", "min_turns", "max_turns", "text"];
export const SORTS = ["episode", "scenario", "task", "group", "member", "ending", "label", "reward", "share", "turns", "calls", "errors", "seconds", "policy_s", "tokens", "cost_usd", "started_at", "first_error_turn"];
const PLAIN = ["min_reward", "max_reward", "min_share", "max_share", "min_turns", "max_turns", "text"]; // a minus is a part of the value
const NAMES = { scenario: "World", error: "Error", failure: "Went wrong", harm: "Did harm", by_hand: "By hand", my_label: "My label", table: "Changed", tool: "Called", failed_call: "Call failed", min_reward: "Reward ≥", max_reward: "Reward ≤", min_share: "Share ≥", max_share: "Share ≤", min_turns: "Turns ≥", max_turns: "Turns ≤", text: "Text" };
const BY_HAND = { mine: "I labelled", others: "Others labelled", note: "With a note", agrees: "I agree with the judge", disagrees: "I disagree with the judge" };

export const canBeExcluded = (name) => !PLAIN.includes(name);

// { isNot, value } of a value in an address.
export function signed(name, text) {
  if (!canBeExcluded(name)) return { isNot: false, value: text };
  return text.startsWith("-") ? { isNot: true, value: text.slice(1) } : { isNot: false, value: text.replace(/^\+/, "") };
}

// A value as it stands in an address.
export function unsigned(name, value, isNot) {
  if (!canBeExcluded(name)) return value;
  if (isNot) return `-${value}`;
  return /^[-+]/.test(value) ? `+${value}` : value;
}

export const filterName = (name) => NAMES[name] ?? words(name);

export function valueText(name, value) {
  if (name === "label" || name === "my_label") return labelOf(value).text;
  if (name === "by_hand") return BY_HAND[value] ?? value;
  return ["failure", "error", "ending", "harm"].includes(name) ? words(value) : value;
}

// The filters and the order in a query, for the server and for other pages.
export function listQuery(query, { sort = true } = {}) {
  const found = new URLSearchParams();
  for (const name of FILTERS) for (const value of query.getAll(name)) if (value) found.append(name, value);
  const order = query.get("sort");
  if (sort && order && order !== "episode" && SORTS.includes(order.replace(/^-/, ""))) found.append("sort", order);
  return found;
}

// The filters in words: "Went wrong: not Wrong value, Text: refund"
export function inWords(query) {
  return [...listQuery(query, { sort: false })].map(([name, text]) => {
    const { isNot, value } = signed(name, text);
    return `${filterName(name)}: ${isNot ? "not " : ""}${valueText(name, value)}`;
  }).join(", ");
}

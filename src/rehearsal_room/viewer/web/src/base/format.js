// Numbers, shares, times and the words for labels, as a reader sees them.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const absent = (value) => value === null || value === undefined || Number.isNaN(value);

export const number = (value) => (absent(value) ? "–" : whole.format(value));
export const decimal = (value, digits = 2) => (absent(value) ? "–" : fixed(Number(value), digits));
export const isNumber = (value) => typeof value === "number";
export const percent = (value, digits = 1) => (absent(value) ? "–" : `${fixed(100 * value, digits)}%`);

// A number with so many digits, as the command line writes it: of a tie the even neighbour, 11.25 as
// 11.2. Only halves, quarters and so on are ties: other decimal fractions have no exact number.
function fixed(value, digits) {
  const parts = value * 2 ** (digits + 1);
  if (!Number.isInteger(parts) || parts % 2 === 0) return value.toFixed(digits);
  const below = Math.floor(value * 10 ** digits);
  return ((below + (below % 2 === 0 ? 0 : 1)) / 10 ** digits).toFixed(digits);
}

// A number in four significant digits, as curves and tables need it.
export function short(value) {
  if (absent(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return whole.format(value);
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return whole.format(value);
  return size < 1e-3 && size > 0 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

// Words that a report prints as a line, as a sentence.
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;

export function count(value, word, words = `${word}s`) {
  return `${number(value)} ${value === 1 ? word : words}`;
}

export function seconds(value) {
  if (absent(value)) return "–";
  if (value > 0 && value < 0.00005) return `${(value * 1e6).toFixed(value < 0.00000995 ? 1 : 0)} µs`;
  if (value < 0.0995) return `${(value * 1000).toFixed(value < 0.00995 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
}

export function dollars(value) {
  if (absent(value)) return "–";
  return value !== 0 && value < 0.01 ? "< $0.01" : `$${value.toFixed(2)}`;
}

const clocks = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
export const clock = (at) => (absent(at) ? "–" : clocks.format(new Date(at * 1000)));

const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
export const date = (at) => (absent(at) ? "–" : dates.format(new Date(at * 1000)));

const LABELS = {
  completed: ["Completed", "good", "check"],
  partially_completed: ["Partly completed", "warn", "half"],
  agent_error: ["Agent error", "bad", "cross"],
  environment_error: ["World error", "env", "alert"],
  unjudged: ["Unjudged", "dim", "question"],
  none: ["No verdict", "dim", "dot"],
  live: ["Unfinished", "accent", "dot"],
};

// A label's words, its colour's name and its icon.
export function labelOf(label) {
  const [text, tone, icon] = LABELS[label] ?? [words(label ?? "none"), "dim", "dot"];
  return { text, tone, icon };
}

// The label of an episode's row, as filters name it.
export function labelName(line) {
  if (line.label) return line.label;
  if (line.ending === null || line.ending === undefined) return "live";
  return line.unjudged ? "unjudged" : "none";
}

// Names in a line: the first few and how many more.
export function listed(names, most = 3) {
  const short = names.map((name) => name.split("/").at(-1));
  return short.length > most + 1 ? `${short.slice(0, most).join(", ")} and ${short.length - most} more` : short.join(", ");
}

const SPECIAL = { none: "No verdict", live: "Unfinished", tool_calls: "Tool calls" };

// An identifier as words: "missing_write" -> "Missing write".
export function words(name) {
  if (SPECIAL[name]) return SPECIAL[name];
  const text = String(name).replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// The first sentence says what a failure kind means (docs/failures.md).
export const WRONG_WRITES = [
  "wrong_record",
  "wrong_value",
  "unasked_change",
  "duplicate_write",
  "write_without_lookup",
];

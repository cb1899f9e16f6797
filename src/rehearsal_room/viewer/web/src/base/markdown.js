// An episode as Markdown, to paste into an issue or a letter. What agents and tools wrote stands in
// fences that are longer than any run of backticks in it.
import { decimal, labelName, labelOf, words } from "./format.js";
import { visible } from "./text.js";

export function markdownOf(data) {
  const { line } = data;
  const parts = [
    `# ${inLine(line.task)}: ${labelOf(labelName(line)).text}`,
    `Episode ${inLine(line.episode)} of ${inLine(line.scenario)}, ${inLine(data.policy)}, reward ${decimal(line.reward)}`,
    "## Task",
    fenced(data.instruction),
  ];
  for (const turn of data.turns) {
    parts.push(`## Turn ${turn.turn + 1}`);
    if (turn.text && turn.text !== turn.answer) parts.push(fenced(turn.text));
    if (turn.format_error) parts.push("The reply could not be read:", fenced(turn.format_error));
    parts.push(...callsOf(turn.calls, turn.results));
    if (turn.answer) parts.push(turn.user ? "To the user:" : "Answer:", fenced(turn.answer));
    if (turn.user) parts.push("User:", fenced(turn.user.text), ...callsOf(turn.user.calls, turn.user.results));
  }
  const verdict = data.verdicts?.at(-1);
  if (verdict) {
    parts.push("## Verdict", `${labelOf(verdict.label ?? "unjudged").text}, by ${inLine(verdict.judge)}`);
    const failed = (verdict.findings ?? []).filter((one) => !one.passed);
    if (failed.length) parts.push(failed.map((one) => `- ${inLine(one.name)}: expected ${inLine(one.expected)}, found ${inLine(one.found)}`).join("\n"));
  }
  for (const one of line.by_hand ?? []) parts.push(`By hand, ${inLine(one.labeller)}: ${one.label ? labelOf(one.label).text : "a note"}${one.note ? `: ${inLine(one.note)}` : ""}`);
  return `${parts.join("\n\n")}\n`;
}

function callsOf(calls = [], results = []) {
  return calls.flatMap((call, i) => {
    const result = results[i];
    const changes = (result?.changes ?? []).map((one) => `- ${inLine(one.table)} ${inLine(JSON.stringify(one.key))}: ${one.before === null ? "new" : one.after === null ? "deleted" : `changed ${inLine(one.columns.join(", "))}`}`);
    return [
      fenced(`${call.name}(${typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments)})`),
      result && (result.error ? `Error, ${words(result.error).toLowerCase()}:` : "Result:"),
      result && fenced(result.text),
      changes.length && changes.join("\n"),
    ].filter(Boolean);
  });
}

function fenced(text) {
  const plain = visible(text ?? "");
  const longest = Math.max(2, ...(plain.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${plain}\n${fence}`;
}

// A short text in a line: as code, so that nothing in it is markup.
function inLine(text) {
  const plain = visible(text ?? "").replace(/\s+/g, " ").trim();
  if (/^[\w .,:%-]*$/.test(plain)) return plain;
  const longest = Math.max(0, ...(plain.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence} ${plain} ${fence}`;
}

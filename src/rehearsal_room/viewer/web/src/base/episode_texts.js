// The texts of an episode in the order of its page: [{ turn (from 0; null: outside), place, text }].
export function textsOf(data) {
  const found = [];
  const add = (turn, place, text) => text && found.push({ turn, place, text: String(text) });
  add(null, "instruction", data.instruction);
  for (const turn of data.turns) {
    add(turn.turn, "reply", turn.reasoning);
    add(turn.turn, "reply", turn.text);
    add(turn.turn, "reply", turn.format_error);
    for (const call of [...(turn.calls ?? []), ...(turn.user?.calls ?? [])]) {
      add(turn.turn, "call", call.name);
      add(turn.turn, "call", JSON.stringify(call.arguments ?? ""));
    }
    for (const result of [...(turn.results ?? []), ...(turn.user?.results ?? [])]) add(turn.turn, "result", result?.text);
    if (turn.answer !== turn.text) add(turn.turn, "answer", turn.answer);
    add(turn.turn, "user", turn.user?.text);
  }
  const last = data.turns.length ? data.turns.length - 1 : null;
  for (const one of data.summaries ?? []) add(last === null ? null : Math.min(one.turn, last), "summary", one.text);
  if (!data.turns.some((turn) => turn.answer === data.answer || turn.text === data.answer)) add(last, "answer", data.answer);
  for (const one of data.verdicts ?? []) {
    add(null, "verdict", one.reasoning);
    add(null, "verdict", one.unjudged);
    for (const finding of one.findings ?? []) if (!finding.passed) add(null, "verdict", `${finding.name}: ${finding.found}`);
    for (const model of one.judgements ?? []) add(null, "verdict", `${model.reasoning} ${model.fault}`);
  }
  return found;
}

// Where an episode first went wrong: { turn, call } of the first error and the first wrong write.
import { WRONG_WRITES } from "./format.js";

export function firstError(data) {
  for (const turn of data.turns) {
    if (turn.format_error) return { turn: turn.turn };
    const call = (turn.results ?? []).findIndex((result) => result?.error);
    if (call >= 0) return { turn: turn.turn, call };
  }
  return null;
}

const writes = (turn) => (turn?.results ?? []).findIndex((result) => result?.changes?.length);

// `isSure`: the failures of the episode name the turn; else it is the first write of an episode
// that failed. null: the episode is completed, or it wrote nothing.
export function firstWrongWrite(data, failures) {
  const named = failures
    .filter((one) => WRONG_WRITES.includes(one.kind) && Number.isInteger(one.turn))
    .sort((a, b) => a.turn - b.turn)[0];
  if (named) {
    const call = writes(data.turns[named.turn]);
    return { turn: named.turn, call: call < 0 ? undefined : call, isSure: true };
  }
  if (data.line.label === "completed" || !data.line.label) return null;
  const turn = data.turns.find((one) => writes(one) >= 0);
  return turn ? { turn: turn.turn, call: writes(turn), isSure: false } : null;
}

// Two episodes side by side (for exported files; the server does the same).
import { netChanges } from "./world.js";

const MOST = 400; // turns that are aligned by their calls; longer ones are aligned by number

const callsOf = (turn) => JSON.stringify((turn.calls ?? []).map((call) => [call.name, call.arguments]));
const saidBy = (turn) => callsOf(turn) + (turn.answer ?? "");

function digests(episode) {
  let digest = episode.line.start_digest;
  return episode.turns.map((turn) => {
    for (const result of turn.results ?? []) digest = result?.digest || digest;
    return digest;
  });
}

export function comparePair(a, b, startA, startB) {
  const aligned = align(a.turns.map(saidBy), b.turns.map(saidBy));
  const [digestsA, digestsB] = [digests(a), digests(b)];
  const why = whyCallsAlone(a.line.start_digest, b.line.start_digest);
  for (const line of aligned) line.same = sameness(line, a, b, digestsA, digestsB, why);
  const parting = aligned.find((line) => line.same !== (why ? "call" : "both"));
  const at = parting && { a: parting.a ?? a.turns.length, b: parting.b ?? b.turns.length };
  return {
    a: a.line,
    b: b.line,
    aligned,
    parts_at: at ?? null,
    world_difference: at && !why ? difference(a, b, at.a + 1, at.b + 1, startA) : [],
    end_difference: why ? [] : difference(a, b, a.turns.length, b.turns.length, startB),
    why_calls_alone: why,
    remarks: a.line.scenario === b.line.scenario && a.line.task === b.line.task ? [] : [`These are different tasks: ${a.line.scenario}:${a.line.task} and ${b.line.scenario}:${b.line.task}.`],
  };
}

// Why worlds are not compared; null: they are.
function whyCallsAlone(startA, startB) {
  if (!startA || !startB) return "The state of a world is not known, so the turns are aligned by their calls alone.";
  return startA === startB ? null : "The two episodes began in different states of the world: the turns are aligned by their calls alone.";
}

function sameness(line, a, b, digestsA, digestsB, why) {
  if (line.a === null || line.b === null) return "none";
  if (why) return saidBy(a.turns[line.a]) === saidBy(b.turns[line.b]) ? "call" : "none";
  const call = saidBy(a.turns[line.a]) === saidBy(b.turns[line.b]);
  const digest = digestsA[line.a] === digestsB[line.b];
  if (call) return digest ? "both" : "call";
  return digest ? "digest" : "none";
}

// The longest common sequence of equal turns; what lies between is put side by side.
function align(a, b) {
  if (a.length > MOST || b.length > MOST) return beside(a.length, b.length, 0, 0);
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i][j] =
        a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j, fromA, fromB] = [0, 0, 0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push(...beside(i, j, fromA, fromB), { a: i, b: j });
      fromA = ++i;
      fromB = ++j;
    } else if (best[i + 1][j] >= best[i][j + 1]) i += 1;
    else j += 1;
  }
  return [...lines, ...beside(a.length, b.length, fromA, fromB)];
}

function beside(toA, toB, fromA, fromB) {
  const lines = [];
  for (let i = 0; i < Math.max(toA - fromA, toB - fromB); i++) {
    lines.push({ a: fromA + i < toA ? fromA + i : null, b: fromB + i < toB ? fromB + i : null });
  }
  return lines;
}

// The rows in which two worlds of one start differ.
function difference(a, b, turnA, turnB, start) {
  const [changesA, changesB] = [netChanges(a, 0, turnA), netChanges(b, 0, turnB)];
  const found = [];
  for (const { name, columns, rows, keys } of start ?? []) {
    const [ofA, ofB] = [changesA.get(name) ?? new Map(), changesB.get(name) ?? new Map()];
    for (const key of new Set([...ofA.keys(), ...ofB.keys()])) {
      const index = (keys ?? []).findIndex((one) => JSON.stringify(one) === key);
      const old = index < 0 ? null : Object.fromEntries(columns.map((c, j) => [c.name, rows[index][j]]));
      const [rowA, rowB] = [rowAfter(ofA.get(key), old), rowAfter(ofB.get(key), old)];
      if (JSON.stringify(rowA) !== JSON.stringify(rowB)) {
        found.push({ table: name, key: JSON.parse(key), a: rowA, b: rowB });
      }
    }
  }
  return found;
}

function rowAfter(change, old) {
  if (!change) return old;
  return change.after ? { ...old, ...change.after } : null;
}

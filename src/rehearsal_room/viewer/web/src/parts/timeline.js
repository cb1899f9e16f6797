// Where the time of an episode went: waiting, model, tools and user of each turn as bars on one axis.
import { clock, seconds } from "../base/format.js";
import { html } from "../base/html.js";
import { Fold, Pages } from "./basics.js";

const KINDS = [["wait", "waiting"], ["model", "model"], ["tools", "tools"], ["user", "user"]];

// Each turn with its spans in seconds since the start: { turn, at, spans: { wait: [from, to], … } }.
export function spansOf(data) {
  const start = data.line?.started_at;
  if (!start) return [];
  let before = start;
  return data.turns.filter((turn) => turn.at && !turn.is_kept).map((turn) => {
    const took = [turn.policy_s, turn.calls_s, turn.user_s].map((one) => one ?? 0);
    const begin = Math.max(before, turn.at - took.reduce((a, b) => a + b, 0));
    const [model, tools, user] = [0, 1, 2].map((i) => [0, 1].map((j) => begin - start + took.slice(0, i + j).reduce((a, b) => a + b, 0)));
    const spans = { wait: [before - start, begin - start], model, tools, user };
    before = Math.max(before, turn.at);
    return { turn: turn.turn, at: turn.at, spans };
  });
}

const size = ([from, to]) => Math.max(0, to - from);

// The longest span of all: { turn, kind, seconds }.
function slowest(rows) {
  return rows
    .flatMap((row) => KINDS.map(([kind, name]) => ({ turn: row.turn, name, seconds: size(row.spans[kind]) })))
    .reduce((a, b) => (a && a.seconds >= b.seconds ? a : b), null);
}

export function Timeline({ data, onTurn }) {
  const rows = spansOf(data);
  if (rows.length === 0) return null;
  const total = Math.max(...rows.map((row) => Math.max(...KINDS.map(([kind]) => row.spans[kind][1])))) || 1e-9;
  const worst = slowest(rows);
  return html`<${Fold} summary=${`Timeline: ${seconds(total)} from ${clock(data.line.started_at)}; longest: ${worst.name} at turn ${worst.turn + 1}, ${seconds(worst.seconds)}`}>
    <p class="timeline-key">${KINDS.map(([kind, name]) => html`<span><i class=${`bar-${kind}`}></i>${name}</span>`)}</p>
    <${Pages} rows=${rows} size=${60} noun="turns" render=${(some) => html`<ol class="timeline">${some.map((row) => html`<${Row} row=${row} total=${total} isWorst=${row.turn === worst.turn} onTurn=${onTurn} />`)}</ol>`} />
  <//>`;
}

function Row({ row, total, isWorst, onTurn }) {
  const took = KINDS.filter(([kind]) => size(row.spans[kind]) > 0).map(([kind, name]) => `${name} ${seconds(size(row.spans[kind]))}`).join(", ");
  return html`<li class=${isWorst ? "worst" : ""}><button class="link" onClick=${() => onTurn(row.turn)}>
    <span class="figure"><span class="sr-only">Turn </span>${row.turn + 1}</span><span class="figure dim">${clock(row.at)}</span>
    <span class="track" aria-hidden="true">${KINDS.map(([kind]) => html`<i class=${`bar-${kind}`} style=${{ left: `${(100 * row.spans[kind][0]) / total}%`, width: `${(100 * size(row.spans[kind])) / total}%` }}></i>`)}</span>
    <span class="dim took">${took || "no time"}</span></button></li>`;
}

// The turns of an episode in a column: what was called, where rows changed, where something failed.
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Icon } from "./icon.js";

const MOST = 120; // turns around the current one

export function Outline({ data, current, marks, onTurn }) {
  const { turns } = data;
  if (turns.length === 0) return null;
  const from = Math.max(0, Math.min((current ?? 0) - MOST / 2, turns.length - MOST));
  return html`<section class="card outline" aria-label="Turns"><h2>Turns</h2>
    <ol start=${from + 1}>${turns.slice(from, from + MOST).map((turn, i) => html`<${Line} turn=${turn} isCurrent=${from + i === current} isWrong=${marks.write?.isSure && marks.write.turn === turn.turn} onTurn=${onTurn} />`)}</ol>
    ${turns.length > MOST && html`<p class="dim">Turns ${from + 1} to ${Math.min(turns.length, from + MOST)} of ${turns.length}</p>`}
  </section>`;
}

function Line({ turn, isCurrent, isWrong, onTurn }) {
  const results = turn.results ?? [];
  const names = (turn.calls ?? []).map((call) => call.name).join(", ") || (turn.format_error ? "unreadable reply" : turn.user ? "to the user" : turn.answer === null || turn.answer === undefined ? "text" : "answer");
  const isError = turn.format_error || results.some((one) => one?.error);
  const writes = results.reduce((sum, one) => sum + (one?.changes?.length ?? 0), 0);
  return html`<li><button class=${isWrong ? "wrong" : ""} aria-current=${isCurrent ? "step" : undefined} onClick=${() => onTurn(turn.turn)}>
    <span class="figure dim">${turn.turn + 1}</span><span class="ellipsis"><bdi>${visible(names).slice(0, 80)}</bdi></span>
    ${isError && html`<span class="bad-text"><${Icon} name="alert" label="Error" /></span>`}
    ${writes > 0 && html`<span class=${`writes-mark ${isWrong ? "bad-text" : ""}`} title=${`${writes} changed rows`}><${Icon} name="pen" label="Rows changed" />${writes}</span>`}
  </button></li>`;
}

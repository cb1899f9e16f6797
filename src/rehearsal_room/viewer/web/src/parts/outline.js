// The turns of an episode in a column: what was called, where rows changed, where something failed.
import { useEffect, useState } from "preact/hooks";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Icon } from "./icon.js";

const MOST = 120; // turns around the current one

export function Outline({ data, current, marks, onTurn }) {
  const { turns } = data;
  const [moved, setMoved] = useState(null); // first turn that is listed, where somebody turned a page
  useEffect(() => setMoved(null), [current]);
  if (turns.length === 0) return null;
  const last = Math.max(0, turns.length - MOST);
  const from = Math.max(0, Math.min(moved ?? (current ?? 0) - MOST / 2, last));
  const go = (event) => {
    event.preventDefault();
    const wanted = Number(new FormData(event.currentTarget).get("turn"));
    if (wanted) onTurn(wanted - 1);
  };
  return html`<section class="card outline" aria-label="Turns"><h2>Turns</h2>
    ${turns.length > 12 && html`<form class="go-to" onSubmit=${go}><label>Go to turn <input name="turn" type="number" min="1" max=${turns.length} inputmode="numeric" /></label><span class="dim">of ${turns.length}</span><button class="button">Go</button></form>`}
    <ol start=${from + 1}>${turns.slice(from, from + MOST).map((turn, i) => html`<${Line} turn=${turn} isCurrent=${from + i === current} isWrong=${marks.write?.isSure && marks.write.turn === turn.turn} onTurn=${onTurn} />`)}</ol>
    ${turns.length > MOST && html`<p class="row dim"><button class="button icon-only" disabled=${from === 0} onClick=${() => setMoved(from - MOST)} aria-label="Earlier turns"><${Icon} name="left" /></button>Turns ${from + 1} to ${Math.min(turns.length, from + MOST)} of ${turns.length}<button class="button icon-only" disabled=${from === last} onClick=${() => setMoved(from + MOST)} aria-label="Later turns"><${Icon} name="right" /></button></p>`}
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

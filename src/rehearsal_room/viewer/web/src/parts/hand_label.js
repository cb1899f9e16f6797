// A person's label and note on an episode.
import { useEffect, useRef, useState } from "preact/hooks";
import { date, labelOf } from "../base/format.js";
import { html } from "../base/html.js";
import { useKeys } from "../base/keys.js";
import { unsigned } from "../base/list_query.js";
import { api, get, post } from "../base/source.js";
import { canDo } from "../base/state.js";
import { visible } from "../base/text.js";
import { Label, Notice } from "./basics.js";
import { Passage, Word } from "./texts.js";

export const HAND_LABELS = ["completed", "partially_completed", "agent_error", "environment_error"];
const MOST = 10_000; // characters of a note

const mineOf = (line) => line.by_hand?.find((one) => one.is_mine);

// Store a label, a note or both; what is not given stays as it was. Returns { line }.
export function sayByHand(run, line, { label, note }) {
  const mine = mineOf(line);
  return post(api`/api/runs/${run}/judge/labels`, {
    episode: line.episode,
    label: label === undefined ? (mine?.label ?? null) : label,
    note: (note === undefined ? (mine?.note ?? "") : note).toWellFormed(),
    seen: mine?.at ?? null,
  });
}

export function HandLabel({ run, line: first, onLine }) {
  const [line, setLine] = useState(first);
  const mine = mineOf(line);
  const [note, setNote] = useState(mine?.note ?? "");
  const [state, setState] = useState({});
  const field = useRef(null);
  useEffect(() => setLine(first), [first]);
  const say = async (change) => {
    try {
      const found = await sayByHand(run, line, change);
      setLine(found.line);
      onLine?.(found.line);
      setState({ words: change.label === null ? "Withdrawn." : "Kept." });
    } catch (error) {
      setState({ error: error.message }); // what was typed stays
      const asked = new URLSearchParams({ episode: unsigned("episode", line.episode, false) });
      get(`${api`/api/runs/${run}/episodes`}?${asked}`).then(({ rows }) => rows[0] && setLine(rows[0]), () => {});
    }
  };
  const give = (label) => say({ label: label === mine?.label ? null : label, note });
  const isOpen = canDo("label") && line.ending;
  useKeys(isOpen ? [
    ...HAND_LABELS.map((one, i) => [String(i + 1), `Label: ${labelOf(one).text.toLowerCase()}`, () => give(one)]),
    ["m", "Write a note", () => field.current?.focus()],
  ] : []);
  const others = (line.by_hand ?? []).filter((one) => !one.is_mine);
  if (!isOpen && !line.by_hand?.length) return null;
  const isOther = mine?.label && line.label && mine.label !== line.label;
  return html`<section class="card hand-label" aria-label="Label by hand"><h2>By hand</h2>
    ${isOpen
      ? html`<div class="label-choice" role="group" aria-label="Your label">${HAND_LABELS.map((one, i) => html`<button class=${`button ${mine?.label === one ? "primary" : ""}`} aria-pressed=${mine?.label === one} onClick=${() => give(one)}><kbd>${i + 1}</kbd>${labelOf(one).text}</button>`)}</div>
        <label class="field"><span>Note <kbd>m</kbd></span><textarea ref=${field} rows="2" maxlength=${MOST} value=${note} onInput=${(event) => setNote(event.currentTarget.value)} onKeyDown=${(event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && say({ note })}></textarea></label>
        <p class="row"><button class="button" disabled=${note === (mine?.note ?? "")} onClick=${() => say({ note })}>Keep the note</button>
          ${mine && html`<button class="link" onClick=${() => {
            setNote("");
            say({ label: null, note: "" });
          }}>Withdraw</button>`}
          <span class="dim" role="status">${state.words ?? (mine ? `You, ${date(mine.at)}` : "")}${isOther ? ": you disagree with the judge" : ""}</span></p>`
      : null}
    ${state.error && html`<${Notice} tone="bad" role="alert">${visible(state.error)}<//>`}
    ${[...(isOpen ? [] : (line.by_hand ?? []).filter((one) => one.is_mine)), ...others].map((one) => html`<div class="said-by"><p class="row"><${Word} class="strong" value=${one.labeller} />${one.label && html`<${Label} name=${one.label} small />`}</p>${one.note && html`<${Passage} value=${one.note} most=${400} />`}</div>`)}
  </section>`;
}

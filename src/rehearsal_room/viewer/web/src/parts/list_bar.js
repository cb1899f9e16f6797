// Of an episode: its place in the list that led to it, a box to find a text, and copies.
import { labelName, labelOf, number } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { useKeys } from "../base/keys.js";
import { inWords } from "../base/list_query.js";
import { markdownOf } from "../base/markdown.js";
import { episodeHref, go, route, runHref } from "../base/route.js";
import { api } from "../base/source.js";
import { prettyJson } from "../base/text.js";
import { Copy } from "./basics.js";
import { Find } from "./find.js";
import { Icon } from "./icon.js";
import { Word } from "./texts.js";

export function ListBar({ run, data, list }) {
  return html`<div class="list-bar"><${InList} run=${run} episode=${data.line.episode} />
    <${Find} data=${data} list=${list} /></div>`;
}

// The episode to the clipboard.
export function Copies({ data }) {
  return html`<span class="row copies" role="group" aria-label="Copy the episode"><${Copy} label="Link" text=${() => location.href} /><${Copy} label="JSON" text=${() => prettyJson(data)} /><${Copy} label="Markdown" text=${() => markdownOf(data)} /></span>`;
}

// The episode before and after in the filtered list; a step lands on the turn that went wrong.
function InList({ run, episode }) {
  const asked = route.value.query.get("in") ?? "";
  const load = useLoad(`${api`/api/runs/${run}/episodes/${episode}/neighbours`}?${asked}`);
  const found = load.data;
  const to = (line) => episodeHref(run, line.episode, { in: asked, turn: turnOf(line), find: route.value.query.get("find") ?? undefined });
  const step = (line) => line && go(to(line));
  useKeys([
    ["n", "Next episode of the list", () => step(found?.next)],
    ["p", "Previous episode of the list", () => step(found?.previous)],
  ]);
  const filters = inWords(new URLSearchParams(asked));
  const link = (line, icon, words, key) => line
    ? html`<a class="button" href=${to(line)} title=${`${line.task}: ${labelOf(labelName(line)).text} (${key})`}><${Icon} name=${icon} />${words} <kbd>${key}</kbd></a>`
    : html`<button class="button" disabled><${Icon} name=${icon} />${words} <kbd>${key}</kbd></button>`;
  return html`<nav class="row in-list" aria-label="List">
    ${link(found?.previous, "left", "Previous", "p")}${link(found?.next, "right", "Next", "n")}
    <span class="dim small">${load.error
      ? html`<span class="bad-text">${load.error}</span>`
      : found && (found.position === null ? `Not in the list of ${number(found.total)}` : `${number(found.position + 1)} of ${number(found.total)}`)}
      ${" "}<a href=${`${runHref(run, "episodes")}${asked ? `?${asked}` : ""}`}>${filters ? html`<${Word} value=${filters} />` : "all episodes"}</a></span></nav>`;
}

function turnOf(line) {
  const turn = line.mistake_turn ?? line.first_error_turn;
  return Number.isInteger(turn) ? Math.min(turn, Math.max(0, line.turns - 1)) + 1 : undefined;
}

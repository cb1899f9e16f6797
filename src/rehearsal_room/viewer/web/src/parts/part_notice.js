// In an exported file with a part of a run: which part, on each of its pages.
import { number } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad } from "../base/hooks.js";
import { inWords } from "../base/list_query.js";
import { route } from "../base/route.js";
import { about } from "../base/state.js";
import { Notice } from "./basics.js";
import { Word } from "./texts.js";

export function PartNotice() {
  const load = useLoad(about.value?.exported ? "/api/runs" : null);
  const [kind, run] = route.value.path;
  const part = kind === "run" && load.data?.runs.find((one) => one.id === run)?.part;
  if (!part) return null;
  const filters = inWords(new URLSearchParams(part.filter));
  return html`<${Notice} role="note"><b>${partWords(part)}</b><span>${filters ? html`Those with <${Word} value=${filters} />. ` : "The first ones. "}${part.left_out ? `${number(part.left_out)} more match and are left out. ` : ""}All counts and rates in this file are those of these episodes.</span><//>`;
}

export const partWords = (part) => `part: ${number(part.episodes)} of ${number(part.of)} episodes`;

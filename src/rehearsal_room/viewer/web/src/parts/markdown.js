// Markdown of agents and tools, laid out. The parser only splits the text (marked's lexer); what is
// shown are text nodes in a few elements made here, so no markup of the text becomes HTML. Links are
// shown with their address and lead nowhere, and only pictures that are in the text itself appear.
import { lexer } from "marked";
import { useMemo, useState } from "preact/hooks";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Picture, pictureOf } from "./picture.js";
import { Passage } from "./texts.js";

const LONGEST = 60_000; // characters that are laid out; longer ones are shown as text
const DEEPEST = 12;
const MARKS =
  /(^|\n) {0,3}(#{1,6} |[-*+] +\S|\d{1,3}[.)] |> ?|```|~~~|\|.+\|)|\*\*[^*\s][^*]*\*\*|__[^_\s][^_]*__|`[^`\n]+`|!?\[[^\]\n]*\]\([^)\n]+\)/;

// A text of any length: Markdown laid out, with a switch to the text as it is.
export function Prose({ value, class: name = "", most = 4000 }) {
  const [isRaw, setRaw] = useState(false);
  const [isWhole, setWhole] = useState(false);
  const text = String(value ?? "");
  const cut = isWhole || text.length <= most ? text : text.slice(0, most);
  const tokens = useMemo(() => (isRaw || !isMarkdown(text) ? null : split(cut)), [cut, isRaw]);
  if (!tokens && !isRaw) return html`<${Passage} class=${name} value=${text} most=${most} />`;
  return html`<div class=${`prose ${name}`}>
    ${isRaw ? html`<${Passage} value=${text} most=${most} />` : html`<div class="laid-out" dir="auto"><${Blocks} of=${tokens} /></div>`}
    <p class="prose-switches">${!isRaw && text.length > most && html`<button class="link" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Show less" : `Show all ${text.length.toLocaleString("en-GB")} characters`}</button>`}
      <button class="link raw" onClick=${() => setRaw(!isRaw)}>${isRaw ? "Show laid out" : "Show as text"}</button></p>
  </div>`;
}

const isMarkdown = (text) => text.length <= LONGEST && MARKS.test(text);

function split(text) {
  try {
    return lexer(text, { gfm: true, breaks: true });
  } catch {
    return null; // it is nested too deeply
  }
}

function Blocks({ of, depth = 0 }) {
  if (depth > DEEPEST) return plain(of.map((one) => one.raw).join(""));
  return (of ?? []).map((one) => block(one, depth));
}

function block(one, depth) {
  const inner = () => (one.tokens ? html`<${Words} of=${one.tokens} depth=${depth + 1} />` : plain(one.text));
  switch (one.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return html`<p class=${`heading h${Math.min(one.depth, 4)}`}>${inner()}</p>`;
    case "paragraph":
      return html`<p>${inner()}</p>`;
    case "text":
      return html`<span>${inner()}</span>`;
    case "code":
      return html`<pre tabindex="0" role="group" aria-label="Code"><code>${visible(one.text)}</code></pre>`;
    case "blockquote":
      return html`<blockquote><${Blocks} of=${one.tokens} depth=${depth + 1} /></blockquote>`;
    case "list": {
      const items = one.items.map((item) => html`<li>${item.task && html`<span>${item.checked ? "☑ " : "☐ "}</span>`}<${Blocks} of=${item.tokens} depth=${depth + 1} /></li>`);
      return one.ordered ? html`<ol start=${Number(one.start) || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
    }
    case "table":
      return html`<div class="scroll-x" tabindex="0" role="group" aria-label="Table"><table class="rows"><thead><tr>${one.header.map((cell) => html`<th scope="col"><${Words} of=${cell.tokens} depth=${depth + 1} /></th>`)}</tr></thead>
        <tbody>${one.rows.slice(0, 200).map((row) => html`<tr>${row.map((cell) => html`<td><${Words} of=${cell.tokens} depth=${depth + 1} /></td>`)}</tr>`)}</tbody></table></div>`;
    case "hr":
      return html`<hr />`;
    default:
      return html`<p>${plain(one.raw ?? one.text)}</p>`;
  }
}

function Words({ of, depth }) {
  if (depth > DEEPEST) return plain((of ?? []).map((one) => one.raw).join(""));
  return (of ?? []).map((one) => word(one, depth));
}

function word(one, depth) {
  const inner = () => (one.tokens ? html`<${Words} of=${one.tokens} depth=${depth + 1} />` : plain(unescaped(one.text)));
  switch (one.type) {
    case "strong":
      return html`<strong>${inner()}</strong>`;
    case "em":
      return html`<em>${inner()}</em>`;
    case "del":
      return html`<del>${inner()}</del>`;
    case "codespan":
      return html`<code>${visible(one.text)}</code>`;
    case "br":
      return html`<br />`;
    case "link":
      return html`<span class="address">${inner()}${one.href !== one.text && html` <span class="dim">(${visible(one.href)})</span>`}</span>`;
    case "image": {
      const src = pictureOf(one.href);
      if (src) return html`<${Picture} src=${src} alt=${visible(one.text || "Picture in the text")} />`;
      return html`<span class="address">[picture: ${visible(one.text)} <span class="dim">${visible(one.href).slice(0, 200)}</span>, not loaded]</span>`;
    }
    case "text":
    case "escape":
      return inner();
    case "checkbox":
      return null;
    default:
      return plain(one.raw ?? one.text);
  }
}

const plain = (text) => visible(text ?? "");
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const unescaped = (text) => String(text ?? "").replace(/&(?:amp|lt|gt|quot|#39);/g, (one) => ENTITIES[one]);

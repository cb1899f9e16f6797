// The calls that a person made, the newest first or last.
import { html } from "../base/html.js";
import { Call } from "./turn.js";
import { VirtualList } from "./virtual_list.js";

export function CallLog({ calls }) {
  if (calls.length === 0) return html`<p class="dim">No call yet. Choose a tool, fill in its form and call it.</p>`;
  return html`<${VirtualList} count=${calls.length} estimate=${160} render=${(i) => {
    const one = calls[calls.length - 1 - i];
    const result = one.result ?? { text: one.text, error: one.error, rows: one.rows, columns: one.columns };
    return html`<article class="turn" aria-label=${`Call ${calls.length - i}`}><${Call} call=${{ name: one.tool, arguments: one.arguments }} result=${{ ...result, changes: one.changes ?? result.changes ?? [] }} index=${i} byUser /></article>`;
  }} keyOf=${(i) => calls.length - i} />`;
}

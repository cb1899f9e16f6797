import { html } from "../base/html.js";
export function Pair() { return html`<p>…</p>`; }

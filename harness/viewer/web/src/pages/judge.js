import { html } from "../base/html.js";
export function Judge() { return html`<p>…</p>`; }

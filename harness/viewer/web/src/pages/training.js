import { html } from "../base/html.js";
export function Training() { return html`<p>…</p>`; }

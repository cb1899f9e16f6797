import { html } from "../base/html.js";
export function Fork() { return html`<p>…</p>`; }

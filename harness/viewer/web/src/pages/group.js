import { html } from "../base/html.js";
export function Group() { return html`<p>…</p>`; }

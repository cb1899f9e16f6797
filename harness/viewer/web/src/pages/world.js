import { html } from "../base/html.js";
export function World() { return html`<p>…</p>`; }

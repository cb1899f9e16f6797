import { html } from "../base/html.js";
export function WorldCatalogue() { return html`<p>…</p>`; }

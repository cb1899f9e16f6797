import { html } from "../base/html.js";
export function WorldPackage() { return html`<p>…</p>`; }

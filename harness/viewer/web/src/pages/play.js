import { html } from "../base/html.js";
export function Play() { return html`<p>…</p>`; }
export function PlayChoice() { return html`<p>…</p>`; }

// Small buttons that copy: a link, a result, a call.
import { html } from "../base/html.js";
import { useCopy } from "./basics.js";
import { Icon } from "./icon.js";

export function CopyIcon({ text, label, icon = "copy", children }) {
  const [isDone, copy] = useCopy(text);
  return html`<button type="button" class="copy-icon" onClick=${copy} aria-label=${label} title=${label}>
    <${Icon} name=${isDone ? "check" : icon} />${children && html`<span>${children}</span>`}<span class="sr-only" aria-live="polite">${isDone ? "Copied" : ""}</span></button>`;
}

// Small buttons that copy: a link, a result, a call.
import { useState } from "preact/hooks";
import { html } from "../base/html.js";
import { Icon } from "./icon.js";

// `text` is a text, or a function that makes it when the button is pressed.
export function CopyIcon({ text, label, icon = "copy", children }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    const value = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(value);
    } catch {
      copyByHand(value);
    }
    setDone(true);
    setTimeout(() => setDone(false), 1600);
  };
  return html`<button type="button" class="copy-icon" onClick=${copy} aria-label=${label} title=${label}>
    <${Icon} name=${isDone ? "check" : icon} />${children && html`<span>${children}</span>`}<span class="sr-only" aria-live="polite">${isDone ? "Copied" : ""}</span></button>`;
}

function copyByHand(text) {
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

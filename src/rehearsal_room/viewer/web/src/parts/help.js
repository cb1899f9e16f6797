// The list of keys, opened with `?`.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../base/html.js";
import { allKeys, areKeysOn, isHelpOpen, switchKeys } from "../base/keys.js";
import { Icon } from "./icon.js";

const EVERYWHERE = [
  ["Tab", "Go to the next control"],
  ["Enter", "Open the row or link in focus"],
  ["↑ ↓", "Move in a table; Page Up, Page Down, Home, End too"],
];

export function Help() {
  const dialog = useRef(null);
  const isOpen = isHelpOpen.value;
  useEffect(() => {
    if (isOpen && !dialog.current.open) dialog.current.showModal();
    if (!isOpen && dialog.current.open) dialog.current.close();
  }, [isOpen]);
  return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title" onClose=${() => (isHelpOpen.value = false)}
    onClick=${(event) => event.target === dialog.current && dialog.current.close()}>
    ${isOpen && html`<div class="help-body">
      <div class="row between"><h2 id="help-title">Keys</h2>
        <button class="button quiet icon-only" aria-label="Close" onClick=${() => dialog.current.close()}><${Icon} name="close" /></button></div>
      <dl class="keys">${[...allKeys().toReversed(), ...EVERYWHERE].map(([key, words]) => html`<div><dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${words}</dd></div>`)}</dl>
      <label class="check"><input type="checkbox" checked=${areKeysOn.value} onChange=${(event) => switchKeys(event.currentTarget.checked)} /> Single-letter keys are on</label>
    </div>`}
  </dialog>`;
}

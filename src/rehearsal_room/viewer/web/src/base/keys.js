// Keys: a page registers its keys, `?` lists them. They rest while somebody types.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useLatest } from "./hooks.js";
import { load, store } from "./storage.js";

const layers = signal([]); // one list of [key, words, action] for each mounted page
export const isHelpOpen = signal(false);
export const areKeysOn = signal(load("keys") !== "off");

export function switchKeys(on) {
  areKeysOn.value = on;
  store("keys", on ? "on" : "off");
}

// Register keys while the component is mounted: [[key, words, action], …].
export function useKeys(list) {
  const latest = useLatest(list);
  const names = list.map(([key]) => key).join();
  useEffect(() => {
    const layer = latest.current.map(([key, words], i) => [key, words, () => latest.current[i][2]()]);
    layers.value = [...layers.value, layer];
    return () => {
      layers.value = layers.value.filter((one) => one !== layer);
    };
  }, [names]);
}

export const allKeys = () => layers.value.flat();

function isTyping(target) {
  return target.closest?.("input, textarea, select, [contenteditable]") !== null;
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (!areKeysOn.value && event.key !== "?") return;
  const found = allKeys().findLast(([key]) => key === event.key);
  if (!found) return;
  event.preventDefault();
  found[2]();
});

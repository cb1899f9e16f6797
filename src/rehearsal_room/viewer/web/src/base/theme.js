// Light or dark: as the system has it, until the reader chooses.
import { effect, signal } from "@preact/signals";
import { load, store } from "./storage.js";

const CHOICES = ["auto", "light", "dark"];
export const theme = signal(CHOICES.includes(load("theme")) ? load("theme") : "auto");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(prefersDark.matches);
prefersDark.addEventListener("change", () => {
  systemIsDark.value = prefersDark.matches;
});

export const isDark = () => (theme.value === "auto" ? systemIsDark.value : theme.value === "dark");

export function nextTheme() {
  theme.value = CHOICES[(CHOICES.indexOf(theme.value) + 1) % CHOICES.length];
  store("theme", theme.value);
}

effect(() => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
});

// Icons of 16 x 16, drawn as strokes in the colour of the text.
import { html } from "../base/html.js";

const PATHS = {
  check: "M3 8.5l3.2 3.2L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  half: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 2.5v11M5 4v8M6.5 3v10",
  alert: "M8 2.5l6 10.5H2zM8 6.5v3M8 11.2v.3",
  question: "M5.8 6a2.2 2.2 0 1 1 3.3 1.9c-.8.5-1.1.9-1.1 1.8M8 11.8v.3",
  dot: "M8 6.5a1.5 1.5 0 1 0 0 3a1.5 1.5 0 1 0 0-3",
  left: "M9.5 3.5L5 8l4.5 4.5",
  right: "M6.5 3.5L11 8l-4.5 4.5",
  up: "M3.5 9.5L8 5l4.5 4.5",
  down: "M3.5 6.5L8 11l4.5-4.5",
  search: "M7 3a4 4 0 1 0 0 8a4 4 0 1 0 0-8M10 10l3.5 3.5",
  link: "M6.5 9.5a2.5 2.5 0 0 0 3.5 0l2.5-2.5a2.5 2.5 0 0 0-3.5-3.5l-1 1M9.5 6.5a2.5 2.5 0 0 0-3.5 0L3.5 9a2.5 2.5 0 0 0 3.5 3.5l1-1",
  copy: "M5.5 5.5h7v8h-7zM3.5 10.5v-8h7",
  fork: "M4.5 3v10M4.5 9c0-3 7-1.5 7-6M3 13h3M10 3h3M3 3h3",
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  graph: "M3.5 8h3M9 5l-2.5 3L9 11M11 4.5a1 1 0 1 0 0 .1M11 11.5a1 1 0 1 0 0 .1",
  play: "M5 3.5v9l7.5-4.5z",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 2.5v11M9.5 3v10M11 4v8M12.4 5.5v5",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  pen: "M3 13l.7-2.9L10.8 3 13 5.2l-7.1 7.1zM9.3 4.5l2.2 2.2",
  plus: "M8 3.5v9M3.5 8h9",
  minus: "M3.5 8h9",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11M8 5v3.2l2.2 1.3",
};

export function Icon({ name, label }) {
  const hidden = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return html`<svg class="icon" viewBox="0 0 16 16" ...${hidden}><path d=${PATHS[name]} /></svg>`;
}

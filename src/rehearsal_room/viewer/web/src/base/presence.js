// Whether the server is there, and whether other runs are there than before: asked every two
// seconds, as long as the page is seen.
import { signal } from "@preact/signals";
import { get } from "./source.js";

const SEEN_MS = 2_000;
const HIDDEN_MS = 20_000;

// { state: "ok" | "lost" | "refused" | "changed", runs, why, times }: `runs` is another word
// whenever a run came, went, began or ended, `times` counts how often a lost server was back.
export const presence = signal({ state: "ok", runs: "", why: "", times: 0 });

let session = "";
let version = "";
let timer;
let isAsking = false;

export function watchPresence() {
  document.addEventListener("visibilitychange", () => document.hidden || look());
  addEventListener("server-away", () => presence.value.state === "lost" || isAsking || look());
  look();
}

// Ask now: a stream that broke is a reason to.
export async function look() {
  clearTimeout(timer);
  isAsking = true;
  const before = presence.value;
  try {
    found(before, await get("/api/presence"));
  } catch (error) {
    presence.value = { ...before, state: error.status === 401 ? "refused" : "lost", why: error.message };
  }
  isAsking = false;
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : SEEN_MS);
}

function found(before, now) {
  const isOther = session !== "" && session !== now.session;
  const wasAway = before.state === "lost" || isOther;
  session = now.session;
  version ||= now.version;
  const state = now.version === version ? "ok" : "changed";
  if (state === before.state && now.runs === before.runs && !wasAway) return;
  presence.value = { state, runs: now.runs, why: "", times: before.times + (wasAway ? 1 : 0) };
}

// The address of a view: everything that a view shows stands in the URL after `#`.
//
//   #/run/7f3a/episode/e000054?turn=5  ->  { path: ["run", "7f3a", "episode", "e000054"], query }
//
// A run alone is its tasks; with words of a filter it is its episodes.
import { signal } from "@preact/signals";
import { unsigned } from "./list_query.js";

function read() {
  const [place, words] = location.hash.slice(1).split("?");
  const path = place.split("/").filter(Boolean).map(decode);
  const query = new URLSearchParams(words ?? "");
  if (path[0] === "run" && path.length === 2) path.push(query.size ? "episodes" : "tasks");
  return { path, query };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal(read());
addEventListener("hashchange", () => {
  route.value = read();
});

// The address of a view; values that are absent or empty are left out, lists are repeated.
export function href(path, query = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") words.append(name, one);
    }
  }
  const text = words.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(to) {
  location.hash = to;
}

// Change some words of the view's query, at once, so that the next change builds on this one. By
// default Back does not step through them.
export function setQuery(changes, { push = false } = {}) {
  const { path, query } = route.value;
  const words = {};
  for (const name of new Set([...query.keys(), ...Object.keys(changes)])) {
    words[name] = name in changes ? changes[name] : query.getAll(name);
  }
  const to = href(path, words);
  if (to === location.hash) return;
  if (push) history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  route.value = read();
}

export const runHref = (run, ...more) => href(["run", run, ...more]);
// The episodes that have these values, each of which may begin with a minus.
export function listHref(run, query) {
  const plain = Object.entries(query ?? {}).map(([name, value]) => [name, typeof value === "string" && name !== "sort" ? unsigned(name, value, false) : value]);
  return href(["run", run, "episodes"], Object.fromEntries(plain));
}
export const episodeHref = (run, episode, query) => href(["run", run, "episode", episode], query);

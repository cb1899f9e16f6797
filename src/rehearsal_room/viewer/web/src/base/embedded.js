// The data of an exported file. Lists, worlds and pairs are computed here from what is embedded.
import { facetsOf, hitsOf, neighboursOf, selectEpisodes } from "./filter.js";
import { comparePair } from "./pair.js";
import { tableAt, worldAt } from "./world.js";

// The embedded map of path -> answer; null: the page comes from a server.
export async function readEmbedded() {
  const element = document.getElementById("embedded");
  if (!element) return null;
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const map = JSON.parse(await new Response(stream).text());
  element.remove();
  return map;
}

export class EmbeddedSource {
  constructor(map) {
    this.map = map;
  }

  async get(path) {
    const [name, query] = path.split("?");
    const found = this.#find(name) ?? this.#compute(name, new URLSearchParams(query ?? ""));
    if (found === undefined) throw new Error("This is not part of the exported file.");
    return found;
  }

  async post() {
    throw new Error("An exported file cannot do this: open the run with `rehearse view`.");
  }

  remove() {
    return this.post();
  }

  events() {
    return () => {};
  }

  #find(name) {
    return name.endsWith("/episodes") ? undefined : this.map[decodeURIComponent(name)];
  }

  #compute(name, query) {
    const words = decodeURIComponent(name).split("/");
    const run = words[3];
    const episode = (id) => this.map[`/api/runs/${run}/episodes/${id}`];
    if (words[4] === "pair") {
      const [a, b] = [episode(query.get("a")), episode(query.get("b"))];
      return a && b && comparePair(a, b, this.#start(a), this.#start(b));
    }
    const rows = this.map[`/api/runs/${run}/episodes`]?.rows;
    if (words[4] === "facets") return rows && facetsOf(rows, query, episode);
    if (words[4] === "hits") return rows && hitsOf(query, episode);
    if (words[4] !== "episodes") return undefined;
    if (words[6] === "neighbours") return rows && neighboursOf(rows, query, episode, words[5]);
    if (words.length === 5) return rows && selectEpisodes(rows, query, episode);
    const found = episode(words[5]);
    const start = found && this.#start(found);
    if (words[6] !== "world" || !start) return undefined;
    const turn = Number(query.get("turn") ?? 0);
    return words[7] === undefined
      ? worldAt(found, start, turn)
      : tableAt(found, start, turn, words[7], query);
  }

  #start(episode) {
    return this.map[`/embedded/start/${episode.line.start_digest}`]?.tables;
  }
}

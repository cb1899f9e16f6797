// The data of an exported file. Lists, worlds and pairs are computed here from what is embedded.
import { facetsOf, hitsOf, neighboursOf, selectEpisodes } from "./filter.js";
import { comparePair } from "./pair.js";
import { taskRows } from "./task_rows.js";
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
    return /\/(episodes|tasks|grid)$/.test(name) ? undefined : this.map[decodeURIComponent(name)];
  }

  #compute(name, query) {
    const words = decodeURIComponent(name).split("/");
    const run = words[3];
    const episode = (id, of = run) => this.map[`/api/runs/${of}/episodes/${id}`];
    if (words[4] === "pair" || words[2] === "pair") {
      const a = episode(query.get("a"), query.get("run") ?? run);
      const b = episode(query.get("b"), query.get("other") ?? run);
      return a && b && comparePair(a, b, this.#start(a), this.#start(b));
    }
    if (words[4] === "tasks") return taskRows(this.map[`/api/runs/${run}/tasks`], query);
    if (words[4] === "grid") return cut(this.map[`/api/runs/${run}/grid`], query);
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

  // The tables of the world in which an episode began.
  #start(episode) {
    return this.map[`/embedded/start/${episode.line.start_digest}`]?.tables;
  }
}

function cut(found, query) {
  const offset = Number(query.get("offset") ?? 0);
  return found && { ...found, rows: found.rows.slice(offset, offset + Number(query.get("limit") ?? 100)) };
}

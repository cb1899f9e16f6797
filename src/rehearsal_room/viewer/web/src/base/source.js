// Where the page reads from: the server, or the data embedded in an exported file.
import { EmbeddedSource, readEmbedded } from "./embedded.js";

const token = new URLSearchParams(location.search).get("token") ?? "";

class HttpSource {
  get(path) {
    return this.#send("GET", path);
  }

  text(path) {
    return this.#send("GET", path, undefined, (text) => text);
  }

  post(path, body = {}) {
    return this.#send("POST", path, body);
  }

  remove(path) {
    return this.#send("DELETE", path);
  }

  // Listen to server-sent events; returns the function that stops it.
  events(path, on) {
    const stream = new EventSource(`${path}?token=${encodeURIComponent(token)}`);
    for (const name of Object.keys(on)) {
      stream.addEventListener(name, (event) => on[name](event.data ? JSON.parse(event.data) : {}));
    }
    stream.addEventListener("finished", () => stream.close());
    stream.addEventListener("error", sayAway);
    return () => stream.close();
  }

  async #send(method, path, body, read = parse) {
    const headers = { Authorization: `Bearer ${token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    } catch {
      sayAway();
      throw new Error("The viewer does not answer. Is `rehearse view` still running?");
    }
    const text = await response.text();
    const found = text ? (response.ok ? read(text) : parse(text)) : {};
    if (!response.ok) {
      const error = new Error(found?.error ?? `The server answered ${response.status}.`);
      throw Object.assign(error, { status: response.status });
    }
    return found;
  }
}

// Tell `presence.js` that the server may be gone.
function sayAway() {
  dispatchEvent(new Event("server-away"));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { error: "The server's answer cannot be read." };
  }
}

let source;
export const get = (path) => source.get(path);
export const getText = (path) => source.text(path);
export const post = (path, body) => source.post(path, body);
export const remove = (path) => source.remove(path);
export const events = (path, on) => source.events(path, on);

export async function openSource() {
  const data = await readEmbedded();
  source = data ? new EmbeddedSource(data) : new HttpSource();
}

// A path of the interface, its parts encoded: api`/api/runs/${run}/grid`.
export function api(words, ...parts) {
  return words.reduce((path, word, i) => path + encodeURIComponent(parts[i - 1]) + word);
}

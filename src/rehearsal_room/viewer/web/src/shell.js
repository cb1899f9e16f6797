// The frame around every view: navigation, theme, help, and which view an address shows.
import { Component } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./base/html.js";
import { useLoad } from "./base/hooks.js";
import { presence, watchPresence } from "./base/presence.js";
import { isHelpOpen, useKeys } from "./base/keys.js";
import { go, href, route } from "./base/route.js";
import { about } from "./base/state.js";
import { nextTheme, theme } from "./base/theme.js";
import { Loaded, Notice } from "./parts/basics.js";
import { Help } from "./parts/help.js";
import { Icon } from "./parts/icon.js";
import { PartNotice } from "./parts/part_notice.js";
import { Compare } from "./pages/compare.js";
import { Episode } from "./pages/episode.js";
import { Fork } from "./pages/fork.js";
import { Group } from "./pages/group.js";
import { Pair } from "./pages/pair.js";
import { Play, PlayChoice } from "./pages/play.js";
import { Run } from "./pages/run.js";
import { Runs } from "./pages/runs.js";
import { World } from "./pages/world.js";
import { WorldCatalogue } from "./pages/worlds.js";
import { WorldPackage } from "./pages/world_package.js";

export function Shell() {
  const load = useLoad("/api/about");
  if (load.data) about.value = load.data;
  const isServed = load.data && !load.data.exported;
  useEffect(() => {
    if (isServed) watchPresence();
  }, [isServed]);
  const main = useRef(null);
  const { path } = route.value;
  const place = path.join("/");
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) isFirst.current = false;
    else {
      main.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, [place]);
  useKeys([
    ["?", "Show the keys", () => (isHelpOpen.value = true)],
    ["t", "Change between light and dark", nextTheme],
    ["R", "Go to the runs", () => go(href(["runs"]))],
  ]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      main.current.focus();
    }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${href(["runs"])}><${Mark} />Rehearsal</a>
      <nav aria-label="Main">
        ${sections().map(([name, text, to]) => html`<a href=${to} aria-current=${sectionOf(path).startsWith(name) ? "page" : undefined}>${text}</a>`)}
      </nav>
      <span class="spring"></span>
      <button class="button quiet icon-only" onClick=${nextTheme} aria-label=${`Theme: ${theme.value}. Change`} title=${`Theme: ${theme.value} (t)`}>
        <${Icon} name=${{ auto: "auto", light: "sun", dark: "moon" }[theme.value]} />
      </button>
      <button class="button quiet icon-only" onClick=${() => (isHelpOpen.value = true)} aria-label="Keyboard help" title="Keyboard help (?)"><kbd>?</kbd></button>
    </header>
    <${Away} />
    <main id="main" ref=${main} tabindex="-1">
      <${PartNotice} />
      <${Boundary} key=${place}><${Loaded} of=${load}>${() => view(path)}<//><//>
    </main>
    <footer class="foot">Rehearsal ${load.data?.version ?? ""}${load.data?.exported ? " · exported file: SQL, forks, play and labels need `rehearse view`" : ""}</footer>
    <${Help} />`;
}

// What the page says while its server is not there, or is another one than the page was made for.
function Away() {
  const { state } = presence.value;
  if (state === "ok") return null;
  return html`<div class="away" role="alert"><span>
    ${state === "lost" && html`<b>The viewer does not answer.</b> What you see stays. The page goes on by itself once <code>rehearse view</code> runs again.`}
    ${state === "refused" && html`<b>This address is no longer valid.</b> Run <code>rehearse view</code> and open the address that it prints.`}
    ${state === "changed" && html`<b>The viewer was updated.</b> This page is of the earlier version.`}</span>
    ${state === "changed" && html`<button class="button" onClick=${() => globalThis.location.reload()}>Reload</button>`}
  </div>`;
}

const sectionOf = ([first = "runs"]) => (["compare", "pair", "fork"].includes(first) ? "runs" : first);

function sections() {
  const found = [["run", "Runs", href(["runs"])]];
  if (!about.value || about.value.exported) return found;
  found.push(["world", "Worlds", href(["worlds"])]);
  if (about.value.can.play) found.push(["play", "Play", href(["play"])]);
  return found;
}

function view([kind = "runs", id, part, item, more, last]) {
  if (kind === "runs") return html`<${Runs} />`;
  if (kind === "compare") return html`<${Compare} />`;
  if (kind === "pair") return html`<${Pair} />`;
  if (kind === "worlds" && !id) return html`<${WorldCatalogue} />`;
  if (kind === "worlds") return html`<${WorldPackage} name=${id} tab=${part} item=${item} key=${id} />`;
  if (kind === "play" && !id) return html`<${PlayChoice} />`;
  if (kind === "play") return html`<${Play} id=${id} key=${id} />`;
  if (kind === "fork") return html`<${Fork} scratch=${id} />`;
  if (kind !== "run" || !id) return html`<${Notice} tone="bad">There is nothing at this address.<//>`;
  if (part === "episode" && item) {
    const props = { run: id, episode: item, key: item };
    if (more === "world") return html`<${World} ...${props} table=${last} />`;
    if (more === "fork") return html`<${Fork} ...${props} />`;
    return html`<${Episode} ...${props} />`;
  }
  if (part === "group" && item) return html`<${Group} run=${id} group=${item} key=${item} />`;
  if (part === "pair") return html`<${Pair} run=${id} />`;
  return html`<${Run} run=${id} tab=${part} key=${id} />`;
}

// A view that fails shows what happened; the frame stays.
class Boundary extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<${Notice} tone="bad" role="alert">This view failed: ${error.message}. The data may be of another version.<//>`;
  }
}

function Mark() {
  return html`<svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
    <path d="M3 5.5h6a4 4 0 0 1 0 8H3" /><path d="M11 9.5l6-5M11 9.5l6 6" /><circle cx="3" cy="5.5" r="1.6" /><circle cx="3" cy="13.5" r="1.6" />
  </svg>`;
}

// All worlds that can be played here.
import { count, number } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { go, href, route, setQuery } from "../base/route.js";
import { Loaded, Tag } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Word } from "../parts/texts.js";

export function WorldCatalogue() {
  useTitle("Worlds");
  const load = useLoad("/api/worlds");
  return html`<${Loaded} of=${load}>${({ worlds }) => html`<${List} worlds=${worlds} />`}<//>`;
}

const size = (value) => (Array.isArray(value) ? value.length : value);

function List({ worlds }) {
  const text = (route.value.query.get("text") ?? "").toLowerCase();
  const shown = worlds.filter((one) => `${one.name} ${one.title ?? ""}`.toLowerCase().includes(text));
  const figure = (name, title, priority) => ({ key: name, title, width: 74, end: true, priority, render: (one) => html`<span class="figure">${number(size(one[name]))}</span>` });
  return html`<div class="page-head"><h1>Worlds</h1><span class="dim">${count(worlds.length, "world")}</span><span class="spring"></span>
      <label class="field search"><span class="sr-only">Search the worlds</span><input type="search" placeholder="Search the worlds" value=${text} onInput=${(event) => setQuery({ text: event.currentTarget.value })} /></label></div>
    <${Grid} label="Worlds" total=${shown.length} rowAt=${(i) => shown[i]} rowHeight=${58} onOpen=${(one) => go(href(["worlds", one.name]))} columns=${[
      { key: "name", title: "World", width: 150, grow: 4, render: (one) => html`<span class="stack"><a tabindex="-1" class="strong" href=${href(["worlds", one.name])}><${Word} value=${one.name} /></a><span class="dim ellipsis"><${Word} value=${one.title ?? ""} /></span></span>` },
      { key: "source", title: "Source", width: 110, priority: 3, render: (one) => one.source && html`<${Tag}><${Word} value=${one.source} /><//>` },
      figure("tables", "Tables", 2), figure("tools", "Tools", 1), figure("tasks", "Tasks", 0),
      { key: "version", title: "Version", width: 90, priority: 4, render: (one) => html`<span class="dim"><${Word} value=${one.version ?? ""} /></span>` },
    ]} />`;
}

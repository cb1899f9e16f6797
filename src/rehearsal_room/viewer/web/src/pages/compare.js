// Two to six runs beside each other: the verdicts of `rehearse compare`, the figures of each run, what
// differs between them, and their tasks; a task leads to two of its episodes where they part.
import { decimal, dollars, number, percent, seconds, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useLoad, useTitle } from "../base/hooks.js";
import { go, href, listHref, route, runHref, setQuery } from "../base/route.js";
import { cellText } from "../base/text.js";
import { Interval, Loaded, Notice, Tag } from "../parts/basics.js";
import { Grid } from "../parts/grid.js";
import { Icon } from "../parts/icon.js";
import { Word } from "../parts/texts.js";

const MOST = 6;
const points = (value) => `${value >= 0 ? "+" : "−"}${Math.abs(100 * value).toFixed(1)}`;
const TONES = { gained: "good", lost: "bad", same: "", "left out": "" };

export function Compare() {
  useTitle("Compare");
  const { query } = route.value;
  const named = query.getAll("run");
  const ids = named.length > 0 ? named : ["a", "b"].map((name) => query.get(name)).filter(Boolean);
  const asked = ids.map((id) => `run=${encodeURIComponent(id)}`).join("&");
  const runs = useLoad("/api/runs");
  // What so many tasks can show takes a second or two: the rest is there before.
  const quick = useLoad(ids.length > 1 ? `/api/compare?${asked}&quick=1` : null);
  const whole = useLoad(quick.data && !quick.isLoading ? `/api/compare?${asked}` : null);
  const load = whole.data && !whole.isLoading ? whole : quick;
  return html`
    <nav class="crumbs" aria-label="Path"><a href=${href(["runs"])}>Runs</a></nav>
    <div class="page-head"><h1>Compare</h1></div>
    <${Chosen} ids=${ids} runs=${runs.data?.runs ?? []} />
    ${ids.length < 2 ? html`<${Notice}>Choose two to six runs.<//>` : html`<${Loaded} of=${load.isLoading ? {} : load}>${(found) => html`<${Result} found=${found} ids=${ids} />`}<//>`}`;
}

const letter = (i) => String.fromCharCode(65 + i);
const setRuns = (ids) => setQuery({ run: ids, a: "", b: "", against: "" });

// The runs that are compared, the first as the base. Each can become the base or be left out.
function Chosen({ ids, runs }) {
  const name = (id) => runs.find((run) => run.id === id)?.name ?? id;
  const others = runs.filter((run) => !ids.includes(run.id) && !run.error);
  const add = (event) => {
    const { value } = event.currentTarget;
    event.currentTarget.value = "";
    if (value) setRuns([...ids, value]);
  };
  return html`<div class="compared">
    <ul class="chips flat" aria-label="Compared runs">${ids.map((id, i) => html`<li class="chip"><b>${letter(i)}</b> <a href=${runHref(id)}><${Word} value=${name(id)} /></a>
      ${i === 0 ? html`<span class="dim">base</span>` : html`<button class="link" onClick=${() => setRuns([id, ...ids.filter((one) => one !== id)])}>Make base</button>`}
      ${ids.length > 2 && html`<button class="link" aria-label=${`Leave ${name(id)} out`} onClick=${() => setRuns(ids.filter((one) => one !== id))}><${Icon} name="close" /></button>`}</li>`)}</ul>
    ${ids.length < MOST && others.length > 0 && html`<label class="field inline"><span>Add a run</span><select value="" onChange=${add}><option value="">Choose…</option>${others.map((run) => html`<option value=${run.id}>${run.name}</option>`)}</select></label>`}
  </div>`;
}

function Result({ found, ids }) {
  return html`<div class="verdicts">${found.verdicts.map((one) => html`<${Verdict} one=${one} level=${found.level} />`)}</div>
    <${Figures} found=${found} />
    <${Differs} found=${found} />
    <${Tasks} found=${found} ids=${ids} />`;
}

function Verdict({ one, level }) {
  const [first, ...rest] = one.lines;
  const [low, high] = one.interval ?? [null, null];
  return html`<section class="card verdict-line" aria-label=${`Verdict on ${one.name}`}>
    <p class="big"><${Word} value=${first} /></p>
    ${low !== null && html`<${Difference} delta=${one.delta} low=${low} high=${high} level=${level} />`}
    <ul class="plain">${rest.map((line) => html`<li><${Word} value=${line} /></li>`)}</ul></section>`;
}

// A table whose columns are the runs; it scrolls in its own box where it is wider than the page.
function Beside({ label, runs, children }) {
  return html`<section class="card beside-card" aria-label=${label}><h2>${label}</h2><div class="scroll-x" tabindex="0" role="group" aria-label=${`Table: ${label}`}><table class="stats beside">
    <thead><tr><td></td>${runs.map((run) => html`<th scope="col" class="end">${run.name} <span class="dim"><${Word} value=${run.run} /></span></th>`)}</tr></thead>
    <tbody>${children}</tbody></table></div></section>`;
}

function Figures({ found: { runs, level } }) {
  const row = (name, value) => html`<tr><th scope="row">${name}</th>${runs.map((run) => html`<td class="figure">${value(run)}</td>`)}</tr>`;
  const kinds = [...new Set(runs.flatMap((run) => Object.keys(run.kinds)))];
  const total = (kind) => runs.reduce((sum, run) => sum + (run.kinds[kind] ?? 0), 0);
  kinds.sort((a, b) => total(b) - total(a));
  const has = (of) => runs.some((run) => of(run) !== null && of(run) !== undefined && of(run) !== 0);
  return html`<${Beside} label="Figures" runs=${runs}>
    ${row("Played by", (run) => html`<${Word} value=${[run.policy, run.model].filter(Boolean).join(" · ")} />`)}
    ${row("Completed", (run) => (run.completed ? html`<a href=${listHref(run.id, { label: "completed" })}><b>${percent(run.completed.value)}</b></a> <span class="dim">${percent(run.completed.lower)} to ${percent(run.completed.upper)}</span><${Interval} ...${run.completed} />` : html`<span class="dim">no verdict</span>`))}
    ${has((run) => run.share) && row("Mean share of a task", (run) => (run.share ? html`<b>${percent(run.share.value)}</b> <span class="dim">${percent(run.share.lower)} to ${percent(run.share.upper)}</span><${Interval} ...${run.share} />` : html`<span class="dim">all or nothing</span>`))}
    ${has((run) => run.without_verdict) && row("Without a verdict", (run) => html`${number(run.without_verdict)}${run.without_verdict > 0 && html` <span class="dim">${percent(run.bounds[0])} to ${percent(run.bounds[1])} of all</span>`}`)}
    ${row("Episodes", (run) => html`<a href=${listHref(run.id)}>${number(run.episodes)}</a>`)}
    ${row("Tasks", (run) => html`<a href=${runHref(run.id, "tasks")}>${number(run.tasks)}</a>`)}
    ${row("Turns of an episode", (run) => decimal(run.turns, 1))}
    ${has((run) => run.tokens) && row("Tokens of an episode", (run) => number(run.tokens))}
    ${has((run) => run.cost_usd) && row("Cost in all", (run) => dollars(run.cost_usd))}
    ${row("An episode took", (run) => seconds(run.seconds))}
    ${has((run) => run.reply_times) && ["p50", "p95"].map((one) => row(`A reply took (${one})`, (run) => seconds(run.reply_times?.[`${one}_s`])))}
    ${kinds.map((kind) => row(words(kind), (run) => (run.kinds[kind] ? html`<a href=${listHref(run.id, { failure: kind })}>${number(run.kinds[kind])}</a> <span class="dim">${percent(run.kinds[kind] / run.episodes, 0)}</span>` : html`<span class="dim">0</span>`)))}
  <//>`;
}

const settingText = (value) => (value === null || value === "" ? "not set" : Array.isArray(value) ? value.map(cellText).join(", ") : cellText(value));

function Differs({ found: { runs, differs, only_in_some: only } }) {
  const hasOnly = Object.keys(only).length > 0;
  if (differs.length === 0 && !hasOnly) return html`<p class="dim">Settings, worlds, judges and tasks are the same.</p>`;
  return html`<${Beside} label="What else differs" runs=${runs}>
    ${differs.map((one) => html`<tr><th scope="row">${{ setting: "Setting ", world: "World ", judge: "Judge" }[one.what]}<${Word} class="mono" value=${one.name} /></th>${one.values.map((value) => html`<td><${Word} value=${settingText(value)} /></td>`)}</tr>`)}
    ${hasOnly && html`<tr><th scope="row">Tasks that some runs lack</th>${runs.map((run) => html`<td class="figure">${number(only[run.name] ?? 0)}</td>`)}</tr>`}
  <//>`;
}

const isPhone = () => matchMedia("(max-width: 600px)").matches;
const CHOICES = (name) => ({ "": "All tasks", gained: `${name} does better`, lost: "A does better", same: "Same", "left out": "Not compared" });

function Tasks({ found, ids }) {
  const { query } = route.value;
  const only = query.get("change") ?? "";
  const at = Math.max(0, found.verdicts.findIndex((one) => one.name === query.get("against")));
  const rows = found.rows.filter((row) => !only || row.changes[at] === only);
  const sizes = (change) => (change ? found.rows.filter((row) => row.changes[at] === change).length : found.rows.length);
  const open = (row) => row.pairs[at] && go(pairHref(ids, at + 1, row.pairs[at]));
  const longest = Math.max(8, ...rows.slice(0, 2000).map((row) => Math.max(row.task.length, row.scenario.length)));
  return html`<section aria-label="Tasks"><h2 class="section">Tasks</h2>
    <div class="bar">
      ${found.verdicts.length > 1 && html`<div class="chips flat" role="group" aria-label="Beside A">${found.verdicts.map((one, i) => html`<button class="chip" aria-pressed=${i === at} onClick=${() => setQuery({ against: one.name })}>A and ${one.name}</button>`)}</div>`}
      <div class="chips flat" role="group" aria-label="Show tasks">${Object.entries(CHOICES(found.verdicts[at].name)).map(([change, text]) => html`<button class="chip" aria-pressed=${only === change} onClick=${() => setQuery({ change })}>${text} <b>${number(sizes(change))}</b></button>`)}</div>
    </div>
    ${rows.length === 0 ? html`<${Notice}>No task is of this kind.<//>` : html`<${Grid} label="Tasks" fit=${false} total=${rows.length} rowAt=${(i) => rows[i]} rowHeight=${44} onOpen=${open} columns=${[
      { key: "task", title: "Task", width: Math.min(isPhone() ? 132 : 420, Math.round(longest * 7.6) + 8), grow: 1, render: (row) => html`<span class="stack">${row.pairs[at] ? html`<a class="strong ellipsis" tabindex="-1" title=${row.task} href=${pairHref(ids, at + 1, row.pairs[at])}><${Word} value=${row.task} /></a>` : html`<span class="strong ellipsis" title=${row.task}><${Word} value=${row.task} /></span>`}${row.scenario !== row.task && html`<span class="dim ellipsis"><${Word} value=${row.scenario} /></span>`}</span>` },
      { key: "change", title: `${found.verdicts[at].name} and A`, width: 116, render: (row) => html`<${Tag} tone=${TONES[row.changes[at]]}>${changeText(row.changes[at], found.verdicts[at].name)}<//>` },
      ...found.runs.map((run, i) => ({ key: run.name, title: run.name, width: 74, end: true, render: (row) => html`<${Side} run=${run} row=${row} side=${row.sides[i]} />` })),
    ]} />`}
    <p class="dim below">A row opens two of its episodes where they part.</p></section>`;
}

const changeText = (change, name) => ({ gained: `${name} is better`, lost: "A is better", same: "Same", "left out": "Not compared" })[change];

function pairHref(ids, other, [a, b]) {
  return href(["pair"], { run: ids[0], a, other: ids[other], b });
}

// A task that the run does not have has no side.
function Side({ run, row, side }) {
  if (!side) return html`<span class="dim">–</span>`;
  const text = side.judged ? percent(side.completed / side.judged, 0) : "no verdict";
  return html`<a class="stack end cell-link" tabindex="-1" href=${listHref(run.id, { scenario: row.scenario, task: row.task })}><b class="figure">${text}</b><span class="dim figure">${number(side.completed)} of ${number(side.tries)}</span></a>`;
}

function Difference({ delta, low, high, level }) {
  const most = Math.max(Math.abs(low), Math.abs(high), 0.05) * 1.1;
  const at = (value) => 50 + (50 * value) / most;
  return html`<svg class="difference" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label=${`Difference ${points(delta)} points, ${percent(level, 0)} interval from ${points(low)} to ${points(high)}`}>
    <line class="axis" x1="0" x2="100" y1="6" y2="6" /><line class="zero" x1="50" x2="50" y1="0" y2="12" />
    <line class="range" x1=${at(low)} x2=${at(high)} y1="6" y2="6" /><line class="point" x1=${at(delta)} x2=${at(delta)} y1="1" y2="11" />
  </svg>`;
}

// What a run's episodes are like, in counts that are filters at the same time.
import { number, labelOf, words } from "../base/format.js";
import { html } from "../base/html.js";
import { useWidth } from "../base/hooks.js";
import { route, setQuery } from "../base/route.js";
import { visible } from "../base/text.js";
import { Meter } from "../parts/basics.js";
import { Icon } from "../parts/icon.js";

const ORDER = ["completed", "partially_completed", "agent_error", "environment_error", "unjudged", "none"];

export function Facets({ summary }) {
  const [box, width] = useWidth();
  const errors = Object.fromEntries((summary.errors ?? []).map((one) => [one.cause, one.n]));
  const labels = Object.entries(summary.labels ?? {}).sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const failures = Object.entries(summary.failures ?? {}).map(([kind, one]) => [kind, typeof one === "number" ? one : one.episodes]);
  const scenarios = [...new Set(summary.tasks.map((one) => one.scenario))];
  const isWide = width === 0 || width < 400; // beside the table; on a phone it is folded
  const body = html`
    <${Facet} name="label" title="Label" entries=${labels} text=${(one) => labelOf(one).text} tone=${(one) => labelOf(one).tone} icon=${(one) => labelOf(one).icon} />
    <${Facet} name="ending" title="Ending" entries=${Object.entries(summary.endings ?? {})} text=${words} />
    <${Facet} name="error" title="Errors" entries=${Object.entries(errors)} text=${words} tone=${() => "bad"} />
    <${Facet} name="failure" title="What went wrong" entries=${failures} text=${words} tone=${() => "bad"} />
    <fieldset class="picks"><legend>More filters</legend>
      ${scenarios.length > 1 && html`<${Pick} name="scenario" title="Scenario" values=${scenarios} />`}
      <${Pick} name="task" title="Task" values=${summary.tasks.map((one) => one.task)} />
      <${Pick} name="tag" title="Tag" values=${summary.tags} />
      <${Pick} name="table" title="Changed table" values=${summary.tables} />
      <${Pick} name="tool" title="Called tool" values=${summary.tools} />
      <${Range} title="Reward" low="min_reward" high="max_reward" step="0.05" />
      <${Range} title="Turns" low="min_turns" high="max_turns" step="1" />
    </fieldset>`;
  return html`<div ref=${box}>${isWide && !isPhone() ? body : html`<details class="fold facets-fold"><summary><${Icon} name="right" /><span>Filters</span></summary><div>${body}</div></details>`}</div>`;
}

const isPhone = () => matchMedia("(max-width: 900px)").matches;

function Facet({ name, title, entries, text, tone = () => "accent", icon }) {
  const chosen = route.value.query.getAll(name);
  if (entries.length === 0) return null;
  const most = Math.max(...entries.map(([, n]) => n));
  const flip = (one) => setQuery({ [name]: chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one] });
  return html`<section class="facet" aria-label=${title}><h2>${title}</h2><ul>
    ${entries.slice(0, 12).map(([one, n]) => html`<li><button aria-pressed=${chosen.includes(one)} onClick=${() => flip(one)}>
      <span class=${`facet-name ${icon ? `${tone(one)}-text` : ""}`}>${icon && html`<${Icon} name=${icon(one)} />`}<bdi>${visible(text(one))}</bdi></span><span class="figure">${number(n)}</span>
      <${Meter} value=${n} most=${most} tone=${tone(one)} /></button></li>`)}
  </ul></section>`;
}

function Pick({ name, title, values }) {
  const chosen = route.value.query.getAll(name);
  const left = [...new Set(values ?? [])].filter((one) => !chosen.includes(one)).sort();
  if (!values?.length) return null;
  const add = (event) => {
    const { value } = event.currentTarget;
    event.currentTarget.value = "";
    if (value) setQuery({ [name]: [...chosen, value] });
  };
  return html`<label class="field"><span>${title}</span><select value="" onChange=${add}>
    <option value="">Any</option>${left.slice(0, 250).map((one) => html`<option value=${one}>${visible(one)}</option>`)}</select></label>`;
}

function Range({ title, low, high, step }) {
  const { query } = route.value;
  const set = (name) => (event) => setQuery({ [name]: event.currentTarget.value });
  return html`<div class="range-field" role="group" aria-label=${title}><span>${title}</span>
    <input type="number" step=${step} placeholder="from" aria-label=${`${title}: from`} value=${query.get(low) ?? ""} onChange=${set(low)} />
    <input type="number" step=${step} placeholder="to" aria-label=${`${title}: to`} value=${query.get(high) ?? ""} onChange=${set(high)} /></div>`;
}

// What the episodes are like, in counts that are filters at the same time. Each count is under all
// other filters.
import { useEffect, useRef } from "preact/hooks";
import { number, labelOf } from "../base/format.js";
import { html } from "../base/html.js";
import { useLatest, useLoad, useWidth } from "../base/hooks.js";
import { listQuery, signed, unsigned, valueText } from "../base/list_query.js";
import { route, setQuery } from "../base/route.js";
import { api } from "../base/source.js";
import { visible } from "../base/text.js";
import { Meter } from "../parts/basics.js";
import { Icon } from "../parts/icon.js";

const ORDER = ["completed", "partially_completed", "agent_error", "environment_error", "unjudged", "none"];
const REFRESH = 1000; // milliseconds from a change of a run or label until the counts are read again
const SHOWN = 12; // values of a facet
const bad = () => "bad";

export function Facets({ run, round, isWanted }) {
  const [box, width] = useWidth();
  const asked = listQuery(route.value.query, { sort: false });
  const load = useLoad(isWanted ? `${api`/api/runs/${run}/facets`}?${asked}` : null);
  const reload = useLatest(load.reload);
  const timer = useRef(null);
  useEffect(() => {
    if (!round || timer.current) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      reload.current();
    }, REFRESH);
  }, [round]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const facets = load.data?.facets;
  const isWide = width === 0 || width < 400; // beside the table; on a phone it is folded
  const byLabel = facets && { ...facets.label, values: [...facets.label.values].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b)) };
  const body = facets && html`
    <${Facet} name="label" title="Label" of=${byLabel} tone=${(one) => labelOf(one).tone} icon=${(one) => labelOf(one).icon} />
    <${Facet} name="ending" title="Ending" of=${facets.ending} />
    <${Facet} name="failure" title="What went wrong" of=${facets.failure} tone=${bad} />
    <${Facet} name="harm" title="Did harm" of=${facets.harm} tone=${bad} />
    <${Facet} name="error" title="Errors" of=${facets.error} tone=${bad} />
    <${Facet} name="by_hand" title="Labels by hand" of=${facets.by_hand} />
    <${Facet} name="my_label" title="My label" of=${facets.my_label} tone=${(one) => labelOf(one).tone} icon=${(one) => labelOf(one).icon} />
    <fieldset class="picks"><legend>More filters</legend>
      ${facets.scenario.values.length > 1 && html`<${Pick} name="scenario" title="World" of=${facets.scenario} />`}
      <${Pick} name="task" title="Task" of=${facets.task} />
      <${Pick} name="tag" title="Tag" of=${facets.tag} />
      <${Pick} name="table" title="Changed table" of=${facets.table} />
      <${Pick} name="tool" title="Called tool" of=${facets.tool} />
      <${Range} title="Reward" low="min_reward" high="max_reward" step="0.05" />
      <${Range} title="Share" low="min_share" high="max_share" step="0.05" />
      <${Range} title="Turns" low="min_turns" high="max_turns" step="1" />
    </fieldset>`;
  return html`<div ref=${box}>${isWide && !isPhone() ? body : html`<details class="fold facets-fold"><summary><${Icon} name="right" /><span>Filters</span></summary><div>${body}</div></details>`}</div>`;
}

const isPhone = () => matchMedia("(max-width: 900px)").matches;

// Which values are asked for and which are excluded, and the function that changes one of them.
function useChosen(name) {
  const read = () => route.value.query.getAll(name).map((one) => signed(name, one));
  const asked = read();
  const state = (value) => asked.find((one) => one.value === value);
  const choose = (value, isNot) => {
    const all = read();
    const now = all.find((one) => one.value === value);
    const others = all.filter((one) => one !== now);
    const next = now && now.isNot === isNot ? others : [...others, { value, isNot }];
    setQuery({ [name]: next.map((one) => unsigned(name, one.value, one.isNot)) }, { push: true });
  };
  return { asked, state, choose };
}

function Facet({ name, title, of, tone = () => "accent", icon }) {
  const { asked, state, choose } = useChosen(name);
  const listed = of?.values ?? [];
  const shown = listed.slice(0, SHOWN);
  for (const one of asked) if (!shown.some(([value]) => value === one.value)) shown.push([one.value, listed.find(([value]) => value === one.value)?.[1] ?? 0]);
  if (shown.length === 0) return null;
  const most = Math.max(...shown.map(([, n]) => n));
  return html`<section class="facet" aria-label=${title}><h2>${title}</h2><ul>
    ${shown.map(([one, n]) => {
      const now = state(one);
      const text = visible(valueText(name, one));
      return html`<li class=${now?.isNot ? "excluded" : ""}><button aria-pressed=${Boolean(now && !now.isNot)} title="Alt and a click exclude it" onClick=${(event) => choose(one, event.altKey)}>
        <span class=${`facet-name ${icon ? `${tone(one)}-text` : ""}`}>${icon && html`<${Icon} name=${icon(one)} />`}<bdi>${text}</bdi></span><span class="figure">${number(n)}</span>
        <${Meter} value=${n} most=${most} tone=${tone(one)} /></button>
        <button class="exclude" aria-pressed=${Boolean(now?.isNot)} aria-label=${`Not ${title}: ${text}`} title="Exclude" onClick=${() => choose(one, true)}><${Icon} name="minus" /></button></li>`;
    })}
  </ul></section>`;
}

function Pick({ name, title, of }) {
  const { asked, choose } = useChosen(name);
  const left = (of?.values ?? []).filter(([value]) => !asked.some((one) => one.value === value));
  if (left.length === 0 && asked.length === 0) return null;
  const add = (event) => {
    const { value } = event.currentTarget;
    event.currentTarget.value = "";
    if (value) choose(value, false);
  };
  return html`<label class="field"><span>${title}</span><select value="" onChange=${add}>
    <option value="">Any</option>${left.map(([one, n]) => html`<option value=${one}>${visible(one)} (${number(n)})</option>`)}${of?.left_out ? html`<option disabled>${number(of.left_out)} more: search for them</option>` : null}</select></label>`;
}

function Range({ title, low, high, step }) {
  const { query } = route.value;
  const set = (name) => (event) => setQuery({ [name]: event.currentTarget.value }, { push: true });
  return html`<div class="range-field" role="group" aria-label=${title}><span>${title}</span>
    <input type="number" step=${step} placeholder="from" aria-label=${`${title}: from`} value=${query.get(low) ?? ""} onChange=${set(low)} />
    <input type="number" step=${step} placeholder="to" aria-label=${`${title}: to`} value=${query.get(high) ?? ""} onChange=${set(high)} /></div>`;
}

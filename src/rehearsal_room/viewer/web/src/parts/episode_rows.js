// Rows of a whole episode: what it changed as one list, and where it did harm.
import { count } from "../base/format.js";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";
import { Fold, Pages } from "./basics.js";
import { ChangeCard, keyText } from "./rows.js";
import { Word } from "./texts.js";

const resultsOf = (turn) => [...(turn.results ?? []), ...(turn.user?.results ?? [])];
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// The net changes of an episode with the turns that made them: { change, turns }.
export function netChanges(turns) {
  const found = new Map();
  for (const turn of turns) {
    for (const change of resultsOf(turn).flatMap((one) => one?.changes ?? [])) {
      const name = JSON.stringify([change.table, change.key]);
      const known = found.get(name);
      if (!known) found.set(name, { change: { ...change, columns: null }, turns: [turn.turn] });
      else {
        known.change = { ...known.change, after: change.after };
        if (known.turns.at(-1) !== turn.turn) known.turns.push(turn.turn);
      }
    }
  }
  return [...found.values()].filter(({ change }) => !same(change.before, change.after));
}

export function ChangedRows({ data, onTurn }) {
  const rows = netChanges(data.turns);
  if (rows.length === 0) return null;
  return html`<${Fold} summary=${`${count(rows.length, "row")} changed in the episode`}>
    <div class="all-changes" role="group" aria-label="All changed rows"><${Pages} rows=${rows} size=${24} render=${(some) => some.map((one) => html`<${Changed} of=${one} onTurn=${onTurn} />`)} /></div><//>`;
}

function Changed({ of: { change, turns }, onTurn }) {
  return html`<div class="changed-row"><p class="minor">${turns.map((turn, i) => html`${i > 0 && ", "}<button class="link" onClick=${() => onTurn(turn)}>Turn ${turn + 1}</button>`)}</p><${ChangeCard} change=${change} /></div>`;
}

// The rules that an episode broke: their text, the turn and the row, in one place. `failures` are
// its mistakes with their turns.
export function Harm({ data, failures, onTurn }) {
  const findings = data.verdicts?.at(-1)?.findings ?? [];
  const broken = findings.filter((one) => one.kind === "guard" && !one.passed);
  if (broken.length === 0) return null;
  return html`<section class="card harm" aria-label="Harm"><h2>${broken.length === 1 ? "A rule was broken" : `${broken.length} rules were broken`}</h2>
    ${broken.map((one) => html`<${Broken} rule=${one} data=${data} failures=${failures} onTurn=${onTurn} />`)}</section>`;
}

function Broken({ rule, data, failures, onTurn }) {
  const rows = brokenBy(rule, data.turns, failures);
  return html`<div class="broken"><p><b><${Word} value=${rule.name} /></b></p>
    <dl class="against"><dt>expected</dt><dd><${Word} value=${rule.expected} /></dd><dt>found</dt><dd><${Word} value=${String(rule.found).slice(0, 600)} /></dd></dl>
    ${rows.slice(0, 8).map((row) => html`<div class="changed-row"><p class="minor"><button class="link" onClick=${() => onTurn(row.turn, row.call)}>Turn ${row.turn + 1}</button> <${Word} value=${row.name} class="mono" /></p><${ChangeCard} change=${row.change} /></div>`)}
    ${rows.length === 0 && html`<p class="dim">${all(data.turns).length === 0 ? "The log has no changed rows of this episode." : "The rule names no row of this episode."}</p>`}</div>`;
}

// The rows that the agent's calls changed, with turn and call.
const all = (turns) => turns.flatMap((turn) => (turn.results ?? []).flatMap((result, call) => (result?.changes ?? []).map((change) => ({ turn: turn.turn, call, name: turn.calls?.[call]?.name ?? "", change }))));

// The changed rows that a rule's finding names, with turn and call; else those of the turns in which
// a mistake wrote.
export function brokenBy(rule, turns, failures) {
  const rows = all(turns);
  const named = rows.filter(({ change }) => names(String(rule.found), change));
  if (named.length > 0) return named;
  const wrong = new Set(failures.filter((one) => Number.isInteger(one.turn)).map((one) => one.turn));
  return rows.filter(({ turn }) => wrong.has(turn));
}

function names(found, { table, key }) {
  const word = `${table} ${key.length === 1 ? key[0] : `(${keyText(key)})`}`;
  const at = found.indexOf(visible(word));
  return at >= 0 && !/[\w]/.test(found[at + word.length] ?? " ");
}

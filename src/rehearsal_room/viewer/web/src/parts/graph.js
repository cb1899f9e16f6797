// The tries of a task as a graph of states, drawn in layers from left to right.
import { count, percent } from "../base/format.js";
import { html } from "../base/html.js";
import { visible } from "../base/text.js";

const COLUMN = 168; // pixels between layers, at least
const LETTER = 6.7; // pixels
const ROW = 74;
const MARGIN = 44;
const MOST = 220; // nodes

export function Graph({ nodes, edges, chosen, onChoose }) {
  const shown = nodes.length > MOST ? [...nodes].sort((a, b) => b.episodes.length - a.episodes.length).slice(0, MOST) : nodes;
  const names = edges.filter((edge) => edge.from !== edge.to).map(edgeText);
  const column = Math.max(COLUMN, 60 + LETTER * Math.max(0, ...names.map((one) => one.length)));
  const places = layout(shown, edges, column);
  const total = Math.max(1, ...shown.map((one) => one.episodes.length));
  const width = Math.max(...[...places.values()].map((one) => one.x)) + MARGIN * 2;
  const height = Math.max(...[...places.values()].map((one) => one.y)) + MARGIN + 16;
  const lines = edges.filter((edge) => places.has(edge.from) && places.has(edge.to) && edge.from !== edge.to);
  return html`<div class="scroll-x graph" tabindex="0" role="group" aria-label="Graph of states">
    <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${`${count(shown.length, "state")}, from the start on the left`}>
      ${lines.map((edge) => html`<${Edge} edge=${edge} from=${places.get(edge.from)} to=${places.get(edge.to)} total=${total} isChosen=${chosen === edge.from || chosen === edge.to} />`)}
      ${shown.map((node) => html`<${Node} node=${node} at=${places.get(node.digest)} total=${total} isChosen=${chosen === node.digest} onChoose=${onChoose} />`)}
    </svg></div>
    ${shown.length < nodes.length && html`<p class="dim">The ${MOST} most frequent of ${nodes.length} states are drawn.</p>`}`;
}

function Edge({ edge, from, to, total, isChosen }) {
  const bend = Math.max(40, (to.x - from.x) / 2);
  const isBack = to.x <= from.x;
  const path = isBack
    ? `M${from.x} ${from.y + 14}C${from.x} ${from.y + 64} ${to.x} ${to.y + 64} ${to.x} ${to.y + 14}`
    : `M${from.x + 18} ${from.y}C${from.x + bend} ${from.y} ${to.x - bend} ${to.y} ${to.x - 18} ${to.y}`;
  const names = callNames(edge);
  const text = edgeText(edge);
  return html`<g class=${`edge ${isChosen ? "chosen" : ""}`}><path d=${path} style=${{ strokeWidth: 1 + (4 * edge.episodes.length) / total }}><title>${visible(names.join(", "))}: ${count(edge.episodes.length, "episode")}</title></path>
    ${text && html`<text x=${(from.x + to.x) / 2} y=${(from.y + to.y) / 2 - 6 + (isBack ? 56 : 0)} text-anchor="middle" aria-hidden="true">${text}</text>`}</g>`;
}

const callNames = (edge) => [...new Set((edge.calls ?? []).map((call) => call.name))];

// What a turn called, as the text on its line; names of more than 60 letters are cut.
function edgeText(edge) {
  const [first = "", ...more] = callNames(edge);
  const name = visible(first);
  return `${name.length > 60 ? `${name.slice(0, 59)}…` : name}${more.length ? ` +${more.length}` : ""}`;
}

function Node({ node, at, total, isChosen, onChoose }) {
  const radius = 13 + 7 * Math.sqrt(node.episodes.length / total);
  const kind = node.is_start ? "start" : node.is_end ? "an end state" : "a state";
  const ended = Object.values(node.ends ?? {}).reduce((sum, one) => sum + one, 0);
  const words = `${kind}${ended ? `, ${count(ended, "episode")} ended here` : ""}, ${count(node.episodes.length, "episode")} came here, ${node.success === null || node.success === undefined ? "none judged" : `${percent(node.success, 0)} of them completed`}`;
  const choose = () => onChoose(node.digest);
  const onKeyDown = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  };
  return html`<g class=${`node ${tone(node.success)} ${node.is_end ? "final" : ""} ${isChosen ? "chosen" : ""}`} transform=${`translate(${at.x} ${at.y})`} role="button" tabindex="0" aria-pressed=${isChosen} onClick=${choose} onKeyDown=${onKeyDown}>
    <title>${words}</title><circle r=${radius} />${node.is_end && html`<circle r=${radius + 3.5} class="ring" />`}
    <text text-anchor="middle" y="4" aria-hidden="true">${node.success === null || node.success === undefined ? "–" : `${Math.round(100 * node.success)}%`}</text>
    <text text-anchor="middle" y=${radius + 15} class="under" aria-hidden="true">${node.is_start ? "start" : `${node.episodes.length}×`}</text>
    ${node.is_start && ended > 0 && html`<text text-anchor="middle" y=${radius + 28} class="under" aria-hidden="true">${ended} ended here</text>`}</g>`;
}

export function tone(success) {
  if (success === null || success === undefined) return "unknown";
  return success >= 0.8 ? "high" : success >= 0.2 ? "middle" : "low";
}

// Places of the nodes: layers by depth, ordered by the mean place of what leads to them.
function layout(nodes, edges, column) {
  const layers = [];
  for (const node of nodes) (layers[node.depth] ??= []).push(node.digest);
  const into = new Map();
  for (const { from, to } of edges) (into.get(to) ?? into.set(to, []).get(to)).push(from);
  const place = new Map();
  const filled = layers.filter(Boolean);
  filled.forEach((layer, depth) => {
    const mean = (digest) => {
      const known = (into.get(digest) ?? []).filter((one) => place.has(one)).map((one) => place.get(one).y);
      return known.length ? known.reduce((a, b) => a + b, 0) / known.length : 0;
    };
    const sorted = layer.map((digest) => [digest, mean(digest)]).sort((a, b) => a[1] - b[1]);
    sorted.forEach(([digest], i) => place.set(digest, { x: MARGIN + depth * column, y: MARGIN + i * ROW }));
  });
  const tallest = Math.max(...filled.map((layer) => layer.length));
  filled.forEach((layer) => {
    const shift = ((tallest - layer.length) * ROW) / 2;
    for (const digest of layer) place.get(digest).y += shift;
  });
  return place;
}

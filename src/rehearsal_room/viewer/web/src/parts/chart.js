// Line charts with uPlot, in the colours of the theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { short } from "../base/format.js";
import { html } from "../base/html.js";
import { useWidth } from "../base/hooks.js";
import { isDark, theme } from "../base/theme.js";

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];

// series: [{ name, values }] over `x`. `axis(x)` writes a value of x, `show(y)` one of a series.
export function Chart({ title, x, series, axis = short, show = short, height = 150 }) {
  const [box, width] = useWidth();
  const plot = useRef(null);
  const dark = isDark() || theme.value;
  useEffect(() => {
    if (!width || !x.length) return undefined;
    plot.current = new uPlot(options({ width, height, series, axis, show, probe: box.current }), data(x, series), box.current);
    return () => {
      plot.current.destroy();
      plot.current = null;
    };
  }, [width > 0, dark, series.map((one) => one.name).join()]);
  useEffect(() => {
    if (plot.current && width) plot.current.setSize({ width, height });
  }, [width]);
  useEffect(() => plot.current?.setData(data(x, series)), [x, series]);
  const last = (one) => show(one.values.findLast((value) => value !== null && value !== undefined));
  const latest = series.map((one) => `${one.name} ${last(one)}`);
  return html`<figure class="chart">
    <figcaption>${title}<span class="legend">${series.map((one, i) => html`<span class=${`key c${i % 6}`}><i></i>${one.name} <span>last <b>${last(one)}</b></span></span>`)}</span></figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${title}. Latest: ${latest.join(", ")}`} style=${{ height: `${height}px` }}>
      ${x.length === 0 && html`<p class="dim">No data yet.</p>`}
    </div>
  </figure>`;
}

const data = (x, series) => [x, ...series.map((one) => one.values)];

function options({ width, height, series, axis, show, probe }) {
  const font = `11px ${getComputedStyle(probe).fontFamily}`;
  // A canvas knows no variables: an element takes the colour, and what it computes is read.
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    const found = getComputedStyle(probe).color;
    probe.style.color = "";
    return found;
  };
  const line = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => spread(low, high) } },
    axes: [
      { ...line, size: 26, space: 70, values: (_, values) => values.map(axis), grid: { show: false } },
      { ...line, size: 52, space: 34, values: (_, values) => values.map(show) },
    ],
    series: [
      {},
      ...series.map((one, i) => ({
        label: one.name,
        stroke: colour(COLOURS[i % COLOURS.length]),
        width: 1.75,
        spanGaps: true,
        points: { show: one.values.length < 3 },
      })),
    ],
  };
}

function spread(low, high) {
  if (low === null || high === null) return [0, 1];
  if (low === high) return low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, high) * 1.2 || 1];
  const rest = (high - low) * 0.08;
  return [low >= 0 && low < high * 0.5 ? 0 : low - rest, high + rest];
}

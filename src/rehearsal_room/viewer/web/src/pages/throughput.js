// A run over time: verdicts, throughput, latency, and how many episodes were at work.
import { percent, seconds, short } from "../base/format.js";
import { html } from "../base/html.js";
import { Notice } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";

export function Throughput({ curves }) {
  if (!(curves?.at?.length > 1)) return html`<${Notice}>There are no curves yet.<//>`;
  const start = curves.at[0];
  const x = curves.at.map((at) => at - start);
  const axis = (value) => (value === 0 ? "0" : seconds(value).replace(/ 0 s$/, "").replace(/\.0+ s$/, " s"));
  const rate = 1 / (curves.span || 1);
  const perSecond = (value) => `${short(value)}/s`;
  const has = (name) => curves[name]?.some((one) => one !== null);
  const chart = (title, names, more = {}) => {
    const series = names.filter(([name]) => has(name)).map(([name, text, by = 1]) => ({ name: text, values: curves[name].map((one) => (one === null ? null : one * by)) }));
    return series.length ? html`<div class="card"><${Chart} title=${title} x=${x} series=${series} axis=${axis} ...${more} /></div>` : null;
  };
  return html`<p class="dim">Each point is a span of ${seconds(curves.span)}; the figure beside a name is that of the last span alone, not of the run.</p>
    <section aria-label="Curves" class="charts">
    ${chart("Pass rate of each span", [["pass_rate", "Completed"]], { show: (value) => percent(value, value < 0.1 && value > 0 ? 1 : 0) })}
    ${chart("Reward", [["reward", "Mean reward"]])}
    ${chart("Throughput", [["episodes", "Episodes", rate]], { show: perSecond })}
    ${chart("Turns", [["steps", "Turns", rate]], { show: perSecond })}
    ${chart("Latency", [["policy_s", "Reply"], ["calls_s", "Calls"]], { show: seconds })}
    ${chart("Episodes at once", [["live", "Live"], ["at_work", "At the model or a tool"]])}
    ${chart("Wait between reply and call", [["waited_s", "Admission, event loop, log"]], { show: seconds })}
  </section>`;
}

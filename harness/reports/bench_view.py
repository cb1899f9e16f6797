"""A benchmark's result on a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.harness.reports.bar_chart import bar_chart, most_first
from rehearsal_room.harness.reports.bench import BenchReport, ModelTraffic
from rehearsal_room.harness.reports.faults import fault_lines
from rehearsal_room.harness.reports.summary import played_by
from rehearsal_room.harness.rollout.meters import Quantiles


def render_bench(report: BenchReport, console: Console) -> None:
    """Print a benchmark as tables and bars: of a model behind HTTP its requests and tokens, of a
    policy in this process the overhead ratio."""
    totals = Table(show_header=False, box=None, pad_edge=False)
    for name, value in _totals(report):
        totals.add_row(name, value)
    console.print(totals)
    times = Table("", "p50", "p95", "p99", "max", box=None, pad_edge=False)
    for name, quantiles in _times(report):
        values = (quantiles.p50, quantiles.p95, quantiles.p99, quantiles.max)
        times.add_row(name, *(f"{value:,.1f}" for value in values))
    for column in times.columns[1:]:
        column.justify = "right"
    console.print()
    console.print(times)
    console.print(bar_chart("endings", most_first(report.endings)))
    console.print(bar_chart("labels", most_first(report.labels)))
    for line in fault_lines(report.faults):
        console.print(f"fault {line}", highlight=False, soft_wrap=True)


def _totals(report: BenchReport) -> Iterator[tuple[str, str]]:
    yield "played by", played_by(report.played_by).removeprefix("played by ")
    yield "episodes", f"{report.episodes:,} ({report.episodes_per_s:,.1f}/s)"
    yield "tool calls", f"{report.tool_calls:,} ({report.tool_calls_per_s:,.1f}/s)"
    if report.model is not None:
        yield from _traffic(report.model)
    if report.admission.adaptive:
        reason = printable(report.admission.reason, one_line=True)
        yield "live at once", f"{report.max_live:,} at most"
        yield "admission", f"settled at {report.admission.settled:,} at once: {reason}"
    else:
        yield "live at once", f"{report.max_live:,} of {report.concurrency:,} allowed"
    yield "wall, CPU", f"{report.wall_s:.2f} s, {report.cpu_s:.2f} s"
    if report.model is None:
        yield "CPU of the bare calls", f"{report.bare_cpu_s:.3f} s"
        yield "overhead ratio", f"{report.overhead_ratio:.2f}"
    memory = f"{report.rss_mb:,.0f} MB, {report.rss_per_live_world_kb:.1f} KB per live episode"
    yield "memory", memory
    yield from _outcome(report)


def _outcome(report: BenchReport) -> Iterator[tuple[str, str]]:
    """The pass rate, unless the model failed too often for one."""
    judged = sum(report.labels.values())
    if report.model_refusals:
        yield "refused by the provider", f"{report.model_refusals:,}"
    if not report.model_failures:
        yield "pass rate", f"{report.pass_rate:.3f}{_bounds(report)}"
        return
    if not report.lacks_model and judged:
        yield "pass rate", f"{report.pass_rate:.3f} of {judged:,} judged{_bounds(report)}"
    causes = printable(", ".join(report.model_failure_causes), one_line=True)
    yield "judged", f"{judged:,} of {report.episodes:,}"
    yield "model failures", f"{report.model_failures:,}: {causes}"


def _bounds(report: BenchReport) -> str:
    if not report.without_verdict:
        return ""
    low, high = report.pass_bounds
    return f"; {low:.3f} to {high:.3f} with the {report.without_verdict:,} without a verdict"


def _traffic(model: ModelTraffic) -> Iterator[tuple[str, str]]:
    speed = f"{model.requests_per_s:,.1f}/s"
    outcomes = f"{model.retries:,} retried, {model.failed:,} failed"
    limited = "never"
    if model.rate_limited:
        waits = f"{model.rate_limited_s:.1f} s of waits in all"
        least = f"; at least {model.lowest_limit:,} allowed in flight"
        limited = f"{plural(model.rate_limited, 'response')}; {waits}{least}"
    yield "requests", f"{model.requests:,} ({speed}), {outcomes}"
    yield "tokens in", f"{model.prompt_tokens:,} ({model.prompt_tokens_per_s:,.0f}/s)"
    yield "tokens out", f"{model.completion_tokens:,} ({model.completion_tokens_per_s:,.0f}/s)"
    yield "in flight", f"{model.max_in_flight:,} at most, {model.mean_in_flight:,.1f} on average"
    yield "rate-limited", limited


def _times(report: BenchReport) -> Iterator[tuple[str, Quantiles]]:
    if report.model is not None:
        yield "request, ms", report.model.latency_ms
    yield "lease, µs", report.lease_us
    yield "call, µs", report.call_us
    yield "step, µs", report.step_us
    yield "loop lag, ms", report.loop_lag_ms


def render_sweep(
    name: str, reports: Sequence[tuple[object, BenchReport]], console: Console
) -> None:
    """Print one row for each value of the setting `name`: of a model behind HTTP its speed, latency
    and rate limits, of a policy in this process the overhead ratio, the 99th percentiles of a step
    and of the loop's lag, memory, and a bar for its speed."""
    table = Table(box=None, pad_edge=False)
    fastest = max(report.tool_calls_per_s for _, report in reports) or 1.0
    with_models = any(report.model is not None for _, report in reports)
    for heading in (name, *(_MODEL_HEADINGS if with_models else _PROCESS_HEADINGS)):
        table.add_column(heading, justify="right")
    if not with_models:
        table.columns[-1].justify = "left"
    for value, report in reports:
        cells = _model_cells(report) if with_models else _process_cells(report, fastest)
        table.add_row(f"{value:,}" if isinstance(value, int) else str(value), *cells)
    console.print(table)


_MODEL_HEADINGS = (
    *("episodes/s", "requests/s", "p50 ms", "p99 ms", "tokens out/s", "429s", "pass"),
)
_PROCESS_HEADINGS = ("episodes/s", "calls/s", "ratio", "step µs", "lag ms", "MB", "calls/s")


def _model_cells(report: BenchReport) -> tuple[str, ...]:
    model = report.model
    traffic: tuple[str, ...] = ("",) * 5
    if model is not None:
        traffic = (
            f"{model.requests_per_s:,.1f}",
            f"{model.latency_ms.p50:,.1f}",
            f"{model.latency_ms.p99:,.1f}",
            f"{model.completion_tokens_per_s:,.0f}",
            f"{model.rate_limited:,}",
        )
    passed = "no model" if report.lacks_model else f"{report.pass_rate:.3f}"
    return (f"{report.episodes_per_s:,.1f}", *traffic, passed)


def _process_cells(report: BenchReport, fastest: float) -> tuple[str, ...]:
    return (
        f"{report.episodes_per_s:,.0f}",
        f"{report.tool_calls_per_s:,.0f}",
        f"{report.overhead_ratio:.2f}",
        f"{report.step_us.p99:,.0f}",
        f"{report.loop_lag_ms.p99:,.1f}",
        f"{report.rss_mb:,.0f}",
        "█" * round(12 * report.tool_calls_per_s / fastest),
    )

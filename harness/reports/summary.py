"""The result of a run, computed from its log, and how a person reads it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.core.events import Label
from harness.log.schema import NOTHING_SPENT, EpisodeRow, Spending, write_atomically
from harness.reports.bench import BenchReport
from harness.rollout.meters import Quantiles

REPORT_NAME = "report.json"


class TaskReport(msgspec.Struct, frozen=True):
    """One task's episodes."""

    scenario: str
    task: str
    episodes: int
    completed: int
    mean_reward: float | None  # of the judged; None: none was


class RunReport(msgspec.Struct, frozen=True):
    """What `rehearse run --json` says and report.json holds. It tells nothing of time, so that a
    run that went on after a crash reports the same as one that was left alone."""

    episodes: int
    steps: int
    pass_rate: float  # completed among the judged
    mean_reward: float | None
    endings: dict[str, int]
    labels: dict[str, int]
    unjudged: int
    tasks: tuple[TaskReport, ...]
    judging: Spending = NOTHING_SPENT  # all of the run's verdicts
    usd_per_1024_episodes: float | None = (
        None  # that have a label; None: none has, no model was asked, or one had no price
    )


def report_of(rows: Sequence[EpisodeRow]) -> RunReport:
    """The report on a run's episodes; those without an end are left out."""
    ended = [row for row in rows if row.ending is not None]
    judged = [row for row in ended if row.label is not None]
    completed = sum(row.label is Label.COMPLETED for row in judged)
    judging = NOTHING_SPENT
    for row in rows:
        if row.judging.requests:
            judging = judging.plus(row.judging)
    by_task: dict[tuple[str, str], list[EpisodeRow]] = {}
    for row in ended:
        by_task.setdefault((row.scenario, row.task), []).append(row)
    return RunReport(
        episodes=len(ended),
        steps=sum(row.num_steps for row in ended),
        pass_rate=completed / len(judged) if judged else 0.0,
        mean_reward=_mean([row.reward for row in judged]),
        endings=dict(sorted(Counter(str(row.ending) for row in ended).items())),
        labels=dict(sorted(Counter(str(row.label) for row in judged).items())),
        unjudged=len(ended) - len(judged),
        tasks=tuple(
            TaskReport(
                scenario,
                task,
                len(group),
                sum(row.label is Label.COMPLETED for row in group),
                _mean([row.reward for row in group]),
            )
            for (scenario, task), group in sorted(by_task.items())
        ),
        judging=judging,
        usd_per_1024_episodes=None
        if judging.cost_usd is None or not judging.requests or not judged
        else judging.cost_usd / len(judged) * 1024,
    )


def write_report(folder: Path, report: RunReport) -> None:
    """Write report.json. Raises OSError."""
    write_atomically(folder / REPORT_NAME, msgspec.json.format(msgspec.json.encode(report)))


def _mean(rewards: Sequence[float | None]) -> float | None:
    given = [reward for reward in rewards if reward is not None]
    return sum(given) / len(given) if given else None


def render_bench(report: BenchReport, console: Console) -> None:
    """The benchmark as tables and bars."""
    totals = Table(show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("episodes", f"{report.episodes:,} ({report.episodes_per_s:,.0f}/s)"),
        ("tool calls", f"{report.tool_calls:,} ({report.tool_calls_per_s:,.0f}/s)"),
        ("live at once", f"{report.max_live:,} of {report.concurrency:,} allowed"),
        ("wall, CPU", f"{report.wall_s:.2f} s, {report.cpu_s:.2f} s"),
        ("CPU of the bare calls", f"{report.bare_cpu_s:.3f} s"),
        ("overhead ratio", f"{report.overhead_ratio:.2f}"),
        (
            "memory",
            f"{report.rss_mb:,.0f} MB, {report.rss_per_live_world_kb:.1f} KB a live episode",
        ),
        ("pass rate", f"{report.pass_rate:.3f}"),
    ):
        totals.add_row(name, value)
    console.print(totals)
    times = Table("", "p50", "p95", "p99", "max", box=None, pad_edge=False)
    for name, spread in (
        ("lease, µs", report.lease_us),
        ("call, µs", report.call_us),
        ("step, µs", report.step_us),
        ("loop lag, ms", report.loop_lag_ms),
    ):
        times.add_row(name, *_quantiles(spread))
    for column in times.columns[1:]:
        column.justify = "right"
    console.print()
    console.print(times)
    for title, counts in (("endings", report.endings), ("labels", report.labels)):
        console.print()
        console.print(bars(title, counts))


def render_sweep(name: str, reports: Sequence[tuple[int, BenchReport]], console: Console) -> None:
    """One row for each value of the setting: overhead ratio, 99th percentiles of a step and of the
    loop's lag, and a bar for its speed."""
    table = Table(box=None, pad_edge=False)
    for heading in (name, "episodes/s", "calls/s", "ratio", "step µs", "lag ms", "MB"):
        table.add_column(heading, justify="right")
    table.add_column("calls/s")
    fastest = max(report.tool_calls_per_s for _, report in reports) or 1.0
    for value, report in reports:
        table.add_row(
            f"{value:,}",
            f"{report.episodes_per_s:,.0f}",
            f"{report.tool_calls_per_s:,.0f}",
            f"{report.overhead_ratio:.2f}",
            f"{report.step_us.p99:,.0f}",
            f"{report.loop_lag_ms.p99:,.1f}",
            f"{report.rss_mb:,.0f}",
            "█" * round(12 * report.tool_calls_per_s / fastest),
        )
    console.print(table)


def render_run_report(report: RunReport, console: Console) -> None:
    """The result of a run in a few lines."""
    reward = "none" if report.mean_reward is None else f"{report.mean_reward:.3f}"
    console.print(
        f"{report.episodes} episodes, {report.steps} steps, pass rate {report.pass_rate:.3f}, "
        f"mean reward {reward}" + (f", {report.unjudged} unjudged" if report.unjudged else ""),
        highlight=False,
    )
    console.print(bars("endings", report.endings))
    console.print(bars("labels", report.labels))
    if (spent := report.judging).requests:
        cost = "the cost is not known (--judge-prices)"
        if spent.cost_usd is not None:
            each = report.usd_per_1024_episodes or 0.0
            cost = f"{spent.cost_usd:.4f} USD ({each:.2f} USD per 1,024 episodes)"
        console.print(
            f"judging took {spent.requests:,} model calls, {spent.prompt_tokens:,} + "
            f"{spent.completion_tokens:,} tokens; {cost}",
            highlight=False,
            soft_wrap=True,
        )


def bars(title: str, counts: dict[str, int]) -> Text:
    """A small histogram of words.

    Example: {"answered": 3, "step_limit": 1} -> one line a word, longest bar for the greatest
    """
    text = Text(f"{title}\n", style="bold")
    top = max(counts.values(), default=0)
    for word, count in sorted(counts.items(), key=lambda item: -item[1]):
        bar = "█" * max(1, round(30 * count / top))
        text.append(f"  {word:<20} {bar} {count:,}\n", style="not bold")
    if not counts:
        text.append("  none\n", style="not bold")
    return text


def _quantiles(spread: Quantiles) -> list[str]:
    return [f"{value:,.1f}" for value in (spread.p50, spread.p95, spread.p99, spread.max)]

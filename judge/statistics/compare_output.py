"""A comparison of runs in words: on a terminal, and as Markdown."""

from collections.abc import Iterator, Sequence

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.outcomes.model_use import model_use_lines
from rehearsal_room.judge.statistics.compared_runs import (
    ComparedGroup,
    ComparedRun,
    CompareReport,
    RunDifference,
)
from rehearsal_room.judge.statistics.comparison import Comparison

_SHOWN = 10  # tasks of each kind
_SHOWN_GROUPS = 30
_NO_DIFFERENCE = "no difference is shown"


def comparison_lines(report: CompareReport) -> Iterator[str]:
    """What a comparison found, in lines of text."""
    for found in report.differences:
        yield from verdict_lines(found, report.level)
    yield from warning_lines(report)
    for run in report.runs:
        yield _run_line(run)
        if run.model is not None:
            yield from (f"  {line}" for line in model_use_lines(run.model, run.reply_times))
    if kinds := _kinds(report):
        yield "episodes by what went wrong, " + ", ".join(run.name for run in report.runs) + ":"
        yield from (f"  {kind}: {', '.join(counts)}" for kind, counts in kinds.items())
    if len(report.groups) > 1:
        yield "by world and tag, " + ", ".join(run.name for run in report.runs) + ":"
        for group in report.groups[:_SHOWN_GROUPS]:
            yield f"  {_group_line(group)}"


def _kinds(report: CompareReport) -> dict[str, list[str]]:
    """Of each kind of failure how many episodes each run has, the most frequent first."""
    total: dict[str, int] = {}
    for run in report.runs:
        for kind, count in run.failures.items():
            total[kind] = total.get(kind, 0) + count
    kinds = sorted(total, key=lambda kind: (-total[kind], kind))
    return {kind: [f"{run.failures.get(kind, 0):,}" for run in report.runs] for kind in kinds}


def warning_lines(report: CompareReport) -> Iterator[str]:
    """What else differs between the runs."""
    for world, digests in report.changed_worlds.items():
        each = "; ".join(
            f"{run.name} {digest or 'none'}"
            for run, digest in zip(report.runs, digests, strict=True)
        )
        yield f"world {world} was changed between the runs, digests: {each}"
    judges = {run.judges for run in report.runs if run.judges}
    if len(judges) > 1:
        each = "; ".join(f"{run.name} {', '.join(run.judges) or 'none'}" for run in report.runs)
        yield f"the judges differ: {each}"
    for one in report.settings:
        each = "; ".join(
            f"{run.name} {_shown(value)}"
            for run, value in zip(report.runs, one.values, strict=True)
        )
        yield f"setting {one.setting} differs: {each}"
    for name, tasks in report.only_in_some.items():
        yield f"not in all runs ({name}: {plural(len(tasks), 'task')}): {_listed(tasks)}"


def verdict_lines(found: RunDifference, level: float) -> Iterator[str]:
    """What a comparison of a run with A found: first the verdict, then what supports it."""
    one, name = found.comparison, found.name
    yield _verdict(found.name, one, level)
    if found.share is not None:
        yield f"by the shares of the tasks: {_verdict(found.name, found.share, level)}"
    yield (
        f"{plural(one.tasks, 'shared task')} of A and {name}, {one.paired:,} of them paired by seed"
    )
    yield one.about
    if one.units < one.least:
        yield (
            f"inconclusive: {plural(one.units, f'shared {one.unit}')} cannot show a difference, "
            f"whatever it is; {one.least:,} would do"
        )
    elif found.detectable is not None:
        yield (
            f"so many {one.unit}s show a difference of {_points(found.detectable)} in 8 of 10 "
            "comparisons"
        )
    if found.needed is not None and one.units >= one.least:
        yield f"one of {_points(abs(one.delta))} would need about {plural(found.needed, one.unit)}"
    for title, names in ((f"{name} does better", one.gained), ("A does better", one.lost)):
        if names:
            yield f"{title} ({len(names):,}): {_listed(names)}"
    if one.unjudged:
        low, high = one.bounds
        yield (
            f"{plural(one.unjudged, 'episode')} without a verdict; whatever they had been, {name} "
            f"less A is between {100 * low:+.1f} and {100 * high:+.1f} points"
            f"{' (so no difference is shown)' * _is_undone(one)}"
        )


def _is_undone(one: Comparison) -> bool:
    """Whether a difference would be shown if it were not for the episodes without a verdict."""
    low, high = one.interval
    return one.verdict == _NO_DIFFERENCE and not low <= 0 <= high


def _verdict(name: str, one: Comparison, level: float) -> str:
    """The verdict with its interval; who is better says the sign.

    Example: A is better by 12.0 points (95 % interval 3.1 to 20.9, p = 0.011)
    Example: no difference is shown: B less A is +1.0 points (95 % interval -7.0 to +9.0, p = 0.8)
    """
    low, high = one.interval
    if one.verdict == _NO_DIFFERENCE:
        head = f"{one.verdict}: {name} less A is {100 * one.delta:+.1f} points"
        bounds = f"{100 * low:+.1f} to {100 * high:+.1f}"
    else:
        head = one.verdict
        low, high = sorted((abs(low), abs(high)))
        bounds = f"{100 * low:.1f} to {100 * high:.1f}"
    return f"{head} ({100 * level:g} % interval {bounds}, {_p(one.p)})"


def _p(p: float) -> str:
    """Example: 0.0114 -> "p = 0.0114"; 5.1e-74 -> "p < 0.0001" """
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.3g}"


def _run_line(run: ComparedRun) -> str:
    judged = "no verdicts" if run.completed is None else f"completed {_completed(run)}"
    return (
        f"{run.name} {run.run} ({run.policy}): {judged}; "
        f"{plural(run.episodes, 'episode')} of {plural(run.tasks, 'task')}, each {run.turns:.1f} "
        f"turns, {run.prompt_tokens:,.0f} + {run.completion_tokens:,.0f} tokens; judging "
        f"{_cost(run)}"
    )


def _completed(run: ComparedRun) -> str:
    """Example: 75.0% (62.1 to 84.6); 70.0 to 80.0 with the 4 without a verdict"""
    assert run.completed is not None
    one = run.completed
    text = f"{one.value:.1%} ({100 * one.lower:.1f} to {100 * one.upper:.1f})"
    if (share := run.share) is not None:
        bounds = f"{100 * share.lower:.1f} to {100 * share.upper:.1f}"
        text += f", share of the task {share.value:.1%} ({bounds})"
    if not run.without_verdict:
        return text
    low, high = run.bounds
    return (
        f"{text}; {100 * low:.1f} to {100 * high:.1f} with the {run.without_verdict:,} without a "
        "verdict"
    )


def _cost(run: ComparedRun) -> str:
    return "at an unknown cost" if run.judging_usd is None else f"{run.judging_usd:.4f} USD"


def _group_line(group: ComparedGroup) -> str:
    text = f"{group.kind} {group.name} ({plural(group.tasks, 'task')}): {_each(group)}"
    return text if group.share is None else f"{text}; shares {_each(group.share)}"


def _each(group: ComparedGroup) -> str:
    return f"{', '.join(f'{one:.1%}' for one in group.completed)}; {_change(group)}"


def _change(group: ComparedGroup) -> str:
    low, high = group.interval
    return f"{100 * group.delta:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return "not set" if value is None or value == "" else str(value)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def markdown_of(report: CompareReport) -> str:
    """The comparison as Markdown."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: CompareReport) -> Iterator[str]:
    yield "# " + " and ".join(f"{run.name} `{run.run}`" for run in report.runs)
    for found in report.differences:
        verdict, *others = verdict_lines(found, report.level)
        yield from ("", f"**{verdict}**", "")
        yield from (f"- {line}" for line in others)
    if warnings := list(warning_lines(report)):
        yield from ("", "## What else differs", "")
        yield from (f"- {line}" for line in warnings)
    yield from ("", "## Runs", "")
    yield "| | run | played by | completed | episodes | tasks | turns | tokens | judging |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|"
    for run in report.runs:
        judged = "-" if run.completed is None else _completed(run)
        yield (
            f"| {run.name} | `{run.run}` | {run.policy} | {judged} | {run.episodes:,} | "
            f"{run.tasks:,} | {run.turns:.1f} | {run.prompt_tokens:,.0f} + "
            f"{run.completion_tokens:,.0f} | {_cost(run)} |"
        )
    names = " | ".join(run.name for run in report.runs)
    if kinds := _kinds(report):
        yield from ("", "## Episodes by what went wrong", "", f"| | {names} |")
        yield "|---|" + "---:|" * len(report.runs)
        yield from (f"| {kind} | {' | '.join(counts)} |" for kind, counts in kinds.items())
    yield from ("", "## By world and tag", "", f"| | tasks | {names} | points |")
    yield "|---|---:|" + "---:|" * len(report.runs) + "---:|"
    for group in report.groups:
        for what, one in (("", group), (", share", group.share)):
            if one is not None:
                each = " | ".join(f"{value:.1%}" for value in one.completed)
                yield f"| {one.kind} {one.name}{what} | {one.tasks:,} | {each} | {_change(one)} |"

"""The result of an experiment: what each arm reached, and how it differs from the first one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import run_settings
from rehearsal_room.harness.outcomes.run_statistics import RunStatistics
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.judge.failures.reading import kinds_of
from rehearsal_room.judge.statistics.compared_runs import level_of
from rehearsal_room.judge.statistics.comparison import LEVEL, compare
from rehearsal_room.judge.statistics.outcomes import Outcome, outcomes_of
from rehearsal_room.judge.statistics.run_statistics import statistics_of


class ArmDifference(msgspec.Struct, frozen=True):
    """An arm less the first arm, in completed tasks; a share."""

    delta: float
    interval: tuple[float, float]
    p: float
    verdict: str
    level: float = LEVEL  # of the interval: higher where there are several such arms


class ArmResult(msgspec.Struct, frozen=True):
    """What one arm reached."""

    name: str
    run: str  # the folder of its episodes
    model: str  # the folder of the weights that it trained; empty: it trained none
    episodes: int
    statistics: RunStatistics
    failures: dict[str, int]
    difference: ArmDifference | None  # None: it is the first, or they share no task
    agreement: float | None = (
        None  # equal labels of the arm that it judges again; None: it does not
    )


class ExperimentReport(msgspec.Struct, frozen=True):
    """What `rehearse experiment --json` writes."""

    name: str
    question: str
    arms: tuple[ArmResult, ...]


class PlayedArm(msgspec.Struct, frozen=True):
    """An arm whose episodes are played and judged."""

    name: str
    run: Path
    model: str = ""
    judged: Path | None = None  # the run whose episodes it judges again


def results_of(arms: Sequence[PlayedArm]) -> tuple[ArmResult, ...]:
    """Compute the result of each arm. Raises LogError and SettingsError."""
    found: list[ArmResult] = []
    first: list[Outcome] | None = None
    level = level_of(max(2, len(arms)))
    for arm in arms:
        unit = run_settings(arm.run).unit
        with open_reader(arm.run) as reader:
            rows = reader.episodes()
            outcomes = outcomes_of(reader)
        failures = kinds_of(arm.run)
        found.append(
            ArmResult(
                name=arm.name,
                run=str(arm.run),
                model=arm.model,
                episodes=sum(row.ending is not None for row in rows),
                statistics=statistics_of(rows, unit),
                failures=failures,
                difference=None if first is None else _difference(first, outcomes, level, unit),
                agreement=None if arm.judged is None else _agreement(arm.judged, arm.run),
            )
        )
        first = outcomes if first is None else first
    return tuple(found)


def _difference(
    first: Sequence[Outcome], other: Sequence[Outcome], level: float, unit: Unit | None
) -> ArmDifference | None:
    found = compare(first, other, level=level, unit=unit)
    if found is None:
        return None
    verdict = found.verdict.replace("A is", "the first arm is").replace("B is", "this arm is")
    return ArmDifference(found.delta, found.interval, found.p, verdict, level)


def _agreement(one: Path, other: Path) -> float | None:
    """The share of episodes with equal labels, of those that both have a label for."""
    labels = []
    for folder in (one, other):
        with open_reader(folder) as reader:
            rows = reader.episodes()
        labels.append({row.episode: row.label for row in rows if row.label is not None})
    both = labels[0].keys() & labels[1].keys()
    return sum(labels[0][key] == labels[1][key] for key in both) / len(both) if both else None


def markdown_of(report: ExperimentReport) -> str:
    """The result as Markdown."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: ExperimentReport) -> Iterator[str]:
    yield f"# {report.name}"
    if report.question:
        yield from ("", report.question)
    tags = list(dict.fromkeys(tag for arm in report.arms for tag in arm.statistics.tags))
    agrees = any(arm.agreement is not None for arm in report.arms)
    heads = ["arm", "episodes", "completed", "against the first", *tags]
    heads += ["labels agree"] if agrees else []
    yield from ("", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}")
    for arm in report.arms:
        cells = [arm.name, str(arm.episodes), completed_text(arm), difference_text(arm)]
        cells += [_tag_text(arm, tag) for tag in tags]
        cells += ["–" if arm.agreement is None else f"{arm.agreement:.1%}"] if agrees else []
        yield f"| {' | '.join(cells)} |"
    yield ""
    levels = {arm.difference.level for arm in report.arms if arm.difference is not None}
    held = ""
    if len(report.arms) > 2 and levels:
        held = f", at {100 * max(levels):g} %, so that all hold together"
    yield f"Shares with their 95 % intervals; differences in points, task by task{held}."
    for about in dict.fromkeys(arm.statistics.about for arm in report.arms):
        yield f"{about[:1].upper()}{about[1:]}."


def completed_text(arm: ArmResult) -> str:
    """Example: 75.0 % (62.1 to 84.6)"""
    one = arm.statistics.completed
    if one is None:
        return "–"
    return f"{one.value:.1%} ({100 * one.lower:.1f} to {100 * one.upper:.1f})"


def difference_text(arm: ArmResult) -> str:
    """Example: +4.0 (-1.0 to +9.0)"""
    one = arm.difference
    if one is None:
        return "–"
    low, high = one.interval
    return f"{100 * one.delta:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _tag_text(arm: ArmResult, tag: str) -> str:
    found = arm.statistics.tags.get(tag)
    return "–" if found is None else f"{found.completed.value:.1%}"

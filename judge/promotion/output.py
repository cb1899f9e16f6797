"""A promotion's verdict as Markdown, as JUnit XML, and on a terminal."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree  # nosec B405 # it is only written

import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.outcomes.units import Unit
from rehearsal_room.harness.reports.summary import played_by
from rehearsal_room.judge.promotion.criteria import CriterionResult, CriterionVerdict
from rehearsal_room.judge.promotion.decision import StageResult
from rehearsal_room.judge.promotion.record import PromotionRecord


class Look(msgspec.Struct, frozen=True):
    """One look at runs that are played on."""

    episodes: int
    alpha: float  # that it spent, two-sided
    verdict: CriterionVerdict


class PromotionReport(msgspec.Struct, frozen=True):
    """What `rehearse promote --json` writes."""

    gate: str
    stage: str  # the last stage that was judged
    verdict: CriterionVerdict
    criteria: tuple[CriterionResult, ...]  # of that stage
    episodes: int  # of the runs
    passed: tuple[str, ...]  # stages that are passed, in order
    stages: tuple[StageResult, ...]
    advice: str  # what to do where it is inconclusive; empty: nothing
    looks: tuple[Look, ...]  # with --continue; empty: one look
    record: PromotionRecord
    unit: Unit = "task"  # of the intervals
    about: str = ""  # what they are about


def render(report: PromotionReport, console: Console) -> None:
    """Print the verdict and a line for each criterion."""
    console.print(
        f"{report.verdict}: stage {report.stage!r}, {plural(report.episodes, 'episode')}",
        highlight=False,
        markup=False,
    )
    for run in report.record.runs:
        who = played_by(run.agent.policy)
        console.print(f"{run.run}: {who}", highlight=False, markup=False, soft_wrap=True)
    table = Table("stage", "criterion", box=None, pad_edge=False)
    for head in ("value", "interval"):
        table.add_column(head, justify="right")
    table.add_column("verdict")
    for stage in report.stages:
        for one in stage.criteria:
            table.add_row(stage.stage, _plain(one.name), *_numbers(one), _verdict_of(one))
    console.print(table)
    console.print(report.about, highlight=False, markup=False, soft_wrap=True)
    if report.looks:
        counts = ", ".join(f"{look.episodes:,}" for look in report.looks)
        console.print(f"looked at after {counts} episodes", highlight=False)
    if report.advice:
        console.print(report.advice, highlight=False, markup=False, soft_wrap=True)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _verdict_of(one: CriterionResult) -> str:
    """Example: inconclusive (12 of 45 episodes without a verdict)"""
    if not one.missing:
        return one.verdict
    of = plural(one.episodes, "episode")
    return f"{one.verdict} ({one.missing:,} of {of} without a verdict)"


def _numbers(one: CriterionResult) -> tuple[str, str]:
    if one.value is None:
        return "-", "-"
    bounds = [" - " if bound is None else f"{bound:.4g}" for bound in (one.lower, one.upper)]
    return f"{one.value:.4g}", f"{bounds[0]} to {bounds[1]}"


def markdown_of(report: PromotionReport) -> str:
    """The verdict as Markdown."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: PromotionReport) -> Iterator[str]:
    yield f"# {report.gate}: {report.verdict}"
    yield ""
    yield f"Stage `{report.stage}`, {plural(report.episodes, 'episode')}."
    yield ""
    yield f"{report.about[:1].upper()}{report.about[1:]}."
    if report.advice:
        yield ""
        yield report.advice
    for stage in report.stages:
        yield from ("", f"## {stage.stage}: {stage.verdict}", "")
        yield "| criterion | value | interval | verdict |"
        yield "|---|---:|---|---|"
        for one in stage.criteria:
            value, interval = _numbers(one)
            yield f"| `{one.name}` | {value} | {interval} | {_verdict_of(one)} |"
    if report.looks:
        yield from ("", "## Looks", "", "| episodes | alpha | verdict |", "|---:|---:|---|")
        for look in report.looks:
            yield f"| {look.episodes} | {look.alpha:.4f} | {look.verdict} |"
    yield from ("", "## Record", "", f"- gate `{report.record.gate}`")
    both = (*report.record.runs, *((report.record.base,) if report.record.base else ()))
    for run in both:
        agent = run.agent
        who = played_by(agent.policy)
        card = f", card `{agent.card}`" if agent.card else ""
        yield f"- `{run.run}`: `{run.digest}`, {plural(run.episodes, 'episode')}, {who}{card}"
    for name, digest in report.record.worlds.items():
        yield f"- world {name} `{digest}`"


def junit_of(report: PromotionReport) -> bytes:
    """The verdict as JUnit XML: a suite for each stage, a case for each criterion. What is
    inconclusive is skipped."""
    top = ElementTree.Element("testsuites", name=report.gate)
    for stage in report.stages:
        _add_suite(top, stage)
    ElementTree.indent(top)
    data: bytes = ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _add_suite(top: ElementTree.Element, stage: StageResult) -> None:
    count = {
        "tests": len(stage.criteria),
        "failures": _count(stage.criteria, "fail"),
        "skipped": _count(stage.criteria, "inconclusive"),
    }
    numbers = {name: str(value) for name, value in count.items()}
    about = {"name": stage.stage, "errors": "0", **numbers}
    suite = ElementTree.SubElement(top, "testsuite", about)
    for one in stage.criteria:
        case = ElementTree.SubElement(suite, "testcase", classname=stage.stage, name=one.name)
        value, interval = _numbers(one)
        message = f"{one.name}: found {value}, interval {interval}"
        if one.verdict == "fail":
            ElementTree.SubElement(case, "failure", message=message)
        elif one.verdict == "inconclusive":
            ElementTree.SubElement(case, "skipped", message=f"inconclusive: {message}")


def _count(criteria: Sequence[CriterionResult], verdict: CriterionVerdict) -> int:
    return sum(one.verdict == verdict for one in criteria)

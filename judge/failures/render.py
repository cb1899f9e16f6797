"""A report on failures as Markdown, and on a terminal."""

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rehearsal_room.harness.core.terminal_text import plural, printable
from rehearsal_room.judge.failures.report import Count, FailureReport, GroupCount, KindChange

_MAX_GROUPS = 20
_MAX_KINDS = 3  # of a group
_MEANINGS = {
    "wrong_record": "the right change, of another record",
    "wrong_value": "the right record, with a wrong field or value",
    "missing_write": "a change that the task asks for was not made",
    "unasked_change": "a change that the task does not ask for",
    "duplicate_write": "the same change, made again",
    "write_without_lookup": "a change without the look-up that it depends on",
    "tool_overuse": "many more calls than the solution has, or a loop over one refusal",
    "wrong_refusal": "the answer refuses what should have been done",
    "missing_refusal": "the answer does not refuse what the rules forbid",
    "wrong_answer": "the answer lacks what was asked, or says something else",
    "contradicting_answer": "the answer states what the rows do not have",
    "cut_off": "a limit of the run ended the episode",
    "format_error": "the last reply could not be read",
    "world_failure": "the world or a tool broke: not the agent's fault",
    "model_failure": "the model could not answer",
    "model_refusal": "the model's provider withheld a reply",
    "unjudged": "no judge labelled it",
    "call_as_text": "the answer contains a call as text, which was not made",
    "goal_not_met": "a check of the task failed; the log does not tell more",
}


def markdown_of(report: FailureReport, runs: str) -> str:
    """The report as Markdown."""
    return "\n".join(_markdown(report, runs)) + "\n"


def _markdown(report: FailureReport, runs: str) -> Iterator[str]:
    yield f"# Failures of {runs}"
    yield ""
    yield _head(report)
    yield ""
    yield "| kind | episodes | share | 95 % interval | meaning |"
    yield "|---|---:|---:|---|---|"
    for name, count in report.kinds.items():
        completed = f" ({count.completed} completed)" if count.completed else ""
        cells = (name, f"{count.episodes}{completed}", *_cells(count), _MEANINGS[name])
        yield _row(cells)
    for name, count in report.kinds.items():
        yield from ("", f"## {name}", "")
        for one in count.examples:
            yield f"- `{one.run}/{one.episode}@{one.turn}`: {_escaped(one.why)}"
    if report.changes:
        yield from ("", f"## Change against {report.against}", "")
        yield "| kind | before | now | change in points | 95 % interval | p |"
        yield "|---|---:|---:|---:|---|---:|"
        for name, change in report.changes.items():
            yield _row((name, *_change_cells(change)))
    for title, groups in _tables(report):
        yield from ("", f"## By {title}", "", f"| {title} | episodes | failed | kinds |")
        yield "|---|---:|---:|---|"
        for name, group in list(groups.items())[:_MAX_GROUPS]:
            yield _row((name, str(group.episodes), _failed_text(group), _kinds_text(group)))
        if len(groups) > _MAX_GROUPS:
            yield f"\n{len(groups) - _MAX_GROUPS} more are in the JSON."


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _head(report: FailureReport) -> str:
    head = f"{report.failed:,} of {plural(report.episodes, 'episode')} not completed"
    if report.without_solution:
        head += (
            f"; of {report.without_solution:,} the solution is not known, so only the findings of "
            "their verdicts are read"
        )
    return f"{head}; {report.about}."


def _cells(count: Count) -> tuple[str, str]:
    return f"{count.share:.1%}", f"{100 * count.lower:.1f} to {100 * count.upper:.1f}"


def _change_cells(change: KindChange) -> tuple[str, ...]:
    low, high = change.interval
    return (
        f"{change.before:.1%}",
        f"{change.now:.1%}",
        f"{100 * change.delta:+.1f}",
        f"{100 * low:+.1f} to {100 * high:+.1f}",
        f"{change.p:.3g}",
    )


def _tables(report: FailureReport) -> Iterator[tuple[str, Mapping[str, GroupCount]]]:
    for title, groups in (
        ("world", report.worlds),
        ("task", report.tasks),
        ("tool", report.tools),
        ("tag", report.tags),
    ):
        failing = {name: group for name, group in groups.items() if group.kinds}
        if failing:
            yield title, failing


def _failed_text(group: GroupCount) -> str:
    one = group.failed
    return f"{one.episodes} ({100 * one.lower:.0f} to {100 * one.upper:.0f} %)"


def _kinds_text(group: GroupCount) -> str:
    shown = [f"{name} {count.episodes}" for name, count in group.kinds.items()]
    more = f" and {len(shown) - _MAX_KINDS} more" if len(shown) > _MAX_KINDS else ""
    return ", ".join(shown[:_MAX_KINDS]) + more


def render_failures(report: FailureReport, console: Console) -> None:
    """Print the kinds with an example each, the changes, and the tasks that fail most."""
    console.print(_head(report), highlight=False, soft_wrap=True)
    if report.kinds:
        table = Table("kind", box=None, pad_edge=False)
        for head in ("episodes", "share", "95 % interval"):
            table.add_column(head, justify="right")
        for name, count in report.kinds.items():
            table.add_row(name, f"{count.episodes:,}", *_cells(count))
        console.print(table)
    for name, count in report.kinds.items():
        for one in count.examples[:1]:
            line = f"{name}: {one.run}/{one.episode}@{one.turn}: {one.why}"
            console.print(Text(printable(line, one_line=True)), soft_wrap=True)
    if report.changes:
        table = Table(f"against {report.against}", box=None, pad_edge=False)
        for head in ("before", "now", "points", "95 % interval", "p"):
            table.add_column(head, justify="right")
        for name, change in report.changes.items():
            table.add_row(name, *_change_cells(change))
        console.print(table)
    for title, groups in _tables(report):
        worst = list(groups.items())[:5]
        if len(worst) > 1:
            table = Table(title, box=None, pad_edge=False)
            for head in ("episodes", "failed", "kinds"):
                table.add_column(head, justify="left" if head == "kinds" else "right")
            for name, group in worst:
                cells = (str(group.episodes), str(group.failed.episodes), _kinds_text(group))
                table.add_row(Text(printable(name)), *cells)
            console.print(table)

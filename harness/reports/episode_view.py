"""A run, or one episode of it, for a reader at a terminal.

What models and tools said is shown as text: markup in it is not obeyed, control characters are
made visible, and long texts are shortened.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from envpool.core.types import ToolResult
from harness.core.events import EpisodeStarted, HistorySummarized, Judged, Label, StepTaken
from harness.core.messages import Act, AgentCall, Answer, FormatError
from harness.core.trajectory import Trajectory
from harness.log.reader import LogReader
from harness.log.schema import EpisodeRow
from scenarios.api import Row, RowChange
from scenarios.checks import Finding

_LONGEST_TEXT = 600  # characters of what an agent says or a tool gives
_LONGEST_VALUE = 60  # characters of a value in a row
_MOST_CHANGES = 12  # rows shown of one call
_MOST_EPISODES = 15
_BAR = 40  # cells
_VISIBLE = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}
# Marks that turn text around, separators of lines, and what has no width.
_VISIBLE |= {
    code: f"\\u{code:04x}"
    for code in (
        0xAD,
        0x61C,
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
    )
}
_VISIBLE[0xFEFF] = "\\ufeff"
_LABEL_STYLES = {
    Label.COMPLETED: "green",
    Label.PARTIALLY_COMPLETED: "yellow",
    Label.AGENT_ERROR: "red",
    Label.ENVIRONMENT_ERROR: "magenta",
}


def render_run(reader: LogReader, console: Console) -> None:
    """The run's tasks with their outcomes, how endings, labels and lengths are spread, and a few
    episodes to look at: those that were not completed first."""
    rows = reader.episodes()
    console.print(Text(f"{reader.path.parent}: {plural(len(rows), 'episode')}", "bold"))
    if not rows:
        return
    console.print(_tasks_table(rows))
    console.print(_bars("endings", Counter(row.ending or "cut off" for row in rows)))
    console.print(_bars("labels", Counter(_label_word(row) for row in rows)))
    console.print(_bars("steps", _spread([row.num_steps for row in rows])))
    console.print(_episodes_table(sorted(rows, key=lambda row: row.label is Label.COMPLETED)))


def render_episode(trajectory: Trajectory, console: Console) -> None:
    """One episode turn by turn: what was said, called and changed, and what the judges found."""
    console.print(_head(trajectory))
    number, last = 0, len(trajectory.steps) - 1
    for reply in trajectory.replies():
        if isinstance(reply, HistorySummarized):
            console.print(_summary(reply))
        else:
            console.print(_turn(number, reply, final=number == last))
            number += 1
    console.print(_end(trajectory))
    for verdict in trajectory.judged:
        console.print(_verdict(verdict))


def _tasks_table(rows: Iterable[EpisodeRow]) -> Table:
    tasks: dict[tuple[str, str], list[EpisodeRow]] = {}
    for row in rows:
        tasks.setdefault((row.scenario, row.task), []).append(row)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("scenario", "task"):
        table.add_column(name, overflow="fold")
    for name in ("episodes", "completed", "steps", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("labels")
    table.add_column("endings")
    for (scenario, task), members in sorted(tasks.items()):
        table.add_row(
            Text(printable(scenario)),
            Text(printable(task)),
            str(len(members)),
            _pass_rate(members),
            f"{sum(row.num_steps for row in members) / len(members):.1f}",
            f"{sum(row.seconds for row in members) / len(members):.2f}",
            _counts(Counter(_label_word(row) for row in members)),
            _counts(Counter(row.ending or "cut off" for row in members)),
        )
    return table


def _episodes_table(rows: Sequence[EpisodeRow]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("episode", "ending", "label", "steps", "why"):
        table.add_column(name, overflow="fold", justify="right" if name == "steps" else "left")
    for row in rows[:_MOST_EPISODES]:
        table.add_row(
            Text(printable(row.episode)),
            row.ending or "cut off",
            _label_word(row),
            str(row.num_steps),
            Text(shorten(row.error or row.unjudged or "", 100)),
        )
    left = len(rows) - _MOST_EPISODES
    more = [Text(f"and {plural(left, 'more episode')}")] if left > 0 else []
    return Group(Text("\nepisodes", "bold"), table, *more)


def _pass_rate(rows: Sequence[EpisodeRow]) -> str:
    """The completed among those that were judged; those that could not be judged are no zero."""
    labels = [row.label for row in rows if row.label is not None]
    return f"{labels.count(Label.COMPLETED) / len(labels):.0%}" if labels else "-"


def _label_word(row: EpisodeRow) -> str:
    if row.label is not None:
        return row.label
    return "not judged" if row.judge is None else "unjudged"


def _counts(counter: Mapping[str, int]) -> str:
    if len(counter) == 1:
        return next(iter(counter))
    return ", ".join(f"{count} {word}" for word, count in sorted(counter.items()))


def _bars(title: str, counts: Mapping[str, int]) -> RenderableType:
    """A histogram: one line each word, the longest bar for the largest count."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(min_width=22)
    table.add_column(justify="right")
    table.add_column()
    largest = max(counts.values())
    for word, count in counts.items():
        bar = "█" * max(1, round(_BAR * count / largest)) if count else ""
        table.add_row(word, str(count), Text(bar, "cyan"))
    return Group(Text(f"\n{title}", "bold"), table)


def _spread(numbers: Sequence[int]) -> dict[str, int]:
    """Numbers counted in at most ten ranges of equal width, empty ones included.

    Example: [1, 2, 2, 4] -> {"1": 1, "2": 2, "3": 0, "4": 1}
    """
    low, high = min(numbers), max(numbers)
    width = (high - low) // 10 + 1
    spread = {}
    for start in range(low, high + 1, width):
        word = str(start) if width == 1 else f"{start}-{start + width - 1}"
        spread[word] = sum(start <= number < start + width for number in numbers)
    return spread


def _head(trajectory: Trajectory) -> RenderableType:
    started: EpisodeStarted = trajectory.started
    facts = {
        "task": f"{started.scenario} / {started.task}",
        "policy": f"{started.policy}, dialect {started.dialect}, history {started.history}",
        "group": f"{started.group}, member {started.member + 1} of {started.group_size},"
        f" seed {started.seed}",
        "start": started.start_digest,
    }
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(printable(value)))
    attempt = f", attempt {trajectory.attempt}" if trajectory.attempt > 1 else ""
    title = Text(f"episode {trajectory.episode}{attempt}", "bold")
    return Group(title, table, Panel(Text(shorten(started.instruction)), title="instruction"))


def _summary(summary: HistorySummarized) -> RenderableType:
    title = Text("\nsummary of what falls out of the history", "bold")
    title.append(f"  {summary.policy_s:.2f} s", "dim")
    return Group(title, Padding(Text(shorten(summary.reply.text), "italic"), (0, 0, 0, 2)))


def _turn(number: int, step: StepTaken, *, final: bool) -> RenderableType:
    parts: list[RenderableType] = []
    decision = step.decision
    if final and isinstance(decision, Answer):
        parts.append(Text("gives the final answer", "dim"))
    elif said := shorten(step.reply.text):
        parts.append(Text(said, "italic"))
    if isinstance(decision, Act):
        for index, call in enumerate(decision.calls):
            parts.append(_call(call))
            if index < len(step.results):
                parts.append(_result(step.results[index]))
    elif isinstance(decision, FormatError):
        parts.append(Text(f"format error: {shorten(decision.reason)}", "red"))
    reward = "" if step.reward is None else f", reward {step.reward:g}"
    window = f", history from turn {step.first_turn + 1}" if step.first_turn else ""
    if step.recalled:
        window += f" with {', '.join(str(turn + 1) for turn in step.recalled)}"
    title = Text(f"\nturn {number + 1}", "bold")
    title.append(f"  {step.policy_s:.2f} s{reward}{window}", "dim")
    return Group(title, Padding(Group(*parts), (0, 0, 0, 2)))


def _call(call: AgentCall) -> Text:
    arguments = call.arguments
    if isinstance(arguments, dict):
        inner = ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())
    else:
        inner = _value(arguments)
    return Text.assemble(
        ("→ ", "cyan"), (printable(call.name), "bold cyan"), f"({printable(inner)})"
    )


def _result(result: ToolResult) -> RenderableType:
    if result.error is not None:
        return Text(f"← {result.error}: {shorten(result.text)}", "red")
    parts: list[RenderableType] = [Text(f"← {shorten(result.text)}", "green")]
    if result.changes:
        parts.append(Padding(changes_table(result.changes), (0, 0, 0, 2)))
    return Group(*parts)


def changes_table(changes: Sequence[RowChange]) -> RenderableType:
    """Each changed row with its changed columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("row", "column", "before", "after"):
        table.add_column(name, overflow="fold")
    for change in changes[:_MOST_CHANGES]:
        key = ", ".join(map(_value, change.key))
        what = "new" if change.before is None else "deleted" if change.after is None else ""
        row = Text(printable(f"{change.table} {key} {what}".rstrip()))
        for index, (column, before, after) in enumerate(_differences(change)):
            table.add_row(row if index == 0 else "", *map(Text, (printable(column), before, after)))
    left = len(changes) - _MOST_CHANGES
    return Group(table, Text(f"and {plural(left, 'more row')}")) if left > 0 else table


def _differences(change: RowChange) -> list[tuple[str, str, str]]:
    before: Row = change.before or {}
    after: Row = change.after or {}
    return [
        (
            column,
            _value(before[column]) if column in before else "",
            _value(after[column]) if column in after else "",
        )
        for column in (after or before)
        if change.before is None or change.after is None or before.get(column) != after[column]
    ]


def _end(trajectory: Trajectory) -> RenderableType:
    ended = trajectory.ended
    if ended is None:
        return Text("\nnot ended: live, or cut off", "bold yellow")
    title = Text.assemble(("\nended: ", "bold"), (ended.ending, "bold"))
    title.append(f"  {plural(ended.num_steps, 'step')}, {ended.seconds:.2f} s", "dim")
    parts: list[RenderableType] = [title]
    if ended.error:
        parts.append(Text(shorten(ended.error), "red"))
    if ended.answer:
        parts.append(Panel(Text(shorten(ended.answer)), title="answer"))
    if ended.state is not None:
        parts.append(Text(f"final state {ended.state.digest}", "dim"))
    return Group(*parts)


def _verdict(verdict: Judged) -> RenderableType:
    title = Text(f"\njudge {printable(verdict.judge)}: ", "bold")
    if verdict.label is None:
        title.append(f"unjudged: {shorten(verdict.unjudged or 'no reason given')}", "yellow")
    else:
        title.append(verdict.label, _LABEL_STYLES[verdict.label])
        if verdict.reward is not None:
            title.append(f", reward {verdict.reward:g}")
    parts: list[RenderableType] = [title]
    if verdict.findings:
        parts.append(findings_table(verdict.findings))
    if verdict.reasoning:
        parts.append(Text(shorten(verdict.reasoning), "italic"))
    return Group(*parts)


def findings_table(findings: Iterable[Finding]) -> Table:
    """A verifier's findings, a line each."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("finding", "expected", "found"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = Text("✓", "green") if finding.passed else Text("✗", "red")
        name = f"{finding.kind}: {finding.name}"
        texts = (name, finding.expected, finding.found)
        table.add_row(mark, *(Text(shorten(text, 200)) for text in texts))
    return table


def _value(value: Any) -> str:
    """A value of a row or an argument, as JSON, shortened."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return shorten(msgspec.json.encode(value).decode(), _LONGEST_VALUE)


def shorten(text: str, limit: int = _LONGEST_TEXT) -> str:
    """A text fit for a terminal, its end left out where it is long, and said so."""
    text = printable(text.strip())
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def printable(text: str) -> str:
    """A text without what a terminal would obey: controls and marks of direction are shown by
    their escapes."""
    return text.translate(_VISIBLE)


def plural(number: int, word: str) -> str:
    """Example: plural(2, "row") -> "2 rows" """
    return f"{number:,} {word}{'' if number == 1 else 's'}"

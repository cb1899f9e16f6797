"""One episode on a terminal, turn by turn.

Texts of models and tools are shown as plain text: markup in them has no effect, control characters
are shown by their escapes, JSON is laid out, and long texts are shortened (unless `full`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rehearsal_room.envpool.core.types import ServerRequest, ToolResult
from rehearsal_room.harness.core.events import (
    AgentOutput,
    AgentSpan,
    AgentSpans,
    EpisodeStarted,
    HistorySummarized,
    Judged,
    Label,
    ModelAsked,
    ProfileVerdict,
    StepTaken,
    VerifierRun,
)
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, FormatError, UserTurn
from rehearsal_room.harness.core.mistakes import Diagnosis, Mistake
from rehearsal_room.harness.core.span_tree import in_tree_order, subject_of
from rehearsal_room.harness.core.terminal_text import plural, printable, shorten
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.reports.json_layout import lay_out_json
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.short_text import shortened

_LONGEST_LINE = 200  # characters of one line of JSON
_LONGEST_VALUE = 60  # characters of a value in a row, or of an argument
_MAX_LINES = 30  # of one JSON result
_MAX_SPANS = 30  # shown of an episode
_DEEPEST_SPAN = 12  # that is indented further than those around it
_MAX_CHANGES = 12  # rows shown of one call
LABEL_STYLES = {
    Label.COMPLETED: "green",
    Label.PARTIALLY_COMPLETED: "yellow",
    Label.AGENT_ERROR: "red",
    Label.ENVIRONMENT_ERROR: "magenta",
}


def render_episode(
    trajectory: Trajectory,
    console: Console,
    *,
    full: bool = False,
    diagnosis: Diagnosis | None = None,
) -> None:
    """Print one episode turn by turn: replies, calls, results, changed rows, the end, the verdicts
    and the mistakes (None: they are not shown). With `full` nothing is shortened."""
    view = _EpisodeView(console.width, full)
    console.print(view.head(trajectory))
    number, last = 0, len(trajectory.steps) - 1
    asked = list(trajectory.asked)
    for reply in trajectory.replies():
        while asked and asked[0].turn <= number:
            console.print(view.asked(asked.pop(0)))
        if isinstance(reply, HistorySummarized):
            console.print(view.summary(reply))
        else:
            console.print(view.turn(number, reply, final=number == last))
            number += 1
    for one in asked:
        console.print(view.asked(one))
    if trajectory.output is not None:
        console.print(view.output(trajectory.output))
    if trajectory.spans is not None:
        console.print(view.spans(trajectory.spans))
    console.print(view.end(trajectory))
    for verdict in trajectory.judged:
        console.print(view.verdict(verdict))
    if diagnosis is not None and diagnosis.mistakes:
        console.print(view.mistakes(diagnosis.mistakes))


class _EpisodeView:
    """Renders the parts of an episode for a terminal of `width` columns."""

    def __init__(self, width: int, full: bool) -> None:
        self._width = width
        self._full = full

    def head(self, trajectory: Trajectory) -> RenderableType:
        """What the episode is: its task, policy, group, start state and instruction."""
        started: EpisodeStarted = trajectory.started
        facts = {
            "task": f"{started.scenario} / {started.task}",
            "policy": f"{started.policy}, dialect {started.dialect}, history {started.history}",
            "group": f"{started.group}, member {started.member + 1} of {started.group_size},"
            f" seed {started.seed}",
            "start": started.start_digest,
        }
        if (source := started.forked_from) is not None:
            turns = plural(source.turn, "turn")
            facts["forked from"] = f"{source.where}, of which it keeps {turns}"
        if (edit := started.edit) is not None:
            changed = ["another instruction"] if edit.instruction is not None else []
            changed += [plural(edit.turns, "turn") + " by hand"] if edit.turns else []
            facts["edited"] = ", ".join(changed)
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in facts.items():
            table.add_row(name, Text(printable(value)))
        attempt = f", attempt {trajectory.attempt}" if trajectory.attempt > 1 else ""
        title = Text(f"episode {trajectory.episode}{attempt}", "bold")
        instruction = Panel(Text(self._text(started.instruction)), title="instruction")
        return Group(title, table, instruction)

    def summary(self, summary: HistorySummarized) -> RenderableType:
        """The agent's summary of the turns that leave its history."""
        title = Text("\nsummary of earlier turns", "bold")
        title.append(f"  {summary.policy_s:.2f} s", "dim")
        return Group(title, _indented(Text(self._text(summary.reply.text), "italic")))

    def asked(self, asked: ModelAsked) -> RenderableType:
        """What an agent of the user's own asked its model, and what that replied."""
        after = "" if asked.parent is None else f" after request {asked.parent + 1}"
        title = Text(f"\nmodel request {asked.request + 1}{after}", "bold")
        title.append(
            f"  {plural(len(asked.messages), 'new message')}, {asked.seconds:.2f} s", "dim"
        )
        if asked.reply is None:
            return Group(title, _indented(Text(self._text(asked.error), "red")))
        parts: list[RenderableType] = []
        if text := self._text(asked.reply.text):
            parts.append(Text(text, "italic"))
        parts += [self._call(call) for call in asked.reply.calls]
        return Group(title, _indented(*parts))

    def output(self, output: AgentOutput) -> RenderableType:
        """What the agent's process wrote, and its status."""
        status = "" if output.status is None else f" (status {output.status})"
        parts = [
            Text.assemble((f"{name}: ", "dim"), self._text(text))
            for name, text in (("stdout", output.stdout), ("stderr", output.stderr))
            if text.strip()
        ]
        return Group(Text(f"\nthe agent's process{status}", "bold"), _indented(*parts))

    def spans(self, sent: AgentSpans) -> RenderableType:
        """The spans that the agent sent, as a tree; with `full` all of them, with attributes."""
        title = Text(f"\nthe agent's spans ({len(sent.spans):,})", "bold")
        most = len(sent.spans) if self._full else _MAX_SPANS
        tree = list(in_tree_order(sent.spans))
        parts = [self._span(depth, span) for depth, span in tree[:most]]
        left = len(tree) - len(parts)
        parts += [Text(f"and {plural(left, 'more span')}", "dim")] if left else []
        if sent.left_out:
            parts.append(Text(f"{plural(sent.left_out, 'span')} beyond the limits", "yellow"))
        if sent.num_refused:
            refused = plural(sent.num_refused, "request")
            parts.append(Text(f"refused: {refused}; {self._text(sent.why)}", "yellow"))
        return Group(title, _indented(*parts))

    def _span(self, depth: int, span: AgentSpan) -> RenderableType:
        line = Text("  " * min(depth, _DEEPEST_SPAN)).append(printable(span.name, one_line=True))
        subject = printable(subject_of(span), one_line=True)
        line.append(f"{' ' * bool(subject)}{subject}  {span.seconds:.3f} s", "dim")
        if span.status == "error":
            line.append(f"  error {self._text(span.message)}", "red")
        if not self._full:
            return line
        values = {**span.attributes}
        for event in span.events:
            values |= {f"{event.name} {name}": one for name, one in event.attributes.items()}
        indent = 2 * min(depth, _DEEPEST_SPAN) + 2
        lines = [f"{printable(name)}={self._value(one)}" for name, one in values.items()]
        return Group(line, *[Padding(Text(one, "dim"), (0, 0, 0, indent)) for one in lines])

    def turn(self, number: int, step: StepTaken, *, final: bool) -> RenderableType:
        """One turn; the text of the `final` answer is shown at the end of the episode."""
        parts: list[RenderableType] = []
        decision = step.decision
        if final and isinstance(decision, Answer):
            parts.append(Text("gives the final answer", "dim"))
        elif text := self._text(step.reply.text):
            parts.append(Text(text, "italic"))
        if isinstance(decision, Act):
            for index, call in enumerate(decision.calls):
                parts.append(self._call(call))
                if index < len(step.results):
                    parts.append(self._result(step.results[index]))
        elif isinstance(decision, FormatError):
            parts.append(Text(f"format error: {self._text(decision.reason)}", "red"))
        if step.user is not None:
            parts += self._user(step.user)
        title = Text(f"\nturn {number + 1}", "bold")
        title.append(f"  {step.policy_s:.2f} s{_turn_notes(step)}", "dim")
        return Group(title, _indented(*parts))

    def end(self, trajectory: Trajectory) -> RenderableType:
        """How the episode ended, its answer, and the digest of its final state."""
        ended = trajectory.ended
        if ended is None:
            return Text("\nnot ended: live, or cut off", "bold yellow")
        title = Text.assemble(("\nended: ", "bold"), (ended.ending, "bold"))
        title.append(f"  {plural(ended.num_steps, 'step')}, {ended.seconds:.2f} s", "dim")
        parts: list[RenderableType] = [title]
        if ended.error:
            parts.append(Text(self._text(ended.error), "red"))
        if ended.answer:
            parts.append(Panel(Text(self._text(ended.answer)), title="answer"))
        if ended.state is not None:
            parts.append(Text(f"final state {ended.state.digest}", "dim"))
        return Group(*parts)

    def verdict(self, verdict: Judged) -> RenderableType:
        """One judge's verdict with its findings."""
        title = Text(f"\njudge {printable(verdict.judge)}: ", "bold")
        if verdict.label is None:
            reason = self._text(verdict.unjudged or "no reason given")
            title.append(f"unjudged: {reason}", "yellow")
        else:
            title.append(verdict.label, LABEL_STYLES[verdict.label])
            if verdict.reward is not None:
                title.append(f", reward {verdict.reward:g}")
            if verdict.share is not None:
                title.append(f", share of the task {verdict.share:.3g}")
        parts: list[RenderableType] = [title]
        if verdict.findings:
            parts.append(findings_table(verdict.findings))
        if verdict.reasoning:
            parts.append(Text(self._text(verdict.reasoning), "italic"))
        if verdict.profile is not None:
            parts.append(self._profile(verdict.profile))
        if verdict.verifier_run is not None:
            parts.append(Text(_describe_run(verdict.verifier_run), "dim"))
        return Group(*parts)

    def _profile(self, verdict: ProfileVerdict) -> Text:
        """What another project's code says, as a part of our verdict."""
        name = f"{printable(verdict.profile)}: "
        line = Text.assemble((name, "bold"), printable(verdict.classification or "no class"))
        if verdict.reward is not None:
            line.append(f", reward {verdict.reward:g}")
        if verdict.judgement is not None:
            line.append(f" (judge {printable(verdict.judgement.model)})", "dim")
        said = verdict.reason or (verdict.judgement.reasoning if verdict.judgement else "")
        if said:
            line.append(f": {self._text(said)}", "italic")
        return line

    def mistakes(self, mistakes: Iterable[Mistake]) -> RenderableType:
        """What went wrong, with the turn (from 0, as `run --from` takes it)."""
        lines = [
            Text.assemble((f"{one.kind} @{one.turn}: ", "red"), self._text(one.why))
            for one in mistakes
        ]
        return Group(Text("\nwhat went wrong", "bold"), *lines)

    def _user(self, user: UserTurn) -> Iterator[RenderableType]:
        """What the user of a dialogue did, and said to the agent."""
        for call, result in zip(user.calls, user.results, strict=False):
            yield Text("the user's own call", "dim")
            yield self._call(call)
            yield self._result(result)
        if user.text:
            yield Text.assemble(("user: ", "bold magenta"), self._text(user.text))
        if user.ended:
            yield Text("the user ends the talk", "dim")

    def _call(self, call: AgentCall) -> Text:
        arguments = call.arguments
        if isinstance(arguments, dict):
            inner = [f"{printable(name)}={self._value(value)}" for name, value in arguments.items()]
        else:
            inner = [self._value(arguments)]
        line = ", ".join(inner)
        if len(inner) > 1 and len(call.name) + len(line) > self._width - len("  → ()"):
            line = "\n    " + ",\n    ".join(inner) + "\n  "
        return Text.assemble(("→ ", "cyan"), (printable(call.name), "bold cyan"), f"({line})")

    def _result(self, result: ToolResult) -> RenderableType:
        parts: list[RenderableType] = [
            Text(f"? the server asked {one.method}: {self._asked(one)}", "magenta")
            for one in result.asked
        ]
        if result.error is not None:
            parts.append(Text(f"← {result.error}: {self._text(result.text)}", "red"))
            return Group(*parts)
        parts.append(Text(f"← {self._result_text(result.text)}", "green"))
        if result.changes:
            limit = len(result.changes) if self._full else _MAX_CHANGES
            parts.append(_indented(changes_table(result.changes, limit=limit)))
        return Group(*parts)

    def _asked(self, request: ServerRequest) -> str:
        """What the server of a world asked in a call, and the answer."""
        words = request.params.get("message") or request.params.get("messages")
        answer = request.refusal if request.answer is None else self._value(request.answer)
        return f"{self._value(words)} → {self._text(answer)}"

    def _result_text(self, text: str) -> str:
        """A result, laid out where it is JSON."""
        lines = lay_out_json(text, self._width - len("  ← "))
        if lines is None:
            return self._text(text)
        if not self._full:
            count = len(lines)
            lines = [shortened(line, _LONGEST_LINE) for line in lines[:_MAX_LINES]]
            if count > _MAX_LINES:
                lines.append(f"… ({count:,} lines)")
        return printable("\n  ".join(lines))

    def _text(self, text: str) -> str:
        return printable(text.strip()) if self._full else shorten(text)

    def _value(self, value: Any) -> str:
        text = msgspec.json.encode(value).decode()
        return printable(text) if self._full else shorten(text, _LONGEST_VALUE)


def _indented(*parts: RenderableType) -> RenderableType:
    return Padding(Group(*parts), (0, 0, 0, 2))


def _turn_notes(step: StepTaken) -> str:
    """The step's reward, and the turns that its window showed, where they are not the usual.

    Example: ", reward -1, history from turn 7 with 1, 4"
    """
    notes = "" if step.reward is None else f", reward {step.reward:g}"
    if step.first_turn:
        notes += f", history from turn {step.first_turn + 1}"
    if step.recalled:
        notes += f" with {', '.join(str(turn + 1) for turn in step.recalled)}"
    return notes


def changes_table(changes: Sequence[RowChange], *, limit: int = _MAX_CHANGES) -> RenderableType:
    """Each changed row with its changed columns; rows after the first `limit` are counted."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("row", "column", "before", "after"):
        table.add_column(name, overflow="fold")
    for change in changes[:limit]:
        key = ", ".join(map(_cell, change.key))
        what = "new" if change.before is None else "deleted" if change.after is None else ""
        row = Text(printable(f"{change.table} {key} {what}".rstrip()))
        for index, (column, before, after) in enumerate(_differences(change)):
            cells = map(Text, (printable(column), before, after))
            table.add_row(row if index == 0 else "", *cells)
    left = len(changes) - limit
    return Group(table, Text(f"and {plural(left, 'more row')}")) if left > 0 else table


def _differences(change: RowChange) -> list[tuple[str, str, str]]:
    """The changed columns: name, value before, value after."""
    before: Row = change.before or {}
    after: Row = change.after or {}
    return [
        (
            column,
            _cell(before[column]) if column in before else "",
            _cell(after[column]) if column in after else "",
        )
        for column in (after or before)
        if change.before is None or change.after is None or before.get(column) != after[column]
    ]


def _cell(value: Any) -> str:
    """A value of a row as JSON, shortened."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return shorten(msgspec.json.encode(value).decode(), _LONGEST_VALUE)


def findings_table(findings: Sequence[Finding]) -> Table:
    """A verifier's findings, one per line, with their shares and weights where one has a share."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    has_shares = any(one.share is not None for one in findings)
    for name in (*(("share",) if has_shares else ()), "finding", "expected", "found"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        mark = Text("✓", "green") if finding.passed else Text("✗", "red")
        if finding.share is not None and 0 < finding.share < 1:
            mark = Text("◐", "yellow")
        elif finding.is_open and finding.kind == "criterion":
            mark = Text("?", "yellow")
        name = f"{finding.kind}: {finding.name}"
        shares = (_share_and_weight(finding),) if has_shares else ()
        texts = (*shares, name, finding.expected, finding.found)
        table.add_row(mark, *(Text(shorten(text, 200)) for text in texts))
    return table


def _share_and_weight(finding: Finding) -> str:
    """Example: "0.5 × 2", with a weight of 2; "open" where a model must be asked"""
    if finding.share is None:
        return "open" if finding.kind == "criterion" else ""
    return f"{finding.share:.3g}" + (f" × {finding.weight:g}" if finding.weight != 1 else "")


def _describe_run(run: VerifierRun) -> str:
    """Example: verifier run in process 4711 of its own, sandbox seccomp+landlock"""
    match run.where:
        case "worker":
            return f"verifier run in process {run.pid} of its own, sandbox {printable(run.sandbox)}"
        case "tool_calls":
            return "verified by tool calls in the world"
        case "in_process":
            return "verifier run in the process of the run"

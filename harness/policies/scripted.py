"""Calls from a file: one line of JSON per episode.

    {"scenario": "shop", "task": "void-7", "answer": "Order 7 is void.",
     "calls": [{"name": "void_order", "arguments": {"order_id": 7}}]}     (on one line in the file)

Several lines for one task are for the members of its group, in order; a larger group starts again
with the first line.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import (
    FixedRepliesAgent,
    num_moves_in,
    replies_of,
)
from rehearsal_room.scenarios.decode_errors import field_sentence
from rehearsal_room.scenarios.format import Call


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The calls and the answer of one episode."""

    scenario: str
    task: str
    calls: tuple[Call, ...]
    answer: str


_decoder = msgspec.json.Decoder(ScriptLine)


def read_script(path: Path) -> list[tuple[int, ScriptLine]]:
    """The lines of a script with their line numbers, without blank lines.

    Raises SettingsError naming the file, the line and the field.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: the script cannot be read as UTF-8 text: {exc}") from exc
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            lines.append((number, _line(f"{path}: line {number}", line)))
    return lines


def _line(location: str, line: str) -> ScriptLine:
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"{location}: {field_sentence(str(exc))}") from exc
    except (msgspec.DecodeError, RecursionError) as exc:
        raise SettingsError(f"{location}: not valid JSON: {exc}") from exc


class ScriptedPolicy:
    """Plays a script, one call per turn. Raises SettingsError for an invalid file."""

    name = "scripted"

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self._path = path
        self._replies: dict[tuple[str, str], list[tuple[Reply, ...]]] = {}
        for number, line in read_script(path):
            try:
                replies = replies_of(dialect, line.calls, line.answer)
            except ValueError as exc:
                raise SettingsError(f"{path}: line {number}: answer: {exc}") from exc
            self._replies.setdefault((line.scenario, line.task), []).append(replies)

    def require(self, tasks: Iterable[tuple[str, str]]) -> None:
        """Check before a run that each (scenario, task) has a line. Raises SettingsError."""
        for scenario, task in tasks:
            self._lines_of(scenario, task)

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays the line of its member."""
        lines = self._lines_of(assignment.scenario.name, assignment.task.id)
        replies = lines[assignment.member % len(lines)]
        return FixedRepliesAgent(replies, num_moves_in(assignment))

    def _lines_of(self, scenario: str, task: str) -> list[tuple[Reply, ...]]:
        lines = self._replies.get((scenario, task))
        if lines is None:
            raise SettingsError(f"{self._path}: no line for task {task!r} of scenario {scenario!r}")
        return lines

"""`--edit`: what somebody changes in a fork by hand before it goes on.

    {"instruction": "Cancel order 1043.",
     "turns": [{"text": "I look it up.",
                "calls": [{"name": "get_order", "arguments": {"order_id": 1043}},
                          {"name": "get_user", "arguments": {"id": 7}, "result": "no such user"}]}]}

The turns come after those that the fork keeps, in the agent's name: no agent is asked for them. A
call is made in the world, unless its result is given: then no tool is executed, and the agent reads
that result. `text` is the reply as the model would have written it; in a dialect other than
`native`, `calls` are written into it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.continuation.beginning import WrittenTurn
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Reply
from rehearsal_room.harness.dialects.base import Dialect, call_id
from rehearsal_room.scenarios.files import read_toml
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.validation import explain


class EditedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call in the agent's name."""

    name: str
    arguments: dict[str, Any] = {}
    result: str | None = None  # that the agent reads; None: the call is made
    # Why that result is a failure; None: it is a success.
    error: Literal["unknown_tool", "arguments", "refused"] | None = None


class EditedTurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A turn in the agent's name."""

    text: str = ""
    calls: tuple[EditedCall, ...] = ()


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is changed. `instruction` None: the agent gets that of the forked episode."""

    instruction: str | None = None
    turns: tuple[EditedTurn, ...] = ()


def edit_text(given: str) -> str:
    """The edit of `--edit`, a JSON object or the name of a JSON or TOML file, as settings have it.
    Raises SettingsError.

    Example: '{"turns": []}' -> '{}'
    """
    if not given.lstrip().startswith("{"):
        given = _in_file(Path(given))
    return msgspec.json.encode(read_edit(given)).decode()


def read_edit(text: str) -> Edit:
    """An edit as settings have it; empty: nothing is changed. Raises SettingsError."""
    if not text:
        return Edit()
    try:
        table = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise SettingsError(f"edit: expected a JSON object such as '{_EXAMPLE}': {exc}") from exc
    try:
        return msgspec.convert(table, Edit)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"edit: {explain(exc, table, Edit)}") from exc


_EXAMPLE = '{"turns": [{"text": "I look again."}]}'


def written_turns(
    turns: Sequence[EditedTurn], dialect: Dialect, *, first: int
) -> tuple[WrittenTurn, ...]:
    """The turns as replies of a dialect; `first` is the number of the first one, from 0. Raises
    SettingsError for one that the dialect cannot express."""
    return tuple([_written(turn, dialect, number) for number, turn in enumerate(turns, first)])


def _written(turn: EditedTurn, dialect: Dialect, number: int) -> WrittenTurn:
    where = f"edit: turn {number + 1}"
    if not turn.text and not turn.calls:
        raise SettingsError(f"{where} has neither text nor calls")
    reply = _reply_of(turn, dialect, number, where)
    decision = dialect.read(reply, turn=number)
    made = len(decision.calls) if isinstance(decision, Act) else 0
    if turn.calls and made != len(turn.calls):
        raise SettingsError(
            f"{where}: dialect {dialect.name} reads {made} calls in the reply, not "
            f"{len(turn.calls)}: write them into the text or as calls, and not both"
        )
    return WrittenTurn(StepTaken(reply, decision), tuple(map(_result_of, turn.calls)))


def _reply_of(turn: EditedTurn, dialect: Dialect, number: int, where: str) -> Reply:
    if not turn.calls:
        return Reply(turn.text)
    if dialect.name == "native":
        calls = tuple(
            AgentCall(call.name, call.arguments, call_id(number, index))
            for index, call in enumerate(turn.calls)
        )
        return Reply(turn.text, calls, "tool_calls")
    try:
        written = dialect.write(
            [Call(call.name, call.arguments) for call in turn.calls], "", turn=number
        )
    except ValueError as exc:
        raise SettingsError(f"{where}: {exc}") from exc
    return Reply("\n".join(part for part in (turn.text, written.text) if part))


def _result_of(call: EditedCall) -> ToolResult | None:
    if call.result is None:
        return None
    return ToolResult(call.result, call.error, injected=True)


def _in_file(path: Path) -> str:
    if path.suffix == ".toml":
        return msgspec.json.encode(read_toml(path, error=SettingsError)).decode()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"edit: {path} cannot be read: {exc}") from exc

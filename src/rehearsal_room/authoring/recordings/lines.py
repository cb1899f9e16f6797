"""A recording of sessions with an MCP server: JSON lines, which are appended as things happen.

    {"recorded": "started", "session": "5f0c…", "at": 1790000000.0, "command": ["ops-mcp"]}
    {"recorded": "tools", "session": "5f0c…", "tools": [{"name": "add_note", …}]}
    {"recorded": "asked", "session": "5f0c…", "id": 3, "at": …, "name": "add_note", "arguments": {}}
    {"recorded": "answered", "session": "5f0c…", "id": 3, "at": …, "result": {"content": [ … ]}}
    {"recorded": "ended", "session": "5f0c…", "at": …, "status": 0}

Several sessions may append to one file at once. A recording that was cut off, or has other lines in
it, is read without them.
"""

import codecs
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types
import msgspec

from rehearsal_room.authoring.recordings.recorder import mark_of
from rehearsal_room.envpool.mcp.content import text_of
from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Call

RequestId = int | str


class _Line(
    msgspec.Struct, frozen=True, tag_field="recorded", tag=lambda name: name.lower(), kw_only=True
):
    session: str


class Started(_Line, frozen=True, kw_only=True):
    """A client has started the server."""

    at: float  # Unix seconds
    command: tuple[str, ...]
    mark: str = ""  # see `mark_of`; empty: an older version wrote it, or no key can be kept


class Tools(_Line, frozen=True, kw_only=True):
    """A page of the server's tools, as it listed them."""

    tools: list[dict[str, Any]]


class Asked(_Line, frozen=True, kw_only=True):
    """The client asked for a call."""

    id: RequestId
    at: float
    name: str
    arguments: dict[str, Any]


class Answered(_Line, frozen=True, kw_only=True):
    """The server answered it: a result, or an error of the protocol."""

    id: RequestId
    at: float
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class Ended(_Line, frozen=True, kw_only=True):
    """The server has ended."""

    at: float
    status: int  # negative: the number of a signal


Line = Started | Tools | Asked | Answered | Ended


class RecordedCall(msgspec.Struct, frozen=True):
    """A call of a session, and its answer."""

    name: str
    arguments: dict[str, Any]
    at: float  # Unix seconds
    text: str | None = None  # of its result; None: none came
    failed: bool = False

    @property
    def was_made(self) -> bool:
        """Whether the server carried it out."""
        return self.text is not None and not self.failed


def shown(call: RecordedCall | Call) -> str:
    """A call in one line. Example: add_note(text='milk')"""
    given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({shortened(given, 120)})"


class Recording(msgspec.Struct, frozen=True):
    """A recording as it was read."""

    command: tuple[str, ...]  # of the last session
    tools: tuple[dict[str, Any], ...]  # as the server listed them last, each name once
    sessions: tuple[tuple[RecordedCall, ...], ...]  # their calls, in the order of the requests
    is_own: bool  # whether this user recorded that command on this machine
    num_unread: int  # other lines in the file


_decode = msgspec.json.Decoder(Line).decode


def read_recording(path: Path) -> Recording:
    """Read a recording. Raises PackageError where the file cannot be read or has no session."""
    lines: list[Line] = []
    num_unread = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                try:
                    lines.append(_decode(raw.removeprefix(codecs.BOM_UTF8)))
                except UNREADABLE:
                    num_unread += bool(raw.strip())
    except OSError as exc:
        raise PackageError(f"{path}: the recording cannot be read: {exc.strerror or exc}") from exc
    started = [line for line in lines if isinstance(line, Started)]
    if not started:
        raise PackageError(
            f"{path}: it has no session of `rehearse new recording`; it has "
            f"{num_unread} other lines"
        )
    tools = {
        str(tool.get("name")): tool
        for line in lines
        if isinstance(line, Tools)
        for tool in line.tools
    }
    by_session: dict[str, list[Line]] = {line.session: [] for line in started}
    for line in lines:
        if line.session in by_session:
            by_session[line.session].append(line)
    sessions = tuple(tuple(_calls(each)) for each in by_session.values())
    command, mark = started[-1].command, started[-1].mark
    is_own = bool(mark) and hmac.compare_digest(mark.encode(), mark_of(command).encode())
    return Recording(command, tuple(tools.values()), sessions, is_own, num_unread)


def _calls(lines: list[Line]) -> Iterator[RecordedCall]:
    answers: dict[RequestId, list[Answered]] = {}
    for line in lines:
        if isinstance(line, Answered):
            answers.setdefault(line.id, []).append(line)
    for line in lines:
        if isinstance(line, Asked):
            of_id = answers.get(line.id)
            text, failed = _read_answer(of_id.pop(0)) if of_id else (None, False)
            yield RecordedCall(line.name, line.arguments, line.at, text, failed)


def _read_answer(line: Answered) -> tuple[str, bool]:
    """The text of an answer, and whether the call failed."""
    if line.result is None:
        return str((line.error or {}).get("message", "")), True
    try:
        result = mcp_types.CallToolResult.model_validate(line.result)
    except ValueError:  # pydantic's
        return msgspec.json.encode(line.result).decode(), bool(line.result.get("isError"))
    return text_of(result), bool(result.is_error)

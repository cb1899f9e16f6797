"""Write down what passes between an MCP client and its server."""

import json
import os
import re
import secrets
import stat
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.user_state import own_mark
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import UNREADABLE

_MAX_LINE = 64 * 2**20  # bytes of a message; a longer one is passed on and not recorded
_START = b'{"recorded":'  # of every line that is ours
_HALF = re.compile("[\ud800-\udfff]")
Message = dict[str, Any]


def mark_of(command: tuple[str, ...]) -> str:
    """The user's mark of a command that they record (harness.core.user_state). Without it the
    command of a recording is not started: the file may come from anybody."""
    return own_mark(msgspec.json.encode(command), "recording")


class Recorder:
    """Appends one session to a file. A line is written at once and whole, so that a killed session
    leaves all lines before. When the file cannot be written the session goes on without it.

    Raises PackageError where there is another file of this name, or it cannot be opened.
    """

    def __init__(self, path: Path, command: Sequence[str]) -> None:
        self._path = path
        self._session = secrets.token_hex(8)
        self._lock = threading.Lock()
        # Requests that are not answered: place and id -> method.
        self._asked: dict[tuple[str, int | str], str] = {}
        self._has_calls = False
        self._file = _opened(path)
        words = tuple(command)
        self._write("started", at=time.time(), command=words, mark=mark_of(words))

    def close(self, status: int) -> None:
        """Write how the server ended, and close the file."""
        self._write("ended", at=time.time(), status=status)
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    @property
    def has_calls(self) -> bool:
        """Whether a call was recorded."""
        return self._has_calls

    def from_client(self, line: bytes, place: str = "") -> None:
        """A line that the client sent. `place`: within it, ids are unique."""
        for message in messages_of(line):
            method, request = message.get("method"), _id_of(message)
            if not isinstance(request, int | str) or method not in ("tools/call", "tools/list"):
                continue
            with self._lock:
                self._asked[place, request] = str(method)
            given = message.get("params")
            params = given if isinstance(given, dict) else {}
            if method == "tools/call":
                arguments = params.get("arguments")
                self._has_calls = True
                self._write(
                    "asked",
                    id=_recorded_id(place, request),
                    at=time.time(),
                    name=str(params.get("name", "")),
                    arguments=arguments if isinstance(arguments, dict) else {},
                )

    def from_server(self, line: bytes, place: str = "") -> None:
        """A line that the server sent. `place`: where the request was that it answers; empty: it
        may answer one of any place."""
        for message in messages_of(line):
            request = _id_of(message)
            if "method" in message or not isinstance(request, int | str):
                continue
            with self._lock:
                key = place, request
                if not place:
                    key = next((one for one in self._asked if one[1] == request), key)
                method = self._asked.pop(key, "")
            result, error = message.get("result"), message.get("error")
            if method == "tools/call":
                answer = {"result": result} if isinstance(result, dict) else {"error": error}
                self._write("answered", id=_recorded_id(key[0], request), at=time.time(), **answer)
            elif method == "tools/list" and isinstance(result, dict):
                listed = result.get("tools")
                tools = [tool for tool in listed or () if isinstance(tool, dict)]
                self._write("tools", tools=tools)

    def _write(self, recorded: str, **fields: Any) -> None:
        line = {"recorded": recorded, "session": self._session, **fields}
        try:
            text = msgspec.json.encode(line) + b"\n"
        except (ValueError, RecursionError) as exc:
            sys.stderr.write(f"rehearse: a message is not recorded: {exc}\n")
            return
        with self._lock:
            try:
                while self._file >= 0 and text:
                    text = text[os.write(self._file, text) :]
            except OSError as exc:
                os.close(self._file)
                self._file = -1
                sys.stderr.write(f"rehearse: {self._path} is not recorded any further: {exc}\n")


class Lines:
    """Cuts bytes into lines; a line that is too long is left out."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that these bytes complete."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = bytes(self._pending) + end
            self._pending.clear()
            if not self._is_skipping:
                yield line
            self._is_skipping = False
        if not self._is_skipping:
            self._pending += rest
        if len(self._pending) > _MAX_LINE:
            self._pending.clear()
            self._is_skipping = True


def _id_of(message: Message) -> Any:
    """A message's id; a whole float is the integer."""
    found = message.get("id")
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _recorded_id(place: str, request: int | str) -> int | str:
    return f"{place}-{request}" if place else request


def messages_of(line: bytes) -> list[Message]:
    """The messages of a line: one, or a batch; none where it is not JSON."""
    try:
        found = msgspec.json.decode(line)
    except UNREADABLE:
        try:  # Python's own reader takes NaN, too, and half of a surrogate pair, which no file has
            text = json.dumps(json.loads(line), ensure_ascii=False)
            found = json.loads(_HALF.sub("\ufffd", text))
        except (ValueError, RecursionError):
            return []
    except RecursionError:
        return []
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]


def _opened(path: Path) -> int:
    """A recording, open for appending, which only its owner can read. Raises PackageError."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise PackageError(f"{path}: cannot be written: {exc.strerror}") from exc
    try:
        size = os.fstat(file).st_size
        is_ours = stat.S_ISREG(os.fstat(file).st_mode) and (
            not size or os.pread(file, len(_START), 0) == _START
        )
        if not is_ours:
            raise PackageError(f"{path}: this file is not a recording; choose another name")
        os.fchmod(file, 0o600)
        if size and os.pread(file, 1, size - 1) != b"\n":  # the session before was cut off
            os.write(file, b"\n")
    except OSError as exc:
        os.close(file)
        raise PackageError(f"{path}: cannot be written: {exc.strerror}") from exc
    except PackageError:
        os.close(file)
        raise
    return file

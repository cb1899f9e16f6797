"""The process of a suite's program (see envpool.objects.program), and requests to it.

The program runs with the rights of the user. It has the variables of `_PASSED` and those that the
user names; other keys do not reach it. What it prints goes to our standard error.
"""

import os
import sys
from collections import deque
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
from anyio.abc import Process, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.scenarios.files import UNREADABLE

_PROGRAM = Path(__file__).with_name("program.py")
_PASSED = ("HOME", "LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TEMP", "TMPDIR")
_PATIENCE_S = 120.0  # of computing, from one answer to the next; then the program is killed
_AT_REST = 0.05  # of the time: it computes less, and does not answer
_LONGEST_LINE = 256 * 1024 * 1024  # bytes
_encode, _decode = msgspec.json.encode, msgspec.json.decode


class ProgramSettings(msgspec.Struct, frozen=True):
    """How a suite's program is started."""

    adapter: str  # module in envpool/objects/adapters
    options: dict[str, Any] = {}  # of the adapter; JSON
    python: str = ""  # the interpreter; empty: ours
    variables: tuple[str, ...] = ()  # of the environment, which the user lets the program have


class _Waiting:
    """A request that has no answer yet."""

    __slots__ = ("answer", "arrived")

    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.answer: dict[str, Any] | None = None  # None: the program ended


class SuiteProcess:
    """A program, which lives as long as the task `run`. Requests are answered in their order, so
    several may be under way."""

    def __init__(self, settings: ProgramSettings) -> None:
        self._settings = settings
        self._waiting: deque[_Waiting] = deque()
        self._process: Process
        self._sending = anyio.Lock()
        self.why_ended = ""  # a sentence; empty: it runs
        self.version = ""  # of the suite's data
        self._num_answers = 0

    def __repr__(self) -> str:
        state = self.why_ended or f"{len(self._waiting)} requests"
        return f"<SuiteProcess {self._settings.adapter} [{state}]>"

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the program until it ends or the task is cancelled; started when it is ready. Raises
        PoolError where it cannot start."""
        command = self._command()
        passed = (*_PASSED, *self._settings.variables)
        environment = {name: os.environ[name] for name in passed if name in os.environ}
        # A world's sets have one order in every process. (Python's option -I would ignore this.)
        environment["PYTHONHASHSEED"] = "0"
        try:
            process = await anyio.open_process(command, env=environment, stderr=None)
        except OSError as exc:
            raise PoolError(f"{command[0]} cannot be started: {exc}") from exc
        self._process = process
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        try:
            await self._greet(lines)
            task_status.started()
            await self._read(lines)
        finally:
            self._end("it was closed")
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()

    def _command(self) -> list[str]:
        settings = self._settings
        options = _encode(settings.options).decode()
        return [settings.python or sys.executable, "-s", str(_PROGRAM), settings.adapter, options]

    async def _greet(self, lines: BufferedByteReceiveStream) -> None:
        greeting = await _line(lines)
        if greeting is None:
            command = " ".join(self._command()[:3])
            raise PoolError(f"{command} ended before it was ready; its message is above")
        if fault := greeting.get("fault"):
            raise PoolError(f"suite {self._settings.adapter!r} cannot be loaded: {fault}")
        self.version = greeting["version"]

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer. Raises PoolError where the program fails to answer
        or has ended. A caller that is cancelled leaves the answer to nobody."""
        waiting = _Waiting()
        data = _encode({"op": op, **fields}) + b"\n"
        stdin = self._process.stdin
        assert stdin is not None
        async with self._sending:
            if self.why_ended:
                raise PoolError(self._gone())
            self._waiting.append(waiting)
            try:
                with anyio.CancelScope(shield=True):  # half a line would spoil all later ones
                    await stdin.send(data)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._end("it closed its input")
        await self._until(waiting)
        if waiting.answer is None:
            raise PoolError(self._gone())
        if fault := waiting.answer.get("fault"):
            raise PoolError(f"suite {self._settings.adapter!r}: {op}: {fault}")
        return waiting.answer

    async def _until(self, waiting: _Waiting) -> None:
        """Wait for an answer. The program is killed where it neither answers nor computes, or has
        computed too long since its last answer: on a busy machine a score takes minutes."""
        num_answers, since = -1, 0.0
        while not waiting.arrived.is_set():
            before = self._cpu_s()
            if self._num_answers != num_answers:
                num_answers, since = self._num_answers, before
            with anyio.move_on_after(_PATIENCE_S) as scope:
                await waiting.arrived.wait()
            if not scope.cancelled_caught or self._num_answers != num_answers:
                continue
            now = self._cpu_s()
            if now - before < _AT_REST * _PATIENCE_S or now - since >= _PATIENCE_S:
                self._end(
                    f"no answer came within {_PATIENCE_S:g} s, in which it computed for "
                    f"{now - before:.0f} s"
                )
                self._process.kill()

    def _cpu_s(self) -> float:
        """The CPU time that the program has used, in seconds; 0: it has ended."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return times.user + times.system

    async def _read(self, lines: BufferedByteReceiveStream) -> None:
        while (answer := await _line(lines)) is not None:
            waiting = self._waiting.popleft()
            self._num_answers += 1
            waiting.answer = answer
            waiting.arrived.set()
        self._end("it ended")

    def _end(self, why: str) -> None:
        self.why_ended = self.why_ended or why
        while self._waiting:
            self._waiting.popleft().arrived.set()

    def _gone(self) -> str:
        return f"the program of suite {self._settings.adapter!r} does not answer: {self.why_ended}"


async def _line(lines: BufferedByteReceiveStream) -> dict[str, Any] | None:
    """The next answer; None: the program has closed its output."""
    try:
        line = await lines.receive_until(b"\n", _LONGEST_LINE)
    except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
        return None
    try:
        answer: dict[str, Any] = _decode(line)
    except UNREADABLE as exc:
        return {"fault": f"its answer cannot be read: {exc}"}
    return answer

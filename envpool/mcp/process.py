"""The process of one MCP server: started for a lease, used over its standard streams, ended with
all its children when the lease ends.

The end covers the process, its process group, and descendants that left the group while their
parents ran. It does not cover a daemon that left the group and whose parent ended before it.
"""

import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Unpack

import anyio
import mcp_types
import psutil
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.envpool.mcp.questions import Questions, Warnings
from rehearsal_room.envpool.mcp.tolerant import TolerantSession, read_messages
from rehearsal_room.scenarios.core.short_text import shortened

SCRATCH = "{scratch}"  # in a command: the path of an empty folder, a new one for each process
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER")
_MAX_LINE = 64 * 2**20  # bytes of one message
_MAX_ERRORS = 2_000  # bytes of standard error that are kept
_MAX_QUOTE = 120  # characters of a message that cannot be read
_GRACE_S = 1.0  # seconds to end after its input is closed, and again after SIGTERM

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


class ServerProcess(ClientTransport):
    """The process of a server, as a transport of fastmcp's Client, which connects once.

    `environment` names the variables that it inherits besides the harmless ones: secrets are passed
    on only by name. `variables` are further ones, with their values. Every process has an empty
    folder, `{scratch}` in its command and its TMPDIR. It runs in `folder`; None: in ours.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        folder: Path | None = None,
        *,
        questions: Questions,
        warnings: Warnings,
    ) -> None:
        self._session = partial(TolerantSession, questions=questions, warnings=warnings)
        self._folder = folder
        self._command = command
        self._environment = environment
        self._variables = variables or {}
        self._errors: deque[int] = deque(maxlen=_MAX_ERRORS)
        self._errors_read = anyio.Event()  # it will write no more errors
        self._unreadable = ""  # why what it sent cannot be read
        self._was_ended = False  # by us, not by itself
        self._has_closed = False  # its output ended before we ended it
        self._process: Process | None = None

    def __repr__(self) -> str:
        return f"<ServerProcess {self._command[0]!r}>"

    @asynccontextmanager
    async def connect_session(
        self,
        *,
        transport_options: TransportOptions | None = None,
        **session_kwargs: Unpack[SessionKwargs],
    ) -> AsyncIterator[ClientSession]:
        """The process, running and connected, until the block is left."""
        with own_folder("mcp") as scratch:
            process = self._process = await self._start(str(scratch))
            to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](16)
            outgoing, to_it = anyio.create_memory_object_stream[SessionMessage](16)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, to_us)
                tasks.start_soon(_write, process, to_it, to_us)
                tasks.start_soon(self._read_errors, process.stderr)
                try:
                    async with self._session(incoming, outgoing, **session_kwargs) as session:
                        yield session
                finally:
                    self._was_ended = not self._has_closed and process.returncode is None
                    with anyio.CancelScope(shield=True):
                        await _end(process)
                    for stream in (incoming, outgoing, to_us, to_it):
                        stream.close()
                    tasks.cancel_scope.cancel()

    def exit_reason(self) -> str:
        """How it ended and its last errors, as a sentence; empty: it runs, or it never started."""
        if self._unreadable:
            return self._unreadable
        status = None if self._process is None else self._process.returncode
        if status is None or self._was_ended:
            return ""
        how = f"ended with status {status}"
        if status < 0:
            with suppress(ValueError):
                how = f"was ended by {signal.Signals(-status).name}"
        errors = self.last_errors()
        return f"it {how}" + (f"; its last output was: {errors}" if errors else "")

    def last_errors(self) -> str:
        """The end of what it wrote to standard error, on one line."""
        return " ".join(bytes(self._errors).decode(errors="replace").split())[-300:]

    async def has_ended(self, within_s: float) -> bool:
        """Whether it has ended, or ends within these seconds; all its errors are read then."""
        if self._process is None:
            return False
        with anyio.move_on_after(within_s):
            await self._process.wait()
            await self._errors_read.wait()
        return self._process.returncode is not None

    async def _start(self, scratch: str) -> Process:
        command = [part.replace(SCRATCH, scratch) for part in self._command]
        inherited = {*_INHERITED, *self._environment}
        environment = {name: os.environ[name] for name in inherited if name in os.environ}
        environment |= {"TMPDIR": scratch, **self._variables}
        return await anyio.open_process(
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            cwd=self._folder,
            start_new_session=True,
        )

    async def _read(self, process: Process, to_us: _Incoming) -> None:
        """Pass on each line of its output as a message. Other lines, such as a greeting, are kept
        with its errors; a message that cannot be read, or exceeds the limit, closes the
        connection: nobody would answer the request that it belongs to."""
        assert process.stdout is not None
        pending = bytearray()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async with to_us:
                async for chunk in process.stdout:
                    pending += chunk
                    if len(pending) > _MAX_LINE:
                        self._unreadable = f"it sent a line of more than {_MAX_LINE:,} bytes"
                        return
                    *lines, rest = pending.split(b"\n") if b"\n" in chunk else (pending,)
                    pending = bytearray(rest)
                    for line in filter(bytes.strip, map(bytes, lines)):
                        messages = read_messages(line)
                        if not messages:
                            self._errors.extend(line + b"\n")
                        elif fault := next(filter(None, map(_fault, messages)), ""):
                            start = shortened(line.decode(errors="replace"), _MAX_QUOTE)
                            self._unreadable = f"it sent {fault}: {start}"
                            return
                        for message in messages:
                            await to_us.send(message)
                self._has_closed = True

    async def _read_errors(self, stream: ByteReceiveStream | None) -> None:
        """Keep the end of its standard error; never let that pipe fill up."""
        assert stream is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for chunk in stream:
                self._errors.extend(chunk)
        self._errors_read.set()


def _fault(message: SessionMessage | Exception) -> str:
    """Why nobody would get an answer after a message; empty: the message is fine."""
    if isinstance(message, Exception):
        return "a message that cannot be read"
    inner = message.message
    if isinstance(inner, mcp_types.JSONRPCError) and inner.id is None:
        return "an error that belongs to no request"
    return ""


async def _write(process: Process, to_it: _Outgoing, to_us: _Incoming) -> None:
    assert process.stdin is not None
    try:
        async for message in to_it:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        to_us.close()  # otherwise a task that waits for an answer would wait forever


async def _end(process: Process) -> None:
    """End it as MCP specifies: close its input, then SIGTERM, then SIGKILL; with its children."""
    descendants = _descendants(process.pid)
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.aclose()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            _signal_group(process.pid, number)
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
            break
    _signal_group(process.pid, signal.SIGKILL)
    for child in descendants:
        with suppress(psutil.Error):  # it ended; psutil notices when its pid was reused
            child.kill()
    with anyio.move_on_after(_GRACE_S):
        while any(map(_is_running, descendants)):  # noqa: ASYNC110 - none of them is our child
            await anyio.sleep(0.005)
    await process.aclose()


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(group, number)

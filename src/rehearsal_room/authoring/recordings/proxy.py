"""Stand between an MCP client and its server: every byte is passed on, and read along.

The server has our standard error, folder, environment and process group. Where the client closes
our input, the server's input is closed; where the server ends, we end as it did. A signal to us
goes on to the server.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rehearsal_room.authoring.recordings.recorder import Lines, Recorder
from rehearsal_room.scenarios.errors import PackageError

_CHUNK = 1 << 16
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 1.0  # seconds that a server has to end when nobody reads it any more, and after SIGTERM
_LOOK_S = 0.1
Observe = Callable[[bytes], None]


def record(
    path: Path,
    command: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
    recorded_command: Sequence[str] | None = None,
) -> int:
    """Run a server between our standard input and output until it ends, and record the session.

    `variables` are added to the server's environment, `folder` is its working directory;
    `recorded_command` stands in the recording in the command's place. Returns its status as
    subprocess has it. Raises PackageError.
    """
    recorder = Recorder(path, recorded_command or command)
    status = -1
    try:
        try:
            server = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, **variables} if variables else None,
                cwd=folder,
            )
        except OSError as exc:
            raise PackageError(f"the server {command[0]!r} cannot start: {exc.strerror}") from exc
        with _signals_for(server):
            threading.Thread(target=_to_server, args=(server, recorder), daemon=True).start()
            _to_client(server, recorder)
            status = server.wait()
    finally:
        recorder.close(status)
    return status


def end_like(status: int) -> None:
    """End this process as the server ended: with its status, or by its signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status < 0:
        with suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)  # the thread that reads our input may wait for it forever


def _to_server(server: subprocess.Popen[bytes], recorder: Recorder) -> None:
    """Pass on what the client sends, until it closes our input or the server its own."""
    assert server.stdin is not None
    is_open = _pass_on(0, server.stdin.fileno(), recorder.from_client)
    with suppress(OSError):
        server.stdin.close()
    if is_open:
        _end_when_unread(server)
    else:
        os.close(0)  # the client's next write fails, as it would without us


def _to_client(server: subprocess.Popen[bytes], recorder: Recorder) -> None:
    """Pass on what the server sends, until it closes its output or the client ours."""
    output: IO[bytes] | None = server.stdout
    assert output is not None
    _pass_on(output.fileno(), 1, recorder.from_server)
    output.close()  # the server's next write fails, as it would without us
    with suppress(OSError):
        os.close(1)


def _pass_on(source: int, target: int, observe: Observe) -> bool:
    """Copy until the source ends (True) or the target is closed (False)."""
    lines = Lines()
    while True:
        try:
            data = os.read(source, _CHUNK)
        except OSError:
            return True
        if not data:
            return True
        for line in lines.feed(data):  # first: an answer must not overtake its request
            observe(line)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(target, rest) :]
        except OSError:
            return False


def _end_when_unread(server: subprocess.Popen[bytes]) -> None:
    """End a server that goes on after the client has closed our input and our output: a client that
    still reads gets every answer."""
    watch = select.poll()
    watch.register(1, 0)  # only whether nobody reads it
    while server.poll() is None:
        try:
            if watch.poll(0):
                break
        except OSError:
            break
        time.sleep(_LOOK_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + _GRACE_S
        while server.poll() is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
        if server.poll() is None:
            server.send_signal(number)


@contextmanager
def _signals_for(server: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals to us go on to the server while it runs."""

    def pass_on(number: int, _frame: object) -> None:
        with suppress(OSError):
            server.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Processes that start at once: a warm process has imported everything and forks one for each job.

Starting `python -m harness train` costs seconds of imports (torch, transformers). Tests that start,
kill and restart commands many times ask a warm process instead. It imports the modules that it is
given, starts no thread, and forks a child for each job. The child runs the job's function like a
fresh interpreter, with its own arguments, environment, output file and signal handlers, until it
exits or is killed. All children have the same hash seed; a test that compares runs should make one
of them in another process.

    python -m tests.support.warm_process MODULE...
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec


class Job(msgspec.Struct, frozen=True):
    """The work of one child."""

    module: str
    function: str  # of the module; it is called without arguments
    arguments: tuple[str, ...]  # sys.argv without the program
    output: str  # a file for standard output and standard error
    environment: dict[str, str] = {}  # added to the warm process's own
    is_whole: bool = False  # the environment replaces the warm process's own
    folder: str = ""  # the working directory; empty: the warm process's own


class Child:
    """A running child, with the methods of subprocess.Popen that tests need."""

    def __init__(self, pid: int, statuses: Mapping[int, int], receive: Callable[[float], None]):
        self.pid = pid
        self._statuses = statuses
        self._receive = receive

    def poll(self) -> int | None:
        """The exit status, or the negative number of the signal that killed it; None: it runs."""
        self._receive(0.0)
        return self._statuses.get(self.pid)

    def wait(self, timeout: float = 120.0) -> int:
        """Wait for the end; returns the status. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the child {self.pid} is still running after {timeout:g} s")
            self._receive(0.1)
        return status

    def kill(self) -> None:
        """Send SIGKILL, if the child is still running."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal, if the child is still running."""
        if self.poll() is None:
            os.kill(self.pid, number)


class WarmProcess:
    """The client of a running warm process; see `open_warm_process`."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers.fileno()
        self._statuses: dict[int, int] = {}

    def start(self, job: Job) -> Child:
        """Fork a child that runs the job."""
        self._commands.write(msgspec.json.encode(job) + b"\n")
        self._commands.flush()
        while "pid" not in (answer := self.read()):
            self._statuses[answer["ended"]] = answer["status"]
        # The system gives numbers again: an earlier child may have had this one.
        self._statuses.pop(answer["pid"], None)
        return Child(answer["pid"], self._statuses, self._receive)

    def start_command(self, *arguments: object, output: Path, folder: str = "") -> Child:
        """Fork a child that runs `rehearse` with these arguments and this process's environment, in
        a working directory. `output` gets its standard output and error, and is empty when this
        returns."""
        output.write_bytes(b"")
        words = tuple(map(str, arguments))
        environment = dict(os.environ)
        return self.start(
            Job("rehearsal_room.cli.main", "main", words, str(output), environment, True, folder)
        )

    def read(self) -> dict[str, int]:
        """The next answer. Raises RuntimeError when the warm process has ended."""
        line = _read_line(self._answers)
        if not line:
            raise RuntimeError("the warm process has ended; see its errors on standard error")
        answer: dict[str, int] = json.loads(line)
        return answer

    def _receive(self, seconds: float) -> None:
        """Read the statuses that arrive within this time."""
        while select.select([self._answers], [], [], seconds)[0]:
            answer = self.read()
            self._statuses[answer["ended"]] = answer["status"]
            seconds = 0.0


@contextmanager
def open_warm_process(*modules: str) -> Iterator[WarmProcess]:
    """Start a warm process with these modules. At the end of the block it ends, and kills the
    children that still run."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm_process", *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert server.stdin is not None and server.stdout is not None
    with server, server.stdin:
        warm = WarmProcess(server.stdin, server.stdout)
        warm.read()  # the server is ready
        yield warm


def torchrun_environment(rank: int, size: int, port: int) -> dict[str, str]:
    """The environment of one of torchrun's processes on a single machine."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    values = (rank, rank, size, size, "127.0.0.1", port)
    return dict(zip(names, map(str, values), strict=True))


def serve() -> Job | None:
    """Fork a child for each job on standard input. Returns in a child its job, and in the server
    None at the end of the input."""
    children: set[int] = set()
    wake, _ = _wake_on_child()
    _send({"ready": 1})
    while True:
        readable, _, _ = select.select([0, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        _reap(children)
        if 0 not in readable:
            continue
        line = _read_line(0)
        if not line:
            for child in children:
                os.kill(child, signal.SIGKILL)
            return None
        job = msgspec.json.decode(line, type=Job)
        pid = os.fork()
        if not pid:
            return job
        children.add(pid)
        _send({"pid": pid})


def _wake_on_child() -> tuple[int, int]:
    """A pipe that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reader, writer


def _reap(children: set[int]) -> None:
    for child in tuple(children):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            children.discard(child)
            _send({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _read_line(descriptor: int) -> bytes:
    """The next line, read without a buffer, so that `select` sees the rest; empty: the end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            return b""
        line += byte
    return bytes(line)


def _send(message: Mapping[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def run(job: Job) -> None:
    """Run a job in this process, which is a fresh child."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(job.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    if job.is_whole:
        os.environ.clear()
    os.environ.update(job.environment)
    if job.folder:
        os.chdir(job.folder)
    sys.argv = [job.module, *job.arguments]
    getattr(importlib.import_module(job.module), job.function)()


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # so that collections in the children do not copy the shared memory
    job = serve()
    if job is None:
        os._exit(0)  # there is nothing to clean up, and to unload torch takes seconds
    try:
        run(job)
        code: object = None
    except SystemExit as ended:
        code = ended.code
    if code is not None and not isinstance(code, int):
        raise SystemExit(code)
    _leave(code or 0)


def _leave(status: int) -> None:
    """End this process as an interpreter does, without unloading modules: torch's take 0.7 s."""
    threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing's children do
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()

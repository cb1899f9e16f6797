"""The command line in processes of their own that start at once: they are forked from a process
that has imported everything already, and may be killed or interrupted.

The process they are forked from has one thread, so a fork there is safe; the tests' own process has
servers in threads. A SIGINT interrupts a command even where the test run itself ignores it (as a
shell's background jobs do): children would inherit that.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from harness.cli import main

_context = get_context("forkserver")
_context.set_forkserver_preload(["harness.cli", __name__])


class WarmCommand:
    """A command that runs; `status` and `errors` are known when it has ended."""

    def __init__(self, process: ForkServerProcess, errors: Path) -> None:
        self._process = process
        self._errors = errors

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to it."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def status(self, timeout: float = 60) -> int:
        """Its exit status, or the negative number of the signal that ended it."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"it has not ended within {timeout:g} s"
        return self._process.exitcode

    def errors(self) -> str:
        """Its standard error so far."""
        return self._errors.read_text(encoding="utf-8")


@contextmanager
def command(*arguments: object) -> Iterator[WarmCommand]:
    """`rehearse` with these arguments, for as long as the block; then it is killed."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        errors.touch()
        words = [str(argument) for argument in arguments]
        process = _context.Process(target=_run, args=(words, str(errors), dict(os.environ)))
        process.start()
        try:
            yield WarmCommand(process, errors)
        finally:
            process.kill()
            process.join()
            process.close()


def run(*arguments: object) -> None:
    """`rehearse` with these arguments, to its end. AssertionError when it fails."""
    with command(*arguments) as running:
        status = running.status()
        assert status == 0, running.errors()


def _run(words: list[str], errors: str, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    file = os.open(errors, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["rehearse", *words]
    main()

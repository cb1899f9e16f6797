"""Commands run in children of a warm process: it has imported the command line once, and forks a
child for each command, which may be killed at any moment.

    with WarmProcess() as warm:
        victim = warm.start("run", "shop_support", output=file)
        victim.kill()                           # SIGKILL
        assert victim.wait() == -signal.SIGKILL

A fork takes milliseconds where a fresh interpreter takes a second. The warm process runs no event
loop and starts no thread, so a child is in the state of an interpreter that has just imported.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Self


class Victim:
    """One command in its child process."""

    def __init__(self, warm: "WarmProcess", pid: int) -> None:
        self._warm = warm
        self.pid = pid

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        if self.poll() is None:  # not reaped, so its number is still its own
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._warm.ask({"poll": self.pid})

    def wait(self) -> int:
        """Its exit status, negative for a signal, once it has ended."""
        status = self._warm.ask({"wait": self.pid})
        assert status is not None
        return status


class WarmProcess:
    """The warm process; `with` starts and ends it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.support.warm_process"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        pipe.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def start(self, *arguments: object, output: Path) -> Victim:
        """Start a command of `rehearse`; its standard output and error go to a file, which is
        empty when this returns."""
        output.write_bytes(b"")
        pid = self.ask({"start": list(map(str, arguments)), "output": str(output)})
        assert pid is not None
        return Victim(self, pid)

    def ask(self, request: dict[str, object]) -> int | None:
        """One request and its reply."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        reply: int | None = json.loads(self._process.stdout.readline())
        return reply


def _serve(requests: IO[str], replies: IO[str]) -> None:
    from harness import cli  # the import that makes the process warm

    statuses: dict[int, int] = {}  # of children that were reaped
    while line := requests.readline():
        request = json.loads(line)
        reply: int | None
        if "start" in request:
            reply = _fork(cli.main, request["start"], request["output"])
        else:
            reply = _status(statuses, *request.popitem())
        print(json.dumps(reply), file=replies, flush=True)


def _fork(main: Callable[[], None], arguments: Sequence[str], output: str) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with open(output, "ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = ["rehearse", *arguments]
        main()
        status = 0
    except SystemExit as exc:
        status = int(exc.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status(statuses: dict[int, int], how: str, child: int) -> int | None:
    if child not in statuses:
        pid, status = os.waitpid(child, os.WNOHANG if how == "poll" else 0)
        if pid:
            statuses[child] = os.waitstatus_to_exitcode(status)
    return statuses.get(child)


if __name__ == "__main__":
    _serve(sys.stdin, sys.stdout)

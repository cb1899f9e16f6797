"""Trying the sandbox: a few forbidden acts by processes that are confined as workers are.

Each act is made in a process of its own, without the audit hook, so that the kernel alone answers.
It is a short look at one machine; `tests/support/promises.py` tries every promise at every level.

`python -m rehearsal_room.envpool.workers.trial LEVEL SCRATCH OUTSIDE` is the program inside of
bubblewrap.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers.confine import Confinement
from rehearsal_room.envpool.workers.sandbox import WorkerLimits, bubblewrap, environment, layers_of

ACTS: dict[str, Callable[[str], object]] = {
    "read a file outside": lambda outside: Path(outside).read_bytes(),
    "write a file outside": lambda outside: Path(f"{outside}.new").write_bytes(b""),
    "open a network socket": lambda outside: socket.socket().close(),
    "start a process": lambda outside: os.waitpid(
        os.spawnl(os.P_NOWAIT, "/bin/true", "true"),  # nosec B606: the sandbox has to refuse it
        0,
    ),
}
_IN_BUBBLEWRAP = "/scratch"
_SECONDS = 30


def try_acts(level: str) -> dict[str, bool]:
    """Act -> whether the kernel refused it to a process that is confined at this level. Raises
    PoolError where no process can be confined so."""
    with tempfile.TemporaryDirectory(prefix="rehearsal-trial-") as folder:
        outside = Path(folder, "outside")
        outside.write_bytes(b"not for workers")
        is_wrapped = "bubblewrap" in layers_of(level)
        scratch = _IN_BUBBLEWRAP if is_wrapped else os.path.join(folder, "scratch")
        if not is_wrapped:
            os.mkdir(scratch)
        words = ("-m", "rehearsal_room.envpool.workers.trial", level, scratch, str(outside))
        command = [sys.executable, *words]
        try:
            done = subprocess.run(
                bubblewrap(scratch, command) if is_wrapped else command,
                env=environment(scratch),
                cwd="/",
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise PoolError(f"sandbox {level!r}: the trial does not run: {exc}") from exc
    if done.returncode:
        fault = (done.stderr.strip().splitlines() or ["it wrote no error"])[-1]
        raise PoolError(f"sandbox {level!r} cannot be applied: {fault}")
    refused: dict[str, bool] = json.loads(done.stdout)
    return refused


def _is_refused(confinement: Confinement, scratch: str, act: Callable[[], object]) -> bool:
    """Whether an act fails in a child that is confined. Raises PoolError when the child cannot be
    confined."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        own = os.path.join(scratch, str(os.getpid()))
        os.mkdir(own)
        os.chdir(own)
        confinement.apply(own)
        os.write(writer, b"C")  # confined
        try:
            act()
        except OSError:
            os.write(writer, b"R")  # refused
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    with open(reader, "rb") as pipe:
        answer = pipe.read()
    if not answer.startswith(b"C"):
        raise PoolError("a process ended before it was confined")
    return answer == b"CR" or os.waitstatus_to_exitcode(status) < 0


def main(level: str, scratch: str, outside: str) -> None:
    """Try all acts and print what came of them as JSON."""
    confinement = Confinement(level, WorkerLimits())
    refused = {
        name: _is_refused(confinement, scratch, partial(act, outside)) for name, act in ACTS.items()
    }
    sys.stdout.write(json.dumps(refused))


if __name__ == "__main__":
    main(*sys.argv[1:])

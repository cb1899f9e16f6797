"""The command `rehearse` as a user types it, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

_POLL_S = 0.5


class CommandError(Exception):
    """A command ended with a traceback or an unexpected status; the message has its last lines."""


async def rehearse(*arguments: str | Path, status: int | None = 0) -> str:
    """What a command writes to standard output. Raises CommandError for a traceback, and for
    another status than `status` (None: any but 2, which reports a usage error)."""
    command = _command(arguments)
    done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    is_expected = done.returncode in (0, 1) if status is None else done.returncode == status
    if "Traceback (most recent call last)" in text or not is_expected:
        raise CommandError(f"{' '.join(command[3:])}: {done.returncode}\n{text[-3000:]}")
    return text


async def rehearse_json(*arguments: str | Path, into: Path) -> Any:
    """The result of a command as JSON, of whatever status its result gives it."""
    await rehearse(*arguments, "--json", into, status=None)
    return json.loads(await anyio.Path(into).read_text())


async def kill_when(
    is_due: Callable[[], bool], *arguments: str | Path, output: Path, limit_s: float
) -> None:
    """Start a command and kill it (SIGKILL), with all its processes, as soon as `is_due`. Raises
    CommandError where it ends before that, or nothing is due within `limit_s`."""
    with output.open("ab") as log:
        process = await anyio.open_process(
            _command(arguments), stdout=log, stderr=log, start_new_session=True
        )
    began = time.monotonic()
    try:
        while not is_due():
            if process.returncode is not None or time.monotonic() - began > limit_s:
                raise CommandError(f"nothing to kill; see {output}")
            await anyio.sleep(_POLL_S)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.wait()


def _command(arguments: tuple[str | Path, ...]) -> list[str]:
    return [sys.executable, "-m", "rehearsal_room", *map(str, arguments)]

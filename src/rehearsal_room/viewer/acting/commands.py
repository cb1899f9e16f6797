"""Commands of `rehearse` that a page starts, each in a process of its own: the page shows the same.

The command line decides what it may use (see harness.setup.run_trust), and the key is that of the
environment; it is not passed on to a server that the page alone names.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Annotated, NamedTuple

import anyio
import msgspec
from anyio.abc import ByteReceiveStream

from rehearsal_room.harness.policies.openai import OPENAI_URL
from rehearsal_room.harness.settings.run import saved
from rehearsal_room.harness.setup.run_trust import RUN_FILE, counts

_GRACE_S = 10.0  # for a command that is terminated to finish its log
_KEPT_WORDS = 4_000  # characters of what the command says that are kept
_MOST_WRITTEN = 16_000_000  # bytes of its standard output
# What a page may put into a command line.
Word = Annotated[str, msgspec.Meta(max_length=400, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Said(NamedTuple):
    """What a command that is over has written."""

    out: bytes  # standard output
    error: str  # why it failed, in a sentence; empty: it did not


def environment_of(folder: Path, base_url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command on a run: its key is for the server of the environment and for
    that of a run which the user began, and for no server that the page alone names (`base_url`;
    empty: it names none)."""
    known = {environment.get("OPENAI_BASE_URL") or OPENAI_URL, OPENAI_URL}
    began = folder / RUN_FILE
    if began.is_file() and counts(began):
        known.add(saved(began).model.base_url)
    is_known = not base_url or base_url.rstrip("/") in {one.rstrip("/") for one in known}
    keyless = () if is_known else ("OPENAI_API_KEY",)
    return {name: value for name, value in environment.items() if name not in keyless}


async def run_command(words: Sequence[str], environment: Mapping[str, str]) -> Said:
    """Run `rehearse` with these words to its end. Where the task is cancelled first, the command is
    terminated."""
    # -P: the current folder, which may be that of the run, holds no modules.
    command = [sys.executable, "-P", "-m", "rehearsal_room", *words]
    kept = {"out": bytearray(), "said": bytearray()}

    async def read(stream: ByteReceiveStream, name: str, most: int) -> None:
        async for data in stream:
            kept[name] += data
            del kept[name][:-most]

    try:
        async with await anyio.open_process(
            command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment
        ) as process:
            try:
                assert process.stderr is not None and process.stdout is not None
                async with anyio.create_task_group() as readers:
                    readers.start_soon(read, process.stdout, "out", _MOST_WRITTEN)
                    readers.start_soon(read, process.stderr, "said", 4 * _KEPT_WORDS)
                status = await process.wait()
            except BaseException:
                process.terminate()
                with anyio.move_on_after(_GRACE_S, shield=True):
                    await process.wait()
                    raise
                process.kill()
                raise
    except OSError as exc:
        return Said(b"", f"the command did not start: {exc}")
    said = kept["said"].decode("utf-8", "replace")[-_KEPT_WORDS:]
    return Said(bytes(kept["out"]), _failure(said) if status else "")


def _failure(said: str) -> str:
    """What a command that failed says last.

    Example: "… Error: model 'm' at http://…: status 401: no\\n" -> "model 'm' at …: status 401: no"
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    at = max((n for n, line in enumerate(lines) if line.startswith("Error: ")), default=-1)
    if at < 0:
        return lines[-1] if lines else "the command failed"
    return " ".join(lines[at:]).removeprefix("Error: ")

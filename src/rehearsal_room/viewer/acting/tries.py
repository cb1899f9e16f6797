"""Tries: episodes that go on from a turn of a logged one, which somebody may have edited.

They are a run of their own, made by `rehearse run --from … --edit …` in a process of its own: the
page shows the same command. The command line decides what it may use (see harness.setup.run_trust),
and the key is that of the environment; it is not passed on to a server that the page alone names.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Annotated, Literal

import anyio
import anyio.abc
import msgspec

from rehearsal_room.harness.continuation.edits import Edit
from rehearsal_room.harness.continuation.forks import check_fork
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.openai import OPENAI_URL
from rehearsal_room.harness.settings.run import Settings, saved
from rehearsal_room.harness.setup.run_folder import fresh_folder
from rehearsal_room.harness.setup.run_trust import RUN_FILE, counts
from rehearsal_room.harness.setup.trusted_folders import trusts_run_folders
from rehearsal_room.viewer.acting.scratch import ScratchOrigin
from rehearsal_room.viewer.reading.open_runs import NotHereError

_MAX_EDIT = 100_000  # bytes: a command line holds no more in one argument
_GRACE_S = 10.0  # for a command that is terminated to finish its log
_KEPT_WORDS = 4_000  # characters of what the command says that are kept
_WORD = Annotated[str, msgspec.Meta(max_length=400, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Going(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to go on from a turn."""

    edit: Edit = Edit()
    tries: Annotated[int, msgspec.Meta(ge=1, le=64)] = 5
    policy: Literal["", "oracle", "openai"] = ""  # empty: that of the run
    model: _WORD = ""  # of policy openai
    base_url: _WORD = ""  # empty: that of the run, or of the environment


class Tries(msgspec.Struct, kw_only=True):
    """A command that plays tries."""

    id: str
    origin: ScratchOrigin
    tries: int
    command: str
    folder: Path
    is_over: bool = False
    error: str = ""  # what the command said when it failed


def fault_of(origin: ScratchOrigin, going: Going) -> str:
    """Why the command line would not go on so, in a sentence; empty: it does."""
    logged = origin.trajectory
    if logged is None:
        return "a world that was opened at the start of a task has no episode to go on from"
    if going.policy == "openai" and not going.model:
        return "name the model that is to go on"
    if len(_edit_words(going.edit)) > _MAX_EDIT:
        return f"the edit is longer than {_MAX_EDIT:,} bytes; give it as a file: --edit FILE"
    began = origin.folder / RUN_FILE
    try:
        settings = saved(began) if began.is_file() else Settings()
        settings = msgspec.structs.replace(
            settings, forked_from=_fork_of(origin), edit=_edit_words(going.edit)
        )
        check_fork(logged, settings, [(origin.scenario, origin.scenario.task(origin.task))])
    except SettingsError as exc:
        return str(exc)
    return ""


def words_of(origin: ScratchOrigin, going: Going) -> list[str]:
    """The command, without the folder of the new run."""
    words = ["rehearse", "run", "--from", _fork_of(origin)]
    if edit := _edit_words(going.edit):
        words += ["--edit", edit]
    words += ["-g", str(going.tries)]
    if going.policy:
        words += ["-p", going.policy]
    if going.policy == "openai":
        words += ["-m", going.model]
        if going.base_url:
            words += ["--base-url", going.base_url]
    return [*words, "--trust-run"] if trusts_run_folders() else words


def environment_of(
    origin: ScratchOrigin, going: Going, environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the command: its key is for the server of the environment and for that of
    a run which the user began, and for no server that the page alone names."""
    known = {environment.get("OPENAI_BASE_URL") or OPENAI_URL, OPENAI_URL}
    began = origin.folder / RUN_FILE
    if began.is_file() and counts(began):
        known.add(saved(began).model.base_url)
    is_known = not going.base_url or going.base_url.rstrip("/") in {
        one.rstrip("/") for one in known
    }
    keyless = () if is_known else ("OPENAI_API_KEY",)
    return {name: value for name, value in environment.items() if name not in keyless}


class PlayedTries:
    """The commands that were started, by their ids."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._started: dict[str, Tries] = {}

    def start(self, origin: ScratchOrigin, going: Going) -> Tries:
        """Start a command that `fault_of` has nothing against."""
        settings = Settings(scenarios=(f"{origin.scenario.name}-tries",))
        taken = {one.folder for one in self._started.values()}
        folder = _free(fresh_folder(settings).absolute(), taken)
        words = words_of(origin, going)
        tries = Tries(
            id=f"{folder.name}-{len(self._started)}",
            origin=origin,
            tries=going.tries,
            command=shlex.join(words),
            folder=folder,
        )
        self._started[tries.id] = tries
        environment = environment_of(origin, going, os.environ)
        self._group.start_soon(_play, tries, [*words[1:], "-o", str(folder)], environment)
        return tries

    def get(self, name: str) -> Tries:
        """The tries of an id. Raises NotHereError."""
        if name not in self._started:
            raise NotHereError("these tries were started by another viewer; their run is in ./runs")
        return self._started[name]


async def _play(tries: Tries, words: Sequence[str], environment: dict[str, str]) -> None:
    """Run the command to its end. Where the viewer ends first, the command is terminated, and its
    run can be resumed."""
    command = [sys.executable, "-m", "rehearsal_room", *words]
    said = ""
    try:
        async with await anyio.open_process(
            command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, env=environment
        ) as process:
            try:
                assert process.stderr is not None
                async for data in process.stderr:
                    said = (said + data.decode("utf-8", "replace"))[-_KEPT_WORDS:]
                status = await process.wait()
            except BaseException:
                process.terminate()
                with anyio.move_on_after(_GRACE_S, shield=True):
                    await process.wait()
                    raise
                process.kill()
                raise
        tries.error = _failure(said) if status else ""
    except OSError as exc:
        tries.error = f"the command did not start: {exc}"
    finally:
        tries.is_over = True


def _failure(said: str) -> str:
    """What a command that failed says last.

    Example: "… Error: model 'm' at http://…: status 401: no\\n" -> "model 'm' at …: status 401: no"
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    at = max((n for n, line in enumerate(lines) if line.startswith("Error: ")), default=-1)
    if at < 0:
        return lines[-1] if lines else "the command failed"
    return " ".join(lines[at:]).removeprefix("Error: ")


def _free(folder: Path, taken: set[Path]) -> Path:
    """The folder, or the next one that no command is about to make."""
    stem, _, number = folder.name.rpartition("-")
    count = int(number)
    while folder in taken or folder.exists():
        count += 1
        folder = folder.with_name(f"{stem}-{count}")
    return folder


def _fork_of(origin: ScratchOrigin) -> str:
    assert origin.trajectory is not None
    return f"{origin.folder}/{origin.trajectory.episode}@{origin.turn}"


def _edit_words(edit: Edit) -> str:
    return "" if edit == Edit() else msgspec.json.encode(edit).decode()

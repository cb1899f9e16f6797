"""Tries: episodes that go on from a turn of a logged one, which somebody may have edited.

They are a run of their own, made by `rehearse run --from … --edit …` (see viewer.acting.commands).
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import anyio.abc
import msgspec

from rehearsal_room.harness.continuation.edits import Edit
from rehearsal_room.harness.continuation.forks import check_fork
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.run import Settings, saved
from rehearsal_room.harness.setup.run_folder import fresh_folder
from rehearsal_room.harness.setup.run_trust import RUN_FILE
from rehearsal_room.harness.setup.trusted_folders import trusts_run_folders
from rehearsal_room.viewer.acting.commands import Word, environment_of, run_command
from rehearsal_room.viewer.acting.scratch import ScratchOrigin
from rehearsal_room.viewer.reading.open_runs import NotHereError

_MAX_EDIT = 100_000  # bytes: a command line holds no more in one argument


class Going(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to go on from a turn."""

    edit: Edit = Edit()
    tries: Annotated[int, msgspec.Meta(ge=1, le=64)] = 5
    policy: Literal["", "oracle", "openai"] = ""  # empty: that of the run
    model: Word = ""  # of policy openai
    base_url: Word = ""  # empty: that of the run, or of the environment


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
        if settings.agent.target and not going.policy:
            return (
                "an agent of your own keeps its own memory, so it cannot begin after logged turns; "
                "let another model go on, or the task's solution"
            )
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
        environment = environment_of(origin.folder, going.base_url, os.environ)
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
    try:
        tries.error = (await run_command(words, environment)).error
    finally:
        tries.is_over = True


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

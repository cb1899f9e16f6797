"""Which turn of an episode is to blame, asked from its page: `rehearse failures blame` in a process
of its own (see viewer.acting.commands)."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Literal

import anyio.abc
import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.setup.trusted_folders import trusts_run_folders
from rehearsal_room.judge.blame.report import Blame
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.viewer.acting.commands import Word, environment_of, run_command
from rehearsal_room.viewer.reading.open_runs import NotHereError


class Blaming(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who plays the forks of each turn."""

    tries: Annotated[int, msgspec.Meta(ge=0, le=64)] = 8
    policy: Literal["", "oracle", "openai"] = ""  # empty: that of the run
    model: Word = ""  # of policy openai
    base_url: Word = ""  # empty: that of the run, or of the environment


class AskedBlame(msgspec.Struct, kw_only=True):
    """A command that looks for the turn."""

    id: str
    command: str
    is_over: bool = False
    error: str = ""  # what the command said when it failed
    found: Blame | None = None


def words_of(folder: Path, episode: str, blaming: Blaming) -> list[str]:
    """The command. Raises SettingsError."""
    if blaming.policy == "openai" and not blaming.model:
        raise SettingsError("name the model that is to play the forks")
    words = ["rehearse", "failures", "blame", f"{folder}/{episode}", "-n", str(blaming.tries)]
    if blaming.policy:
        words += ["-p", blaming.policy]
    if blaming.policy == "openai":
        words += ["-m", blaming.model]
        if blaming.base_url:
            words += ["--base-url", blaming.base_url]
    return [*words, "--trust-run"] if trusts_run_folders() else words


class AskedBlames:
    """The commands that were started, by their ids."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._started: dict[str, AskedBlame] = {}

    def start(self, folder: Path, episode: str, blaming: Blaming) -> AskedBlame:
        """Start a command. Raises SettingsError."""
        words = words_of(folder, episode, blaming)
        asked = AskedBlame(id=f"blame-{len(self._started)}", command=shlex.join(words))
        self._started[asked.id] = asked
        environment = environment_of(folder, blaming.base_url, os.environ)
        self._group.start_soon(_ask, asked, [*words[1:], "--json", "-"], environment)
        return asked

    def get(self, name: str) -> AskedBlame:
        """The command of an id. Raises NotHereError."""
        if name not in self._started:
            raise NotHereError("this was asked of another viewer; ask again on the episode's page")
        return self._started[name]


async def _ask(asked: AskedBlame, words: list[str], environment: dict[str, str]) -> None:
    try:
        said = await run_command(words, environment)
        asked.error = said.error
        if not said.error:
            asked.found = msgspec.json.decode(said.out, type=Blame)
    except UNREADABLE as exc:
        asked.error = f"what the command wrote cannot be read: {exc}"
    finally:
        asked.is_over = True

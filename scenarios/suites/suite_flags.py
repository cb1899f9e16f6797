"""Where a suite's data is, and what of the user's environment it may use."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rehearsal_room.scenarios.core.served_worlds import ServerSpec
from rehearsal_room.scenarios.suites.server_lists import read_servers


class SuiteFlags(msgspec.Struct, frozen=True):
    """What the user names: folder, interpreter, variables, and commands of servers."""

    folder: str = ""
    python: str = ""  # empty: ours
    variables: tuple[str, ...] = ()  # of the environment, which reach servers and checks
    server_list: str = ""  # file in MCP-Universe's format; its servers replace others by name
    model: str = ""  # the name of the model that attacks address
    prompts: bool = False  # whether instructions are the prompts of the suite's own agent
    tasks: str = ""  # folder of the tasks, where they are not in `folder`; empty: they are

    @property
    def servers(self) -> dict[str, ServerSpec]:
        """The user's own servers by name. Raises PackageError."""
        return read_servers(Path(self.server_list)) if self.server_list else {}

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """The values of those variables that the user has named and that are set."""
        named = [name for name in names if name in self.variables]
        return {name: os.environ[name] for name in named if os.environ.get(name)}

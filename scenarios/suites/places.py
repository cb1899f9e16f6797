"""Where a suite's data is, and what of the user's environment it may use."""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from scenarios.core.served_worlds import ServerSpec
from scenarios.errors import PackageError
from scenarios.suites.server_lists import read_servers


class SuitePlace(msgspec.Struct, frozen=True):
    """What the user names: folder, interpreter, variables, and commands of servers."""

    folder: str = ""
    python: str = ""  # empty: ours
    variables: tuple[str, ...] = ()  # of the environment, which reach servers and checks
    server_list: str = ""  # file in MCP-Universe's format; its servers replace others by name

    @property
    def servers(self) -> dict[str, ServerSpec]:
        """The user's own servers by name. Raises PackageError."""
        return read_servers(Path(self.server_list)) if self.server_list else {}

    def values_for(self, what: str, names: Iterable[str]) -> dict[str, str]:
        """The values of variables that something needs. Raises PackageError for one that the user
        has not named, or that is not set."""
        found = {}
        for name in names:
            if name not in self.variables:
                raise PackageError(
                    f"{what} needs the variable {name}: set it, and name it with --mcp-env {name}"
                )
            if not os.environ.get(name):
                raise PackageError(f"{what} needs the variable {name}, which is not set")
            found[name] = os.environ[name]
        return found

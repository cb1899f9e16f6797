"""What makes a scenario a world of an MCP server: the server, where its state is, how it starts.

    [server]
    command = "ops-mcp"                          # split like in a shell
    variables = { OPS_MCP_HOME = "{scratch}" }   # of its environment; may be left out
    environment = ["OPS_KEY"]                    # variables of yours that it inherits, by name
    [state]
    sqlite = "{scratch}/ops.db"                  # and/or folder = "{scratch}/files"
    ignore = ["call_log"]                        # tables that do not count as state
    [start]
    copy = "seed"                                # what {scratch} begins with, beside this file

`{scratch}` is a folder of one process, which begins as a copy of `start.copy`; `{world}` is the
package's folder.
"""

from pathlib import Path

import msgspec

SCRATCH, WORLD = "{scratch}", "{world}"


class ServerCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server, which is started for an episode and speaks over its standard streams."""

    command: str
    environment: tuple[str, ...] = ()  # variables that it inherits, besides PATH and the like
    variables: dict[str, str] = {}
    # Its random numbers and its clock follow from the scenario's clock and the number of the call.
    seeded: bool = True


class ServerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server keeps its state: paths that begin with {scratch}."""

    sqlite: str = ""
    folder: str = ""
    ignore: tuple[str, ...] = ()  # tables that do not count as state


class ServerStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What {scratch} begins with."""

    copy: str = ""  # a folder in the package; empty: nothing


class ServerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a scenario that takes the place of schema.sql, data.sql and tools.py."""

    server: ServerCommand
    state: ServerState
    start: ServerStart = ServerStart()

    def fault(self, folder: Path) -> str:
        """What is wrong, beginning with the field; empty: nothing."""
        if not self.server.command.strip():
            return "server.command: must not be empty"
        if not (self.state.sqlite or self.state.folder):
            return (
                "state: names neither sqlite nor folder; for a server whose state is in memory, "
                "write checks as tool calls and use `rehearse run --mcp` (docs/external-worlds.md)"
            )
        for field, path in (("sqlite", self.state.sqlite), ("folder", self.state.folder)):
            if path and not _is_in_scratch(path):
                return (
                    f"state.{field}: {path!r} is not below {SCRATCH}: each episode has files of "
                    "its own there"
                )
        copy = self.start.copy
        if copy and (Path(copy).is_absolute() or ".." in Path(copy).parts):
            return f"start.copy: {copy!r} is not a folder in the package"
        if copy and not (folder / copy).is_dir():
            return f"start.copy: there is no folder {folder / copy}"
        return ""


def _is_in_scratch(path: str) -> bool:
    rest = path.removeprefix(SCRATCH)
    inside = rest == "" or rest.startswith("/")
    return path.startswith(SCRATCH) and inside and ".." not in Path(rest).parts

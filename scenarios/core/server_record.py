"""What makes a scenario a world of an MCP server: the server, where its state is, how it starts.

    [server]                                     # or [[server]], each with a name
    command = "ops-mcp"                          # split like in a shell
    variables = { OPS_MCP_HOME = "{scratch}" }   # of its environment; may be left out
    environment = ["OPS_KEY"]                    # variables of yours that it inherits, by name
    [state]
    sqlite = "{scratch}/ops.db"                  # or several; and/or folder = "{scratch}/files"
    ignore = ["call_log"]                        # tables that do not count as state
    ignore_files = ["*.lock"]                    # files that do not, by their path in the folder
    journal = "wal"                              # its mode: a call's rows are found faster
    postgres = "postgresql://{PGUSER}@db.local"  # a PostgreSQL server: see below
    [start]
    copy = "seed"                                # what {scratch} begins with, beside this file
    postgres = "seed.sql"                        # a dump with which the database begins

`{scratch}` is a folder of one world, which its servers share, and which begins as a copy of
`start.copy`; `{world}` is the package's folder. The tables of several databases have the name of
their file in front: the table `notes` of crm.db is `crm_notes`.

On a PostgreSQL server, `state.postgres`, each world has a database of its own, which is made from
`start.postgres`: SQL as pg_dump writes it, or its custom format. The server finds it as
`{postgres}`, a URL, and `{database}`, a name, in its command and its variables. Other words in
braces are variables of yours: `{PGPASSWORD}`. A table of another schema than `public` has the
schema's name in front.
"""

from pathlib import Path
from typing import Literal

import msgspec

SCRATCH, WORLD = "{scratch}", "{world}"
_MAX_SETTLE_MS = 60_000
POSTGRES, DATABASE = "{postgres}", "{database}"


class ServerCommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server, which is started for an episode and speaks over its standard streams."""

    command: str
    name: str = ""  # in front of tools that another server has, too
    environment: tuple[str, ...] = ()  # variables that it inherits, besides PATH and the like
    variables: dict[str, str] = {}
    # Its random numbers and its clock follow from the scenario's clock and the number of the call.
    seeded: bool = True
    # Who answers what it asks during a call (elicitation, sampling).
    ask: Literal["refuse", "user", "model"] = "refuse"
    resources: bool = False  # whether there are tools for its resources and prompts


class ServerState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server keeps its state: paths that begin with {scratch}."""

    sqlite: str | tuple[str, ...] = ()
    folder: str = ""
    ignore: tuple[str, ...] = ()  # tables that do not count as state
    ignore_files: tuple[str, ...] = ()  # patterns of paths in the folder that do not count
    settle_ms: int = 0  # to wait after each answer: for a server that answers before it writes
    postgres: str = ""  # the address of a PostgreSQL server, on which databases are made
    # "wal": its databases keep a write-ahead log, in which a call's rows are found faster.
    journal: Literal["", "wal"] = ""

    @property
    def databases(self) -> tuple[str, ...]:
        """The paths of its databases."""
        return (self.sqlite,) if isinstance(self.sqlite, str) else self.sqlite


class ServerStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What {scratch} and the PostgreSQL database begin with."""

    copy: str = ""  # a folder in the package; empty: nothing
    postgres: str = ""  # a dump in the package; empty: nothing


class ServerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a scenario that takes the place of schema.sql, data.sql and tools.py."""

    servers: tuple[ServerCommand, ...]
    state: ServerState
    start: ServerStart = ServerStart()

    @property
    def commands(self) -> str:
        """The commands of its servers, to be shown."""
        return ", ".join(server.command for server in self.servers)

    def fault(self, folder: Path) -> str:
        """What is wrong, beginning with the field; empty: nothing."""
        if not self.servers:
            return "server: there is none"
        for server in self.servers:
            if not server.command.strip():
                return "server.command: must not be empty"
        databases = self.state.databases
        if not (databases or self.state.folder or self.state.postgres):
            return (
                "state: names neither sqlite nor folder nor postgres; for a server whose state is "
                "in memory, write checks as tool calls and use `rehearse run --mcp` "
                "(docs/external-worlds.md)"
            )
        if self.state.journal and not databases:
            return "state.journal: there is no state.sqlite"
        if self.state.ignore_files and not self.state.folder:
            return "state.ignore_files: there is no state.folder"
        if not 0 <= self.state.settle_ms <= _MAX_SETTLE_MS:
            return f"state.settle_ms: {self.state.settle_ms} is not in 0 to {_MAX_SETTLE_MS}"
        stems = [Path(path).stem for path in databases]
        if len(set(stems)) < len(stems):
            return "state.sqlite: two databases have one name, which is in front of their tables"
        places = [*(("sqlite", path) for path in databases), ("folder", self.state.folder)]
        for field, path in places:
            if (path or field == "sqlite") and not _is_in_scratch(path):
                return (
                    f"state.{field}: {path!r} is not below {SCRATCH}: each episode has files of "
                    "its own there"
                )
        copy = self.start.copy
        if copy and (Path(copy).is_absolute() or ".." in Path(copy).parts):
            return f"start.copy: {copy!r} is not a folder in the package"
        if copy and not (folder / copy).is_dir():
            return f"start.copy: there is no folder {folder / copy}"
        return self._postgres_fault(folder)

    def _postgres_fault(self, folder: Path) -> str:
        address, dump = self.state.postgres, self.start.postgres
        if address and not address.startswith(("postgresql://", "postgres://")):
            return f"state.postgres: {address!r} does not begin with postgresql://"
        if address and not any(self._names_database(server) for server in self.servers):
            return f"state.postgres: no server has {POSTGRES} or {DATABASE} in command or variables"
        if dump and not address:
            return "start.postgres: there is no state.postgres"
        if dump and (Path(dump).is_absolute() or ".." in Path(dump).parts):
            return f"start.postgres: {dump!r} is not a file in the package"
        if dump and not (folder / dump).is_file():
            return f"start.postgres: there is no file {folder / dump}"
        return ""

    @staticmethod
    def _names_database(server: ServerCommand) -> bool:
        texts = (server.command, *server.variables.values())
        return any(word in text for text in texts for word in (POSTGRES, DATABASE))


def _is_in_scratch(path: str) -> bool:
    rest = path.removeprefix(SCRATCH)
    inside = rest == "" or rest.startswith("/")
    return path.startswith(SCRATCH) and inside and ".." not in Path(rest).parts

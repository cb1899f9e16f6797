"""Where the servers of one world have their files: a folder that begins as a copy of its seed."""

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.mcp_state.log_mode import keep_log
from rehearsal_room.envpool.mcp_worlds.databases import ProcessDatabase
from rehearsal_room.scenarios.core.server_record import (
    DATABASE,
    POSTGRES,
    SCRATCH,
    WORLD,
    ServerCommand,
)
from rehearsal_room.scenarios.format import Scenario


class Places:
    """The folders of one process, below `folder`, which belongs to it alone, and its database on a
    PostgreSQL server, if there is one."""

    def __init__(
        self, scenario: Scenario, folder: Path, postgres: ProcessDatabase | None = None
    ) -> None:
        assert scenario.server is not None
        self._scenario = scenario
        self._record = scenario.server
        self.postgres = postgres
        self.scratch = folder / "scratch"
        self.temporary = folder / "tmp"  # its TMPDIR, outside of the state
        self._scratches = (os.path.realpath(self.scratch), str(self.scratch))

    def prepare(self) -> None:
        """Make the folders. Raises PoolError."""
        copied = self._record.start.copy
        try:
            if copied:
                shutil.copytree(self._scenario.path / copied, self.scratch, symlinks=True)
            else:
                self.scratch.mkdir()
            self.temporary.mkdir()
            if self._record.state.journal == "wal":
                for database in self.databases:
                    keep_log(database)
            for path in (*self.databases, self.folder):
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise PoolError(f"{self._scenario.path}: its seed cannot be copied: {exc}") from exc

    @property
    def databases(self) -> tuple[Path, ...]:
        """The servers' databases."""
        return tuple(Path(self._filled(path)) for path in self._record.state.databases)

    @property
    def folder(self) -> Path | None:
        """The folder whose files are state; None: there is none."""
        given = self._record.state.folder
        return Path(self._filled(given)) if given else None

    def command(self, server: ServerCommand) -> tuple[str, ...]:
        """The words of a server's command. Raises PoolError."""
        try:
            words = shlex.split(server.command)
        except ValueError as exc:
            raise PoolError(
                f"{self._scenario.path / 'scenario.toml'}: server.command: it is not a valid "
                f"command: {exc}"
            ) from exc
        return tuple(map(self._filled, words))

    def variables(self, server: ServerCommand) -> dict[str, str]:
        """The variables that the package sets for a server."""
        return {name: self._filled(value) for name, value in server.variables.items()}

    def shown(self, text: str) -> str:
        """A text of the server's, in which its folder has the same name in every process."""
        for path in self._scratches:
            text = text.replace(path, SCRATCH)
        return text

    def real(self, value: Any) -> Any:
        """A call's JSON, in which the folder has its real path."""
        if isinstance(value, str):
            return value.replace(SCRATCH, str(self.scratch))
        if isinstance(value, dict):
            return {name: self.real(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.real(one) for one in value]
        return value

    def _filled(self, text: str) -> str:
        text = text.replace(SCRATCH, str(self.scratch))
        if self.postgres is not None:
            text = text.replace(POSTGRES, self.postgres.url).replace(DATABASE, self.postgres.name)
        return text.replace(WORLD, str(self._scenario.path.resolve()))

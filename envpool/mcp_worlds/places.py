"""Where one server's files are: its scratch folder, which begins as a copy of the world's seed."""

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.scenarios.core.server_record import SCRATCH, WORLD
from rehearsal_room.scenarios.format import Scenario


class Places:
    """The folders of one process, below `folder`, which belongs to it alone."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        assert scenario.server is not None
        self._scenario = scenario
        self._record = scenario.server
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
            for path in (self.sqlite, self.folder):
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise PoolError(f"{self._scenario.path}: its seed cannot be copied: {exc}") from exc

    @property
    def sqlite(self) -> Path | None:
        """The server's database; None: it has none."""
        return self._path(self._record.state.sqlite)

    @property
    def folder(self) -> Path | None:
        """The folder whose files are state; None: there is none."""
        return self._path(self._record.state.folder)

    def command(self) -> tuple[str, ...]:
        """The words of the server's command. Raises PoolError."""
        try:
            words = shlex.split(self._record.server.command)
        except ValueError as exc:
            raise PoolError(
                f"{self._scenario.path / 'scenario.toml'}: server.command: it is not a valid "
                f"command: {exc}"
            ) from exc
        return tuple(map(self._filled, words))

    def variables(self) -> dict[str, str]:
        """The variables that the package sets."""
        given = self._record.server.variables
        return {name: self._filled(value) for name, value in given.items()}

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
        return text.replace(WORLD, str(self._scenario.path.resolve()))

    def _path(self, given: str) -> Path | None:
        return Path(self._filled(given)) if given else None

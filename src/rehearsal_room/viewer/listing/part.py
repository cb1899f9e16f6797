"""A part of a run, for a file to send: its lists, counts and rates are those of the part alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from rehearsal_room.envpool.core.own_folder import own_folder
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.log_file import READ_ERRORS
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import log_error
from rehearsal_room.harness.outcomes.model_use import ModelUse, ReplyTimes
from rehearsal_room.harness.reports.summary import priced_use
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.lines import Part, RunLine, run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun


class PartOfRun(ShownRun):
    """Some episodes of a run, as a run. Curves over time are not known of a part: it has none.

    Close it: it has a copy of the run's index in a temporary folder.
    """

    def __init__(self, run: ShownRun, episodes: list[str], part: Part) -> None:
        super().__init__(run.folder)
        self._whole, self._episodes, self._part = run, episodes, part
        self._folder = self._stack.enter_context(own_folder("part"))

    def index(self) -> RunIndex:
        """The index of these episodes. Raises LogError and SettingsError."""
        with self._lock:
            if self._index is None:
                path = self._folder / "view.sqlite"
                _copy(self._whole.index().path, path, self._episodes)
                reader = self._stack.enter_context(open_reader(self.log_folder))
                self._index = RunIndex(reader, path)
                self._stack.callback(self._index.close)
            return self._index

    def num_planned(self) -> int:
        """How many episodes were planned; 0: of a part that is not known."""
        return 0

    def model_use(self) -> tuple[ModelUse | None, ReplyTimes | None]:
        """What the model of these episodes used. Raises LogError."""
        names = set(self._episodes)
        try:
            prices = prices_of(self.log_folder, None)
        except SettingsError:
            prices = None
        with self.reading() as reader:
            rows = [row for row in reader.episodes() if row.episode in names]
            return priced_use(reader, rows, prices)

    def line(self) -> RunLine:
        """The line of the run, which says that this is a part."""
        whole = run_line(self._whole)
        return msgspec.structs.replace(run_line(self), status=whole.status, part=self._part)


def _copy(whole: Path, path: Path, episodes: list[str]) -> None:
    """Copy an index, with these episodes alone. Raises LogError."""
    listed = msgspec.json.encode(episodes).decode()
    try:
        with closing(sqlite3.connect(whole)) as source, closing(sqlite3.connect(path)) as copy:
            source.backup(copy)
            copy.execute(
                "DELETE FROM episodes WHERE episode NOT IN (SELECT value FROM json_each(?))",
                (listed,),
            )
            copy.execute("DELETE FROM moments")
            copy.commit()
    except READ_ERRORS as exc:
        raise log_error(whole, "the index cannot be copied", exc) from exc

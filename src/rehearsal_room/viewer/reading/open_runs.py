"""The runs that the viewer shows: found in folders, opened once, and folded while needed."""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from typing import Literal

import msgspec

from rehearsal_room.harness.core.errors import HarnessError, LogError, SettingsError
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, ScenarioSnapshot
from rehearsal_room.harness.log.writer import has_writer
from rehearsal_room.harness.logged_runs.logged_run import log_folder, num_planned
from rehearsal_room.harness.outcomes.model_use import ModelUse, ReplyTimes
from rehearsal_room.harness.reports.summary import priced_use
from rehearsal_room.harness.settings.policy import PolicyName
from rehearsal_room.harness.settings.run import Settings, saved
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.viewer.index.run_index import RunIndex, index_path
from rehearsal_room.viewer.reading.token_texts import TextOf, token_reader

TRAINING_FILE = "train.toml"
RunKind = Literal["run", "training"]
_File = tuple[int, int]  # device and inode
_LATELY_S = 15.0
_READ_AGAIN = 20.0  # times the seconds that it took: at most a twentieth of the time is spent so


class NotHereError(HarnessError):
    """There is no such run, episode or world here."""


class _Report(msgspec.Struct):
    """What is read of report.json."""

    episodes: int


class _ReadModelUse(msgspec.Struct, frozen=True):
    """What was read of a log in this state; it is read again at the earliest at `again_at`."""

    state: tuple[float, ...] | None = None  # None: nothing was read
    again_at: float = 0.0  # seconds of the monotonic clock
    use: ModelUse | None = None
    times: ReplyTimes | None = None


_WITHOUT_MODEL: tuple[PolicyName, ...] = ("oracle", "mutant", "noop", "random")


class ShownRun:
    """One run folder or training folder. Its log is opened when it is first asked for; threads may
    use it at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = run_id(folder)
        self.kind: RunKind = "training" if (folder / TRAINING_FILE).exists() else "run"
        self._lock = RLock()
        self._stack = ExitStack()
        self._reader: LogReader | None = None
        self._index: RunIndex | None = None
        self._planned: int | None = None
        self._snapshots: dict[str, ScenarioSnapshot] = {}
        self._text_of: TextOf | Literal[False] | None = None  # False: there is none
        self._model_use = _ReadModelUse()
        self._file: _File | None = None  # the log that was opened

    @property
    def log_folder(self) -> Path:
        """Where the log is: in a training folder that of its rollouts. Raises SettingsError."""
        return log_folder(self.folder)

    @contextmanager
    def reading(self) -> Iterator[LogReader]:
        """The reader of the log, which one thread uses at a time. Raises LogError."""
        with self._lock:
            if self._reader is None:
                self._reader = self._opened(self.log_folder)
            yield self._reader

    def index(self) -> RunIndex:
        """The run's index. Raises LogError and SettingsError."""
        with self._lock:
            if self._index is None:
                folder = self.log_folder
                self._index = RunIndex(self._opened(folder), index_path(folder))
                self._stack.callback(self._index.close)
            return self._index

    def _opened(self, folder: Path) -> LogReader:
        self._file = _file_at(folder / LOG_NAME)
        return self._stack.enter_context(open_reader(folder))

    @property
    def is_open(self) -> bool:
        """Whether the log was opened, so that it can be read also after its folder was deleted."""
        return self._file is not None

    def is_gone(self) -> bool:
        """Whether the folder was deleted or moved."""
        return not is_run(self.folder)

    def is_replaced(self) -> bool:
        """Whether the folder now has another log than the one that was opened."""
        if self._file is None:
            return False
        try:
            now = _file_at(self.log_folder / LOG_NAME)
        except SettingsError:
            return False
        return now is not None and now != self._file

    def is_live(self) -> bool:
        """Whether a process writes the log now."""
        try:
            return has_writer(self.log_folder)
        except HarnessError:
            return False

    def has_settings(self) -> bool:
        """Whether it has a run.toml; an imported run has none."""
        return (self.log_folder / "run.toml").is_file()

    def settings(self) -> Settings:
        """The settings of run.toml; defaults where there is none. Raises SettingsError."""
        began = self.log_folder / "run.toml"
        return saved(began) if began.is_file() else Settings()

    def snapshots(self) -> dict[str, ScenarioSnapshot]:
        """The logged scenarios, by their digests. Raises LogError."""
        with self._lock:
            if not self._snapshots or self.is_live():
                with self.reading() as reader:
                    self._snapshots = reader.scenarios()
            return self._snapshots

    def text_of(self) -> TextOf | None:
        """What reads single token ids of this run; None: its tokenizer is not known."""
        with self._lock:
            if self._text_of is None:
                versions = sorted((self.folder / "versions").glob("v*"))
                self._text_of = token_reader(self.settings(), versions) or False
            return self._text_of or None

    def model_use(self) -> tuple[ModelUse | None, ReplyTimes | None]:
        """The requests, tokens and cost of the run's model so far, and the times of its replies;
        None: no model acts, or none has replied. This reads the whole log, so for a live run the
        figures may be some moments old. Raises LogError."""
        with self._lock:
            if not self._may_have_model():
                return None, None
            known, now, state = self._model_use, time.monotonic(), self._state()
            if known.state != state and (now >= known.again_at or not self.is_live()):
                try:
                    prices = prices_of(self.log_folder, None)
                except SettingsError:  # the file has changed since
                    prices = None
                with self.reading() as reader:
                    found = priced_use(reader, reader.episodes(), prices)
                took = time.monotonic() - now
                self._model_use = known = _ReadModelUse(state, now + _READ_AGAIN * took, *found)
            return known.use, known.times

    def _may_have_model(self) -> bool:
        """Whether a model may have played, as far as run.toml says."""
        if not self.has_settings():
            return True
        settings = self.settings()
        return bool(settings.agent.target) or settings.policy.name not in _WITHOUT_MODEL

    def _state(self) -> tuple[float, ...]:
        """What changes when the log is written."""
        path = self.log_folder / LOG_NAME
        return tuple(_changed_at(one) for one in (path, path.with_name(f"{path.name}-wal")))

    def num_planned(self) -> int:
        """How many episodes the run planned; 0: it is not known."""
        with self._lock:
            if self._planned is None:
                try:
                    self._planned = num_planned(self.log_folder)
                except Exception:  # a package that is gone, or a list that has changed since
                    self._planned = 0
            return self._planned

    def was_written_lately(self) -> bool:
        """Whether the log was written in the last seconds: what it has is not all folded yet."""
        path = self.log_folder / LOG_NAME
        return any(
            time.time() - _changed_at(one) < _LATELY_S
            for one in (path, path.with_name(f"{path.name}-wal"))
        )

    def is_reported(self, episodes: int) -> bool:
        """Whether report.json, which a run writes at its end, has so many episodes."""
        try:
            data = (self.log_folder / "report.json").read_bytes()
            return msgspec.json.decode(data, type=_Report).episodes == episodes
        except (OSError, SettingsError, *UNREADABLE):
            return False

    def close(self) -> None:
        """Close the log and the index."""
        with self._lock:
            self._stack.close()
            self._reader = self._index = None


class ShownRuns:
    """The runs by their ids. `bases` are folders whose runs are shown, too, as they come."""

    def __init__(self, folders: Sequence[Path], bases: Sequence[Path] = ()) -> None:
        self._named: dict[str, None] = {}  # ids in the order in which they were given
        self._bases: dict[Path, None] = {}
        self._runs: dict[str, ShownRun] = {}
        self._replaced: list[ShownRun] = []  # whose folders now hold other runs
        self._lock = RLock()
        for folder in folders:
            self.add(folder)
        for base in bases:
            self.add_base(base)

    def add(self, folder: Path) -> ShownRun:
        """Show a folder; returns its run."""
        with self._lock:
            run = self._run(folder)
            self._named.setdefault(run.id)
            return run

    def add_base(self, base: Path) -> None:
        """Show the runs in a folder, those that are there and those that come."""
        with self._lock:
            self._bases.setdefault(base)

    def _run(self, folder: Path) -> ShownRun:
        run = self._runs.get(run_id(folder))
        if run is not None and run.is_replaced():
            self._replaced.append(run)
            run = None
        if run is None:
            run = ShownRun(folder)
            self._runs[run.id] = run
        return run

    def all(self) -> list[ShownRun]:
        """All runs: the named ones, those of the bases, the newest first, and last those that are
        gone from a base."""
        with self._lock:
            found = {run: self._run(self._runs[run].folder) for run in self._named}
            inside = [folder for base in self._bases for folder in found_in(base)]
            for folder in sorted(inside, key=_changed_at, reverse=True):
                run = self._run(folder)
                found.setdefault(run.id, run)
            for name, run in self._runs.items():
                found.setdefault(name, run)
            return list(found.values())

    def get(self, run: str) -> ShownRun:
        """The run of an id. Raises NotHereError."""
        with self._lock:
            if run not in self._runs:
                self.all()
            try:
                return self._run(self._runs[run].folder)
            except KeyError:
                raise NotHereError(f"there is no run {run!r} here") from None

    def close(self) -> None:
        """Close all runs."""
        with self._lock:
            for run in (*self._runs.values(), *self._replaced):
                run.close()


def run_id(folder: Path) -> str:
    """A short name for a folder in URLs: its own name, and a digest of its path.

    Example: runs/My run -> "My-run-5f0c3a"
    """
    path = folder.resolve()
    name = re.sub(r"[^A-Za-z0-9_.]+", "-", path.name)[:40].strip("-") or "run"
    return f"{name}-{blake2b(str(path).encode(), digest_size=3).hexdigest()}"


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run or of a training run."""
    return (folder / LOG_NAME).is_file() or (folder / TRAINING_FILE).is_file()


def found_in(base: Path) -> list[Path]:
    """The runs and training runs directly inside of a folder, the newest first."""
    try:
        folders = [path for path in base.iterdir() if path.is_dir() and is_run(path)]
    except OSError:
        return []
    return sorted(folders, key=_changed_at, reverse=True)


def checked(folders: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """The folders that are named: those of runs, and those that hold runs. Raises SettingsError."""
    found: list[Path] = []
    bases: list[Path] = []
    for folder in folders:
        if is_run(folder):
            found.append(folder)
            continue
        if not folder.is_dir():
            raise SettingsError(f"RUN: {folder} is not a folder; name the folder of a run")
        if not found_in(folder):
            raise SettingsError(
                f"RUN: {folder} is not a run: it has no log ({LOG_NAME}) and no {TRAINING_FILE}, "
                "nor has a folder in it; name the folder of a run, or make one: "
                "rehearse run shop_support -p mutant -o runs/first"
            )
        bases.append(folder)
    return found, bases


def check_readable(runs: Sequence[ShownRun]) -> None:
    """Raise the error of the first run where none of them can be read."""
    faults: list[HarnessError] = []
    for run in runs:
        try:
            run.index()
            return
        except (LogError, SettingsError) as exc:
            if run.kind == "training":
                return  # its metrics can be shown
            faults.append(exc)
    if faults:
        raise faults[0]


def _file_at(path: Path) -> _File | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _changed_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0

"""A campaign of kills: runs and the commands on their logs die at chosen system calls.

    python -m tests.support.kill_campaign KILLS SEED      (`just kills`)

A chain begins a run in a new folder, kills it at an injected point, continues it with `--resume`,
and so on, until a resume ends by itself; then the commands that read or judge the finished run are
killed, too. After each kill a copy of the folder is checked, so that the next command finds what
the kill left:

- the log opens, for a reader who may write and for one who may not, and both read the same;
- every episode that was finished before is finished, and no episode has a second ending;
- `show`, `export`, `replay` and `judge` succeed, and nothing half-written is left beside the log;
- a resumed episode goes on after its last logged turn: no logged reply is asked for again, and no
  call of it is made as a new one;
- at the end of a chain the report, and every result and digest, equal those of a run which was left
  alone.
"""

import io
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import msgspec
from rich.console import Console
from rich.table import Table

from rehearsal_room.cli.main import main
from rehearsal_room.harness.core.events import EpisodeEnded
from rehearsal_room.harness.log import log_file
from rehearsal_room.harness.log.log_file import LogFile
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.rollout import gc_tuning
from tests.support.attempts import check_attempts, outcomes_of, records_of
from tests.support.kill_points import KINDS, Death, run_until
from tests.support.warm_process import WarmProcess, open_warm_process

_AFTER = {  # commands on a finished run, and how often each is chosen
    "judge": 4,
    "judge --only unjudged": 1,
    "export": 3,
    "show": 1,
    "run": 1,
}
_COMMANDS = ("run", *(command for command in _AFTER if command != "run"))
_WEIGHTS = {"fsync": 4, "rename": 2, "unlink": 3, "ftruncate": 2, "pwrite": 3}


class Kill(msgspec.Struct, frozen=True):
    """One kill: which command, at which of its system calls."""

    command: str
    kind: str
    number: int


class Campaign:
    """Kills with one seed, in one folder."""

    def __init__(self, warm: WarmProcess, folder: Path, *, seed: int, episodes: int) -> None:
        self._warm = warm
        self._folder = folder
        self._rng = random.Random(seed)
        self._episodes = episodes
        self._num_chains = 0
        self._points: dict[str, dict[str, int]] = {}  # of each command: calls of each kind
        self.kills: list[Kill] = []
        self.num_continued = 0  # attempts that went on after logged turns
        self._quiet = folder / "quiet"
        self._measure()

    def run(self, num_kills: int) -> None:
        """Kill so many times; raises AssertionError for the first kill that spoils a log."""
        while len(self.kills) < num_kills:
            folder = self._folder / f"chain{self._num_chains}"
            self._num_chains += 1
            self._chain(folder, num_kills)
            shutil.rmtree(folder)

    def _measure(self) -> None:
        """Let every command run once undisturbed, to learn how many kill points it has."""
        for command in _COMMANDS:
            death = self._execute(command, self._quiet, "fsync", 0)
            assert death.status == 0, self._output().read_text()[-2000:]
            self._points[command] = death.counts
        self._report = (self._quiet / "report.json").read_bytes()
        self._outcomes = outcomes_of(self._quiet)

    def _chain(self, folder: Path, num_kills: int) -> None:
        finished: set[str] = set()
        command = "run"
        while len(self.kills) < num_kills:
            killed = self._kill(command, folder)
            finished = self._check(folder, finished)
            if not killed:
                break
            if len(finished) == self._episodes and self._rng.random() < 0.5:
                break
        death = self._execute("run", folder, "fsync", 0)
        assert death.status == 0, (self.kills[-3:], self._output().read_text()[-2000:])
        assert (folder / "report.json").read_bytes() == self._report
        assert outcomes_of(folder) == self._outcomes
        self.num_continued += check_attempts(records_of(folder))
        finished = self._check(folder, finished)
        assert len(finished) == self._episodes
        for _ in range(self._rng.randint(0, 3)):
            (command,) = self._rng.choices(list(_AFTER), list(_AFTER.values()))
            self._kill(command, folder)
            finished = self._check(folder, finished)
        assert self._execute("judge", folder, "fsync", 0).status == 0
        assert (folder / "report.json").read_bytes() == self._report

    def _kill(self, command: str, folder: Path) -> bool:
        """Run a command up to a kill point; False: it ended before it came there."""
        points = self._points[command]
        kinds = [kind for kind in KINDS if points.get(kind)]
        (kind,) = self._rng.choices(kinds, [_WEIGHTS[kind] for kind in kinds])
        number = self._rng.randint(1, points[kind])
        death = self._execute(command, folder, kind, number)
        if death.status == -9:
            self.kills.append(Kill(command, kind, number))
            return True
        assert death.status == 0, (command, kind, number, self._output().read_text()[-2000:])
        return False

    def _execute(self, command: str, folder: Path, kind: str, number: int) -> Death:
        name, *flags = command.split()
        words: list[object] = [name, folder, *flags]
        if name == "run":
            words = [
                *("run", "shop_support", "claims_desk", "-p", "oracle", "-n", self._episodes),
                *("-g", 4, "-c", 8, "--seed", 11, "--think", "0:0.04", "-o", folder, "--resume"),
            ]
        return run_until(self._warm, *words, kind=kind, number=number, output=self._output())

    def _output(self) -> Path:
        return self._folder / "output.txt"

    def _check(self, original: Path, finished: set[str]) -> set[str]:
        """Check a copy of a run folder; returns the episodes that are finished in it."""
        folder = self._folder / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        if not (original / LOG_NAME).exists():  # killed before it had a log: resumed from nothing
            assert not finished
            return set()
        shutil.copytree(original, folder)
        last = self.kills[-1] if self.kills else None
        rows = _rows_of(folder, may_write=False)
        assert rows == _rows_of(folder, may_write=True), last
        done = _finished(folder)
        assert done >= finished, last
        if rows:
            for command in ("show", "export", "replay", "judge --only unjudged"):
                name, *flags = command.split()
                status, text = call(name, folder, *flags)
                assert status == 0, (last, command, text[-2000:])
        assert not [path.name for path in folder.iterdir() if path.suffix == ".tmp"], last
        return done

    def table(self) -> Table:
        """The number of kills by command and kind of system call."""
        counts = Counter((kill.command, kill.kind) for kill in self.kills)
        caption = f"{self.num_continued} attempts went on after logged turns"
        columns_of_kinds = [f"at {kind}" for kind in KINDS]
        table = Table("command", *columns_of_kinds, "together", caption=caption)
        for command in _COMMANDS:
            row = [counts[command, kind] for kind in KINDS]
            table.add_row(command, *map(str, row), str(sum(row)))
        columns = [sum(counts[c, kind] for c in _COMMANDS) for kind in KINDS]
        table.add_row("together", *map(str, columns), str(sum(columns)))
        return table


def call(*arguments: object) -> tuple[int, str]:
    """Run `rehearse` in this process; returns its exit status and what it printed. An exception
    that is not an exit is a traceback for a user, and travels."""
    printed = io.StringIO()
    status = 0
    with (
        redirect_stdout(printed),
        redirect_stderr(printed),
        patch.object(sys, "argv", ["rehearse", *map(str, arguments)]),
        patch.object(gc_tuning, "gc"),
    ):
        try:
            main()
        except SystemExit as exit:
            status = int(exit.code or 0)
    return status, printed.getvalue()


def _rows_of(folder: Path, *, may_write: bool) -> list[object]:
    """Every row of the log, as one of the two kinds of readers finds it."""
    with (
        patch.object(log_file, "_may_write", lambda path: may_write),
        closing(LogFile(folder / LOG_NAME)) as file,
    ):
        return file.rows("SELECT * FROM events ORDER BY position")


def _finished(folder: Path) -> set[str]:
    """The episodes with an ending and a verdict; none may have two endings."""
    endings: Counter[str] = Counter()
    with open_reader(folder) as reader:
        done = {episode for episode, got in reader.progress().items() if got.ended and got.judged}
        position = 0
        while batch := reader.records_after(position):
            endings.update(r.episode for _, r in batch if isinstance(r.event, EpisodeEnded))
            position = batch[-1][0]
    assert set(endings.values()) <= {1}
    return done


if __name__ == "__main__":
    with (
        open_warm_process(
            "tests.support.loaded_commands", "tests.support.kill_points"
        ) as _warm_process,
        tempfile.TemporaryDirectory() as _folder,
    ):
        campaign = Campaign(_warm_process, Path(_folder), seed=int(sys.argv[2]), episodes=24)
        try:
            campaign.run(int(sys.argv[1]))
        finally:
            Console(width=100).print(campaign.table())

"""Measure what it costs to find the rows that a foreign server changed in its database or folder.

    python -m benchmarks.mcp_state --runs 15

Python's sqlite3 writes into a database of 10 MB, which is copied from a seed as an episode does
it; then one reading finds the changed rows. In WAL mode the log has the changed pages; in the other
modes the file is compared with its last image, page by page. A server that connects for each call
is measured both ways. The folder has 1,000 files of 2 KB, and one of them is written before each
reading. `CPU` figures are of the thread that reads.
"""

import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, runs_option
from rehearsal_room.envpool.mcp_state.folder_reader import FolderReader
from rehearsal_room.envpool.mcp_state.log_mode import keep_log
from rehearsal_room.envpool.mcp_state.sqlite_reader import SqliteReader
from rehearsal_room.envpool.mcp_state.types import StateReader

_ROWS = 75_000  # 10 MB
_SETTLED = 0.1  # seconds; a file that was just written is compared again at the next reading


def _seed(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, name, text, score REAL)")
        connection.execute("CREATE TABLE tags (note INTEGER, tag TEXT)")
        rows = ((f"name {number}", "x" * 100, number / 2) for number in range(_ROWS))
        connection.executemany("INSERT INTO notes (name, text, score) VALUES (?, ?, ?)", rows)
        connection.commit()


@contextmanager
def _connected(seed: Path, mode: str) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A copy of the seed, and the connection of its server."""
    path = seed.with_name(f"{mode}.db")
    shutil.copyfile(seed, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("INSERT INTO tags VALUES (1, 'first')")
        time.sleep(_SETTLED)
        yield path, connection


def _times(
    runs: int, reader: StateReader, write: Callable[[int], None], count: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of readings after a write, and of their thread's CPU."""
    wall, cpu = [], []
    for run in range(runs + 1):
        write(run)
        began, spent = time.perf_counter(), time.thread_time()
        reading = reader.read()
        cpu.append((time.thread_time() - spent) * 1000)
        wall.append((time.perf_counter() - began) * 1000)
        assert len(reading.writes) == count, len(reading.writes)
    return wall[1:], cpu[1:]  # the first opens connections


def _database(runs: int, seed: Path, mode: str, reach: float | None) -> list[Figure]:
    name = f"10 MB, {'WAL' if mode == 'WAL' else 'rollback journal'}"
    found: list[Figure] = []
    with _connected(seed, mode) as (path, connection), closing(SqliteReader(path)) as reader:
        for count in (1, 100):

            def write(run: int, count: int = count) -> None:
                connection.execute("BEGIN")
                for row in random.Random(run).sample(range(1, _ROWS), count):
                    text = f"{run} {count} " * 12
                    connection.execute("UPDATE notes SET text = ? WHERE id = ?", (text, row))
                connection.execute("COMMIT")

            wall, cpu = _times(runs, reader, write, count)
            what = f"{name}: {count} changed row{'s'[: count > 1]}"
            found.append(figure(what, "ms", wall, reach=reach if count == 1 else None))
            found.append(figure(f"{what}, CPU", "ms", cpu))
        reader.read()
        time.sleep(_SETTLED)
        reader.read()
        wall, _ = _times(runs, reader, lambda run: None, 0)
        found.append(figure(f"{name}: nothing changed", "ms", wall))
    return found


def _connecting(runs: int, seed: Path, *, keeps_log: bool) -> list[Figure]:
    """A server that connects for each call: SQLite moves a log into the file at each close,
    unless the world has `journal = "wal"`, which holds it."""
    path = seed.with_name("connecting.db")
    shutil.copyfile(seed, path)
    if keeps_log:
        keep_log(path)

    def write(run: int) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            row = random.Random(run).randrange(1, _ROWS)
            connection.execute("UPDATE notes SET text = ? WHERE id = ?", (f"{run} " * 12, row))

    with closing(SqliteReader(path, holds_log=keeps_log)) as reader:
        time.sleep(_SETTLED)
        reader.read()
        wall, cpu = _times(runs, reader, write, 1)
    mode = 'journal = "wal"' if keeps_log else "rollback journal"
    what = f"10 MB, {mode}, connecting for each call: 1 changed row"
    return [
        figure(what, "ms", wall, reach=1 if keeps_log else None),
        figure(f"{what}, CPU", "ms", cpu),
    ]


def _openings(runs: int, seed: Path) -> list[Figure]:
    """Opening a database alone, and with a snapshot of it."""
    alone, shared = [], []
    for _ in range(runs):
        began = time.perf_counter()
        with closing(SqliteReader(seed)) as reader:
            alone.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            with closing(SqliteReader(seed, since=reader.snapshot)) as second:
                second.read()
                shared.append((time.perf_counter() - began) * 1000)
    return [
        figure("10 MB: opening", "ms", alone),
        figure("10 MB: opening with a snapshot, and the first reading", "ms", shared),
    ]


def _folder(runs: int, root: Path) -> list[Figure]:
    for number in range(1000):
        path = root / f"{number % 20}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 2000)
    time.sleep(_SETTLED)
    began = time.perf_counter()
    reader = FolderReader(root)
    opening = (time.perf_counter() - began) * 1000
    wall, cpu = _times(runs, reader, lambda run: _write(root / "3" / "3.md", run), 1)
    return [
        figure("1,000 files: opening", "ms", [opening]),
        figure("1,000 files: 1 changed file", "ms", wall),
        figure("1,000 files: 1 changed file, CPU", "ms", cpu),
    ]


def _write(path: Path, run: int) -> None:
    path.write_text(f"{run} " * 500)


def figures(runs: int) -> list[Figure]:
    """All figures of the readers."""
    with tempfile.TemporaryDirectory() as folder:
        seed = Path(folder, "seed.db")
        _seed(seed)
        return [
            *_database(runs, seed, "WAL", 1),
            *_database(runs, seed, "DELETE", None),
            *_connecting(runs, seed, keeps_log=False),
            *_connecting(runs, seed, keeps_log=True),
            *_openings(runs, seed),
            *_folder(runs, Path(folder, "files")),
        ]


@benchmark(__doc__)
@runs_option(15)
def main(runs: int) -> list[Figure]:
    """The command line."""
    return figures(runs)


if __name__ == "__main__":
    main()

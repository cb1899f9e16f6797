"""A log as an earlier version wrote it: its verdicts do not say what went wrong."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec


def without_diagnoses(folder: Path) -> Path:
    """Take the diagnoses out of the verdicts of a run's log, as if it had never had any; returns
    the folder."""
    with closing(sqlite3.connect(folder / "episodes.sqlite", isolation_level=None)) as log:
        sql = "SELECT position, data FROM events WHERE kind = 'judged'"
        for position, data in log.execute(sql).fetchall():
            verdict = msgspec.msgpack.decode(data)
            verdict.pop("diagnosis", None)
            old = msgspec.msgpack.encode(verdict)
            log.execute("UPDATE events SET data = ? WHERE position = ?", (old, position))
    for name in ("view.sqlite", "view.sqlite-wal", "view.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)
    return folder

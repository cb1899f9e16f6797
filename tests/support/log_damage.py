"""Damages a run folder's log in a seeded way: its file, its rows, the events and snapshots in them.

damage(folder, random.Random(7))  ->  "events 12: data: byte 40 is changed"
"""

import math
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.log.schema import LOG_NAME

_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63 - 1, 2**64 - 1, -(2**63), 0.5, math.nan, math.inf, -math.inf),
    *("", "\0", "x" * 70_000, "\x1b[31m", "\N{RIGHT-TO-LEFT OVERRIDE}", "../../etc/passwd", "e000"),
    *(b"", b"\xff\xfe", [], [None], {}, {"": None}, {"type": "step"}),
)
_TEXT = (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\0")  # not UTF-8, and a text's end in C


def damage(folder: Path, rng: random.Random) -> str:
    """Damage the log of a run folder; returns what was done."""
    return rng.choices(_KINDS, _WEIGHTS)[0](folder / LOG_NAME, rng)


def _cut_off(path: Path, rng: random.Random) -> str:
    size = rng.randrange(path.stat().st_size)
    with path.open("r+b") as file:
        file.truncate(size)
    return f"cut off at byte {size}"


def _change_bytes(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    num_bytes = rng.choice((1, 1, 4, 64))
    limit = rng.choice((100, 8192, len(data)))  # the header, the schema's page, anywhere
    for _ in range(num_bytes):
        data[rng.randrange(limit)] = rng.randrange(256)
    path.write_bytes(data)
    return f"{num_bytes} bytes changed in the first {limit}"


def _clear_page(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) // 8192) * 8192
    data[start : start + 8192] = rng.choice((bytes(8192), rng.randbytes(8192)))
    path.write_bytes(data)
    return f"the page at byte {start} is overwritten"


def _add_journal(path: Path, rng: random.Random) -> str:
    suffix = rng.choice(("-wal", "-shm", "-journal"))
    content = rng.choice((b"", b"\0" * 32, rng.randbytes(40_000), path.read_bytes()[:20_000]))
    path.with_name(path.name + suffix).write_bytes(content)
    return f"{suffix} of {len(content)} bytes"


def _change_event(path: Path, rng: random.Random) -> str:
    return _change_blob(path, "events", "data", "position", rng, kind="")


def _change_rare_event(path: Path, rng: random.Random) -> str:
    kind = rng.choice(("started", "ended", "judged"))
    return _change_blob(path, "events", "data", "position", rng, kind=kind)


def _change_state(path: Path, rng: random.Random) -> str:
    return _change_blob(path, "events", "state", "position", rng, kind="ended")


def _change_snapshot(path: Path, rng: random.Random) -> str:
    return _change_blob(path, "scenarios", "data", "rowid", rng, kind="")


def _change_blob(
    path: Path, table: str, column: str, key: str, rng: random.Random, *, kind: str
) -> str:
    where = f"WHERE kind = '{kind}'" if kind else ""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        rows = database.execute(f"SELECT {key}, {column} FROM {table} {where}").fetchall()
        number, blob = rng.choice([row for row in rows if row[1] is not None])
        changed, how = _changed_blob(blob, rng)
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (changed, number))
    return f"{table} {number}: {column}: {how}"


def _changed_blob(blob: bytes, rng: random.Random) -> tuple[bytes, str]:
    how = rng.choices(("value", "bytes", "text", "cut", "nest"), (8, 2, 2, 1, 1))[0]
    if how == "value":
        return _with_another_value(blob, rng)
    start = rng.randrange(len(blob))
    if how == "bytes":
        return blob[:start] + rng.randbytes(1) + blob[start + 1 :], f"byte {start} is changed"
    if how == "text":
        spot = _spot_in_text(blob, rng)
        text = rng.choice(_TEXT)
        return blob[:spot] + text + blob[spot + len(text) :], f"text at byte {spot} is damaged"
    if how == "cut":
        return blob[:start], f"cut off at byte {start}"
    return b"\x91" * 5_000 + blob, "nested in 5000 lists"


def _spot_in_text(blob: bytes, rng: random.Random) -> int:
    """Where letters stand."""
    letters = [spot for spot, byte in enumerate(blob[:-4]) if chr(byte).isalpha() and byte < 128]
    return rng.choice(letters or [0])


def _with_another_value(blob: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Replace one value, at any depth, by another one, remove it, or repeat it."""
    value = msgspec.msgpack.decode(blob)
    if not isinstance(value, dict | list):
        return b"\xc0", "replaced by nothing"
    spots: list[tuple[Any, Any]] = []
    _collect(value, spots)
    holder, key = rng.choice(spots)
    how = rng.choice(("replace", "replace", "replace", "remove", "repeat"))
    new = rng.choice(_VALUES)
    if how == "remove":
        del holder[key]
    elif how == "repeat" and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = new
    return msgspec.msgpack.encode(value), f"{key!r} {how}d, {new!r:.30}"


def _collect(value: Any, spots: list[tuple[Any, Any]]) -> None:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        spots.append((value, key))
        if isinstance(value[key], dict | list):
            _collect(value[key], spots)


def _change_column(path: Path, rng: random.Random) -> str:
    column = rng.choice(("position", "episode", "attempt", "seq", "kind", "at", "data", "state"))
    new = rng.choice((*_VALUES[1:21], b"\xff\xfe", "ended", "judged", "started"))
    text = rng.random() < 0.3  # a text whose bytes are not UTF-8
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (last,) = database.execute("SELECT max(position) FROM events").fetchone()
        position = rng.randint(1, last)
        value = "CAST(x'ff41' AS TEXT)" if text else "?"
        try:
            database.execute(
                f"UPDATE events SET {column} = {value} WHERE position = ?",
                (position,) if text else (_storable(new), position),
            )
        except sqlite3.Error as exc:  # the table's own rules refuse it
            return f"nothing: {exc}"
    return f"row {position}: {column} = {'damaged text' if text else repr(new)[:30]}"


def _storable(value: Any) -> Any:
    return -1 if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def _change_rows(path: Path, rng: random.Random) -> str:
    sql = rng.choice(
        (
            "DELETE FROM events WHERE position % 7 = 3",
            "DELETE FROM events WHERE kind = 'started'",
            "DELETE FROM events WHERE seq = 0 AND position % 2",
            "DELETE FROM events WHERE kind = 'step' AND position % 3 = 1",
            "DELETE FROM events",
            "DELETE FROM scenarios",
            "DELETE FROM meta",
            "UPDATE meta SET value = x'ff'",
            "UPDATE meta SET value = CAST(x'ff' AS TEXT)",
            "UPDATE OR REPLACE events SET seq = seq + 1000 WHERE position % 5 = 0",
            "UPDATE OR REPLACE events SET attempt = attempt + 1 WHERE position % 5 = 0",
            "UPDATE events SET episode = episode || 'x' WHERE position % 9 = 0",
            "UPDATE events SET kind = 'step'",
            "UPDATE events SET state = NULL",
            "UPDATE OR REPLACE scenarios SET scenario_digest = 'x'",
            "UPDATE OR REPLACE scenarios SET scenario_digest = CAST(x'ff' AS TEXT)",
            "INSERT INTO events SELECT position + 10000, episode, attempt, seq + 10000, kind, at,"
            " data, state FROM events WHERE kind IN ('ended', 'started')",
            "DROP INDEX milestones",
            "DROP TABLE scenarios",
            "DROP TABLE meta",
            "ALTER TABLE events DROP COLUMN state",
            "ALTER TABLE events RENAME COLUMN at TO back",
        )
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(sql)
    return sql


_KINDS: tuple[Callable[[Path, random.Random], str], ...] = (
    *(_cut_off, _change_bytes, _clear_page, _add_journal, _change_event, _change_rare_event),
    *(_change_state, _change_snapshot, _change_column, _change_rows),
)
_WEIGHTS = (1, 3, 2, 1, 4, 5, 2, 5, 4, 3)

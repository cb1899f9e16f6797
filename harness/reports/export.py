"""Export of episodes from a log, for other programs.

    jsonl     one JSON object per line, one line per episode (fields: `export_rows.EpisodeLine`)
    parquet   the same fields as columns; values without a fixed shape are JSON in a text column
    sft       one chat per line, in the `messages` format of OpenAI's fine-tuning and Hugging Face:
              completed episodes, with the whole history whatever the run's limit was

`harness.otlp.export` writes a fourth, `otlp`.

A file appears complete, under its name, or not at all.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from envpool.core.types import StoredState
from harness.chat.wire import RequestWriter
from harness.core.briefings import logged_briefing
from harness.core.errors import LogError, SettingsError
from harness.core.events import Ending, Label
from harness.core.trajectory import Trajectory
from harness.dialects.registry import dialect_of
from harness.history.last_turns import Full
from harness.history.windows import HistoryFold
from harness.log.reader import LogReader
from harness.log.schema import EpisodeRow, ScenarioSnapshot, replacing
from harness.reports.export_rows import EpisodeLine, episode_line
from scenarios.api import Row
from scenarios.distribution import install_command

Format = Literal["jsonl", "parquet", "sft"]
EXPORT_NAMES = {
    "jsonl": "episodes.jsonl",
    "parquet": "episodes.parquet",
    "sft": "chats.jsonl",
    "otlp": "spans.otlp",
}
Chat = dict[str, Any]
Render = Callable[[Trajectory, ScenarioSnapshot], Chat]

_encode = msgspec.json.Encoder().encode


def export(
    reader: LogReader,
    path: Path,
    *,
    to: Format = "jsonl",
    dumps: bool = False,
    labels: Collection[Label] | None = None,
    endings: Collection[Ending] | None = None,
    render: Render | None = None,
) -> int:
    """Write the episodes with one of these labels and endings; return their number.

    None selects every label or ending; with `sft` the default is completed episodes. `dumps` adds
    the final state of every table (not for `sft`). `render` makes the chats of `sft` (default:
    `chat_of`). Raises LogError, and SettingsError when `parquet` is not installed.
    """
    if to == "sft" and labels is None:
        labels = [Label.COMPLETED]
    rows = rows_with(reader, labels=labels, endings=endings)
    try:
        with replacing(path) as file:
            if to == "sft":
                _write_lines(file, _chats(reader, rows, render or chat_of))
            elif to == "jsonl":
                _write_lines(file, _lines(reader, rows, dumps=dumps))
            else:
                _write_parquet(file, _lines(reader, rows, dumps=dumps))
    except OSError as exc:
        raise LogError(f"{path}: the export cannot be written: {exc}") from exc
    return len(rows)


def rows_with(
    reader: LogReader,
    *,
    labels: Collection[Label] | None = None,
    endings: Collection[Ending] | None = None,
) -> list[EpisodeRow]:
    """The episodes with one of these labels and endings; None selects all. Raises LogError."""
    return [
        row
        for row in reader.episodes()
        if (labels is None or row.label in labels) and (endings is None or row.ending in endings)
    ]


def chat_of(trajectory: Trajectory, world: ScenarioSnapshot) -> Chat:
    """An episode as a chat in its own dialect: `messages`, and `tools` where the requests had them.

    The assistant's messages in the turns that a fork keeps have `"weight": 0`, as in OpenAI's
    fine-tuning format: they are context, and not learned again.

    Example: {"messages": [{"role": "system", "content": "You act ..."}, ...]}
    """
    briefing = logged_briefing(
        trajectory.started,
        rules=world.rules,
        tools=world.tools,
        user=world.user,
        now=world.now,
    )
    fold = HistoryFold(Full(), dialect_of(trajectory.started.dialect), briefing)
    for step in trajectory.steps:
        fold.apply(step)
    chat: Chat = msgspec.json.decode(RequestWriter({}).body(fold.window()))
    replies = [message for message in chat["messages"] if message["role"] == "assistant"]
    for message in replies[: trajectory.first_own_turn]:
        message["weight"] = 0
    return chat


def image_with(image: bytes, state: StoredState) -> bytes:
    """The database of a stored state: its template's image with the changed pages written in."""
    size = int.from_bytes(image[16:18], "big")  # SQLite's file format, 1.3.2
    size = 65_536 if size == 1 else size
    database = bytearray(image[: state.num_pages * size].ljust(state.num_pages * size, b"\0"))
    for number, page in state.pages.items():
        if number <= state.num_pages:  # later pages were cut off when the database shrank
            database[(number - 1) * size : number * size] = page
    return bytes(database)


def tables_of(image: bytes) -> dict[str, list[Row]]:
    """Every row of every table of a database, ordered by rowid or key.

    Raises sqlite3.DatabaseError when the bytes are not a database.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(image)
        names = database.execute(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT GLOB 'sqlite_*' ORDER BY name"
        ).fetchall()
        return {name: _rows(database, name, has_rowid=not wr) for name, wr in names}


def _rows(database: sqlite3.Connection, table: str, *, has_rowid: bool) -> list[Row]:
    quoted = '"' + table.replace('"', '""') + '"'
    cursor = database.execute(f"SELECT * FROM {quoted}{' ORDER BY rowid' if has_rowid else ''}")
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor]


def _lines(reader: LogReader, rows: list[EpisodeRow], *, dumps: bool) -> Iterator[EpisodeLine]:
    worlds = reader.scenarios() if dumps else {}
    for row in rows:
        trajectory = reader.trajectory(row.episode)
        line = episode_line(row, trajectory)
        if dumps:
            final = _final(reader, trajectory, worlds)
            line = msgspec.structs.replace(line, final=final)
        yield line


def _chats(reader: LogReader, rows: list[EpisodeRow], render: Render) -> Iterator[Chat]:
    worlds = reader.scenarios()
    for row in rows:
        trajectory = reader.trajectory(row.episode)
        chat = render(trajectory, _world(reader, trajectory, worlds))
        yield {"episode": row.episode, "scenario": row.scenario, "task": row.task, **chat}


def _final(
    reader: LogReader, trajectory: Trajectory, worlds: dict[str, ScenarioSnapshot]
) -> dict[str, list[Row]] | None:
    """The final tables; None when the episode has no final state."""
    state = trajectory.ended.state if trajectory.ended else None
    if state is None:
        return None
    world = _world(reader, trajectory, worlds)
    if world.template != state.template:
        raise LogError(
            f"{reader.path}: episode {trajectory.episode!r} ended in a state of template"
            f" {state.template}, but its world has {world.template}"
        )
    try:
        return tables_of(image_with(world.image, state))
    except sqlite3.DatabaseError as exc:
        raise LogError(
            f"{reader.path}: the final state of episode {trajectory.episode!r} is damaged: {exc}"
        ) from exc


def _world(
    reader: LogReader, trajectory: Trajectory, worlds: dict[str, ScenarioSnapshot]
) -> ScenarioSnapshot:
    world = worlds.get(trajectory.started.scenario_digest)
    if world is None:
        raise LogError(
            f"{reader.path}: the log does not hold the world of episode {trajectory.episode!r}"
            f" (package {trajectory.started.scenario_digest})"
        )
    return world


def _write_lines(file: BinaryIO, lines: Iterator[EpisodeLine] | Iterator[Chat]) -> None:
    for line in lines:
        file.write(_encode(line))
        file.write(b"\n")


def _write_parquet(file: BinaryIO, lines: Iterator[EpisodeLine]) -> None:
    try:
        from harness.reports.parquet import write  # optional, and slow to import
    except ImportError as exc:
        raise SettingsError(
            f"to: parquet needs pyarrow, which cannot be imported ({exc});"
            f" {install_command('parquet')}"
        ) from exc
    write(file, lines)

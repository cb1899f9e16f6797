"""Files of episodes with our own fields: JSON lines, and Parquet.

`write_lines` writes any values as JSON lines; other formats use it, too.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.outputs import writing
from rehearsal_room.interop.exports.episode_lines import EpisodeLine, episode_line
from rehearsal_room.interop.exports.final_states import final_tables
from rehearsal_room.interop.exports.source import ExportSource
from rehearsal_room.scenarios.distribution import install_command

encode = msgspec.json.Encoder().encode


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write a file of JSON lines, whole or not at all. Raises OSError."""
    with writing(path) as file:
        for value in values:
            file.write(encode(value))
            file.write(b"\n")


def write_jsonl(source: ExportSource, path: Path) -> None:
    """Write one JSON object for each episode. Raises LogError and OSError."""
    write_lines(path, _episode_lines(source))


def write_parquet(source: ExportSource, path: Path) -> None:
    """Write the same fields as columns. Raises LogError, OSError, and SettingsError where pyarrow
    is not installed."""
    try:
        from rehearsal_room.interop.exports.parquet import write  # optional, and slow to import
    except ImportError as exc:
        raise SettingsError(
            f"to: parquet needs pyarrow, which cannot be imported ({exc});"
            f" {install_command('parquet')}"
        ) from exc
    with writing(path) as file:
        write(file, _episode_lines(source))


def _episode_lines(source: ExportSource) -> Iterator[EpisodeLine]:
    for episode in source.episodes():
        by_hand = source.by_hand(episode.row.episode)
        line = episode_line(episode.row, episode.trajectory, by_hand)
        if source.dumps:
            final = final_tables(episode)
            line = msgspec.structs.replace(line, final=final)
        yield line

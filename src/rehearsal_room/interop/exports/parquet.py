"""Exported episodes as a Parquet file."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # ships no type hints
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # ships no type hints

from rehearsal_room.interop.exports.episode_lines import EpisodeLine

_ROWS_PER_GROUP = 500  # episodes in memory at once
_JSON = pa.string()  # a column of JSON texts
_CALL = pa.struct([("name", pa.string()), ("arguments", _JSON)])
_RESULT = pa.struct(
    [("text", pa.string()), ("is_error", pa.bool_()), ("error", pa.string()), ("asked", _JSON)]
)
_USER = pa.struct(
    [
        ("text", pa.string()),
        ("ended", pa.bool_()),
        ("calls", pa.list_(_CALL)),
        ("results", pa.list_(_RESULT)),
    ]
)
_STEP = pa.struct(
    [
        ("text", pa.string()),
        ("calls", pa.list_(_CALL)),
        ("results", pa.list_(_RESULT)),
        ("format_error", pa.string()),
        ("user", _USER),
        ("fields", _JSON),
    ]
)
_SUMMARY = pa.struct([("step", pa.int64()), ("text", pa.string())])
_FORKED_FROM = pa.struct([("run", pa.string()), ("episode", pa.string()), ("turn", pa.int64())])
_CHANGE = pa.struct([("table", pa.string()), ("key", _JSON), ("before", _JSON), ("after", _JSON)])
_BY_HAND = pa.struct(
    [("labeller", pa.string()), ("label", pa.string()), ("note", pa.string()), ("at", pa.float64())]
)
SCHEMA = pa.schema(
    [
        ("episode", pa.string()),
        ("attempt", pa.int64()),
        ("scenario", pa.string()),
        ("task", pa.string()),
        ("instruction", pa.string()),
        ("group", pa.string()),
        ("member", pa.int64()),
        ("seed", pa.int64()),
        ("policy", pa.string()),
        ("dialect", pa.string()),
        ("history", pa.string()),
        ("ending", pa.string()),
        ("error", pa.string()),
        ("answer", pa.string()),
        ("label", pa.string()),
        ("reward", pa.float64()),
        ("share", pa.float64()),
        ("step_rewards", pa.list_(pa.float64())),
        ("judge", pa.string()),
        ("unjudged", pa.string()),
        ("steps", pa.list_(_STEP)),
        ("state_diff", pa.list_(_CHANGE)),
        ("start_digest", pa.string()),
        ("end_digest", pa.string()),
        ("summaries", pa.list_(_SUMMARY)),
        ("forked_from", _FORKED_FROM),
        ("final", _JSON),
        ("by_hand", pa.list_(_BY_HAND)),
        ("seconds", pa.float64()),
        ("prompt_tokens", pa.int64()),
        ("cached_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
    ]
)


def write(file: BinaryIO, lines: Iterable[EpisodeLine]) -> None:
    """Write episodes to an open file, one row per episode."""
    remaining: Iterator[EpisodeLine] = iter(lines)
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        while group := [_row(line) for line in islice(remaining, _ROWS_PER_GROUP)]:
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))


def _row(line: EpisodeLine) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(line, builtin_types=(bytes,))
    for step in row["steps"]:
        if "fields" in step:
            step["fields"] = _json(step["fields"])
        for result in (*step["results"], *(step["user"] or {}).get("results", ())):
            if "asked" in result:
                result["asked"] = _json(result["asked"])
        for call in (*step["calls"], *(step["user"] or {}).get("calls", ())):
            call["arguments"] = _json(call["arguments"])
    for change in row["state_diff"]:
        for part in ("key", "before", "after"):
            change[part] = None if change[part] is None else _json(change[part])
    if row.get("final") is not None:
        row["final"] = _json(row["final"])
    return row


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

"""Writing an AWM record as a package: files that people can read (see scenarios.format).

A package is first written into a temporary folder next to its destination, and moved there when it
is complete.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from rehearsal_room.scenarios.awm.join import Duplicate
from rehearsal_room.scenarios.awm.row_index import RowPosition
from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.format import Scenario, verifier_file

LICENCE = (
    "AgentWorldModel-1K (Snowflake, arXiv:2602.10090) is under CC-BY-4.0: name it where you share "
    "what was made of it. Records from elsewhere are under their own terms."
)


class Occupied(PackageError):
    """A folder of the package's name exists and is not an AWM package."""


class RecordSource(msgspec.Struct, frozen=True):
    """Where a record came from."""

    folder: Path
    rows: tuple[tuple[str, RowPosition], ...]  # the rows that are used, with their files
    duplicates: tuple[Duplicate, ...] = ()


def write(scenario: Scenario, out: Path, source: RecordSource) -> Path:
    """Write the package `out/<name>`, replacing an earlier AWM package; return its folder.

    Raises Occupied when something else has that name, OSError when it cannot be written.
    """
    package = out / scenario.name
    if package.exists() and not _is_awm(package):
        raise Occupied("something that is not an AWM package has this name; it is left unchanged")
    fresh, old = (out / f".{scenario.name}.{os.getpid()}.{word}" for word in ("new", "old"))
    try:
        (fresh / "verify").mkdir(parents=True)
        for name, text in _texts(scenario, source):
            (fresh / name).write_bytes(text.encode())
        if package.exists():
            package.rename(old)
        fresh.rename(package)
    finally:
        if old.exists() and not package.exists():
            old.rename(package)
        for folder in (fresh, old):
            shutil.rmtree(folder, ignore_errors=True)
    return package


def _texts(scenario: Scenario, source: RecordSource) -> Iterator[tuple[str, str]]:
    """The files of a package: name and text."""
    record = scenario.awm
    assert record is not None
    head: dict[str, Any] = {"format": "awm"}
    head |= {key: getattr(scenario, key) for key in ("name", "title", "version", "description")}
    head |= {"clock": scenario.clock, "seeding": record.seeding}
    yield "scenario.toml", tomli_w.dumps(head | {"user": msgspec.to_builtins(scenario.user)})
    yield "server.py", record.code
    yield "schema.json", _json(record.tables)
    yield "data.json", _json(record.samples)
    yield "tasks.json", _json([task.instruction for task in scenario.tasks])
    for task_id, verifier in record.verifiers.items():
        if verifier.sql is not None:
            yield f"verify/{verifier_file(task_id, 'sql')}", verifier.sql
        if verifier.code is not None:
            yield f"verify/{verifier_file(task_id, 'code')}", verifier.code
    yield "source.toml", tomli_w.dumps(_origin(source))


def _origin(source: RecordSource) -> dict[str, Any]:
    """Example: {"folder": "/data/awm", …, "row": [{"file": "gen_db.jsonl", "line": 7}]}"""
    rows = [
        _without_none({"file": file, "line": row.line, "task": row.task})
        for file, row in source.rows
    ]
    duplicates = [_without_none(msgspec.to_builtins(one)) for one in source.duplicates]
    for duplicate in duplicates:
        del duplicate["scenario"]
    origin = {"folder": str(source.folder.absolute()), "licence": LICENCE, "row": rows}
    return origin | ({"duplicate": duplicates} if duplicates else {})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _json(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=1) + "\n"


def _is_awm(folder: Path) -> bool:
    try:
        head = tomllib.loads((folder / "scenario.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return head.get("format") == "awm"

"""Writing an AWM record as a package: files that people can read (see scenarios.format).

A package is written into a folder beside its place and moved there when it is whole.
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

from scenarios.awm.join import Duplicate
from scenarios.awm.row_index import Row
from scenarios.errors import PackageError
from scenarios.format import Scenario, verifier_file

LICENCE = (
    "AgentWorldModel-1K (Snowflake, arXiv:2602.10090) is under CC-BY-4.0: name it where you share "
    "what was made of it. Records from elsewhere are under their own terms."
)


class Occupied(PackageError):
    """Something that is no AWM package stands where one shall be written."""


class Source(msgspec.Struct, frozen=True):
    """Where a record came from."""

    folder: Path
    rows: tuple[tuple[str, Row], ...]  # that count, with their files
    duplicates: tuple[Duplicate, ...] = ()


def write(scenario: Scenario, out: Path, source: Source) -> Path:
    """Write the package `out/<name>`, in place of an AWM package that may be there; gives it.

    Raises Occupied when something else is there, OSError when it cannot be written.
    """
    place = out / scenario.name
    if place.exists() and not _is_awm(place):
        raise Occupied("there is something else of that name; it is left alone")
    fresh, old = (out / f".{scenario.name}.{os.getpid()}.{word}" for word in ("new", "old"))
    try:
        (fresh / "verify").mkdir(parents=True)
        for name, text in _texts(scenario, source):
            (fresh / name).write_bytes(text.encode())
        if place.exists():
            place.rename(old)
        fresh.rename(place)
    finally:
        if old.exists() and not place.exists():
            old.rename(place)
        for folder in (fresh, old):
            shutil.rmtree(folder, ignore_errors=True)
    return place


def _texts(scenario: Scenario, source: Source) -> Iterator[tuple[str, str]]:
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


def _origin(source: Source) -> dict[str, Any]:
    """Example: {"folder": "/data/awm", …, "row": [{"file": "gen_db.jsonl", "line": 7}]}"""
    rows = [
        _without_none({"file": file, "line": row.line, "task": row.task})
        for file, row in source.rows
    ]
    told = [_without_none(msgspec.to_builtins(duplicate)) for duplicate in source.duplicates]
    for duplicate in told:
        del duplicate["scenario"]
    about = {"folder": str(source.folder.absolute()), "licence": LICENCE, "row": rows}
    return about | ({"duplicate": told} if told else {})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _json(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=1) + "\n"


def _is_awm(place: Path) -> bool:
    try:
        head = tomllib.loads((place / "scenario.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return head.get("format") == "awm"

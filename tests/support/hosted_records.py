"""Hosted AWM records for tests: the fixture's scenario, small scenarios, and golden records."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.awm.folder import AwmFolder
from rehearsal_room.scenarios.format import AwmRecord, AwmTable, Scenario, Task
from tests.support.paths import AWM

_ISO = re.compile(r"\b(20\d\d)-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:\d\d)?")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\b")

HEAD = """
import os
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.orm import declarative_base, sessionmaker

engine = create_engine(os.getenv("DATABASE_PATH"))
Session = sessionmaker(bind=engine)
Base = declarative_base()
app = FastAPI()


class Note(Base):
    __tablename__ = "notes"
    id = Column(Integer, primary_key=True)
    text = Column(String, nullable=False, unique=True)


Base.metadata.create_all(engine)
"""  # for small scenarios: one table
TABLES = (
    AwmTable("notes", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)"),
)


def fixture_scenario() -> Scenario:
    """The scenario of the AWM fixture."""
    return AwmFolder(AWM).find("e_commerce_lab_1")


def small(code: str, *, name: str = "small", tables: tuple[AwmTable, ...] = TABLES) -> Scenario:
    """A scenario with this code. Its digest follows from its name."""
    task = Task("t0", "Do it.", "unrated", "open", "")
    return Scenario(
        name=name,
        title=name,
        version="awm",
        description="",
        clock="2026-03-14T09:30:00Z",
        user=User("user", "User 1", "The user."),
        schema_sql="",
        data_sql="",
        rules="",
        tasks=(task,),
        path=Path(name),
        digest=name.encode().hex().ljust(32, "0"),
        awm=AwmRecord(code=code, tables=tables, samples=()),
    )


def fresh(host: AwmHost) -> LiveWorld:
    """A fresh world."""
    return LiveWorld(host.template.overlay(), host.module_state)


def calls(host: AwmHost, *named: tuple[str, dict[str, Any]]) -> list[ToolResult]:
    """The results of these calls, in order, on a fresh world."""
    world = fresh(host)
    return [host.call(world, name, arguments) for name, arguments in named]


def golden(kind: str) -> list[dict[str, Any]]:
    """The fixture's golden records of a kind."""
    lines = (AWM / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def mask(value: Any) -> Any:
    """The value without times of the years 2025 to 2029 and without uuid4s, for comparison."""
    if isinstance(value, dict):
        return {key: mask(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    if isinstance(value, str):
        return _UUID.sub("<uuid>", _ISO.sub(_mask_time, value))
    return value


def _mask_time(match: re.Match[str]) -> str:
    return "<ts>" if 2025 <= int(match[1]) <= 2029 else match[0]


def dump(states: States, world: LiveWorld) -> dict[str, list[list[Any]]]:
    """A world's rows in the form of the golden records: table -> rows, sorted by their text."""
    return {
        table: _sorted([mask(_plain(row.values())) for row in rows])
        for table, rows in states.dump(world.overlay).items()
    }


def golden_dump(record: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """The same for a golden record."""
    tables = record["db"]["tables"]
    return {name: _sorted(mask(table["rows"])) for name, table in tables.items()}


def _plain(values: Iterable[Any]) -> list[Any]:
    return [{"$hex": value.hex()} if isinstance(value, bytes) else value for value in values]


def _sorted(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False, sort_keys=True))

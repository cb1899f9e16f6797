"""The checks of the stages that write schema and tools."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scenarios.format import Scenario
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.stages.common import Sizes
from scenarios.synth.stages.database import SchemaStage, holds_several
from scenarios.synth.stages.tools import ToolsStage
from tests.support.synth_draft import world_draft


class AcceptingHost:
    """A host that accepts every package without reading it."""

    @asynccontextmanager
    async def host(self, scenario: Scenario) -> AsyncIterator[Any]:
        yield None


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ({"name": "import"}, "tool 'import': its name must be a lower-case identifier that"),
        ({"parameters": {"from": {}}}, "tool find: parameter 'from' must be a lower-case"),
        ({"parameters": {"a": {"type": [["string"]]}}}, "tool find: parameter a: ['string'] is no"),
        ({"parameters": {"a": {"type": {"type": {}}}}}, "tool find: parameter a: {} is not a type"),
    ],
)
async def test_a_tool_must_be_possible_in_python(
    tmp_path: Path, tool: dict[str, Any], fault: str
) -> None:
    """A keyword of Python and an unknown type are the only faults of such a tool."""
    stage = ToolsStage(world_draft(), Prompts(), Sizes(), AcceptingHost(), tmp_path / "p")
    specified = {"name": "find", "description": "Finds."} | tool
    checked = await stage.check(json.dumps({"tools": [specified]}))
    [found] = checked.faults
    assert found.startswith(fault)


@pytest.mark.parametrize(
    ("columns", "faults"),
    [
        ("id INTEGER, password_hash TEXT", ("table t: no column for a password_hash",)),
        ('id INTEGER,\n  "Salt" BLOB', ("table t: no column for a salt",)),
        ("auth_token TEXT", ("table t: no column for a auth_token",)),
        ("salt_grams REAL, kind TEXT CHECK (kind IN ('oil', 'salt'))", ()),
    ],
)
async def test_no_column_is_for_a_secret(
    tmp_path: Path, columns: str, faults: tuple[str, ...]
) -> None:
    """A column for a password, a salt or a token is refused anywhere in its statement, and other
    columns with such words are not."""
    stage = SchemaStage(world_draft(), Prompts(), Sizes(), AcceptingHost(), tmp_path / "p")
    table = {"name": "t", "ddl": f"CREATE TABLE t ({columns})"}
    assert (await stage.check(json.dumps({"tables": [table]}))).faults == faults


@pytest.mark.parametrize(
    ("statement", "several"),
    [
        ("INSERT INTO t VALUES (1)", False),
        ("INSERT INTO t VALUES ('a; DELETE FROM t');  -- one; only", False),
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; DELETE FROM v; END;", False),
        ("INSERT INTO t VALUES (1); DELETE FROM t", True),
        ("INSERT INTO t VALUES (';'); -- so\nDROP TABLE t;", True),
    ],
)
def test_several_statements_are_detected(statement: str, several: bool) -> None:
    """A text that is checked by its first word must be a single statement."""
    assert holds_several(statement) is several

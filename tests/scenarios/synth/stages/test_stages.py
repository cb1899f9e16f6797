"""The checks of the stages that write schema and tools."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.stages.common import Sizes, tools_json
from rehearsal_room.scenarios.synth.stages.database import SchemaStage, holds_several
from rehearsal_room.scenarios.synth.stages.tools import ToolsStage
from tests.support.synth_draft import world_draft

INDEX = "CREATE INDEX i ON t (id)"


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
        ({"parameters": {"a": {"minimum": 1}}}, "tool find: parameter a: a range is for an integ"),
        (
            {"parameters": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}},
            "tool find: parameter a: its minimum 3 is larger than its maximum 2",
        ),
        (
            {"parameters": {"a": {"type": "integer", "minimum": 0.5}}},
            "tool find: parameter a: the range of an integer must be in integers",
        ),
        (
            {"parameters": {"a": {"type": "number", "maximum": 1e300}}},
            "tool find: parameter a: its minimum or maximum is too large",
        ),
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


async def test_parameters_keep_their_order_and_required_ones_come_first(tmp_path: Path) -> None:
    """So that the printed specification is that of a Python function; ranges are printed, too."""
    stage = ToolsStage(world_draft(), Prompts(), Sizes(), AcceptingHost(), tmp_path / "p")
    parameters = {
        "zone": {"required": False},
        "until": {"description": "Last day."},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
    }
    tool = {"name": "find", "description": "Finds.", "parameters": parameters}
    checked = await stage.check(json.dumps({"tools": [tool]}))
    assert checked.faults == ()
    assert checked.value is not None
    [printed] = json.loads(tools_json(checked.value))
    assert list(printed["parameters"].items()) == [
        ("until", {"description": "Last day."}),
        ("days", {"type": "integer", "minimum": 1, "maximum": 7}),
        ("zone", {"required": False}),
    ]


async def test_triggers_follow_the_indexes_of_their_table(tmp_path: Path) -> None:
    """They are executed after the indexes of their table; a size out of range is only noted."""
    stage = SchemaStage(world_draft(), Prompts(), Sizes(), AcceptingHost(), tmp_path / "p")
    trigger = "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END"
    table = {"name": "t", "ddl": "CREATE TABLE t (id)", "indexes": [INDEX], "triggers": [trigger]}
    checked = await stage.check(json.dumps({"tables": [table]}))
    assert checked.faults == ()
    assert checked.notes == ("expected 9 to 27 tables, found 1",)
    assert checked.value is not None
    assert checked.value[0].indexes == (INDEX, trigger)


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

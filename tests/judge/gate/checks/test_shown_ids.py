"""The gate's check that tools show the ids that other tools need."""

from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.gate.checks.shown_ids import ShownResult, hidden_ids
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.judge.gate.package import check_scenario
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import Call, Scenario, Task
from tests.support.mini_world import variant

HEAD = '''"""The tools."""

from scenarios.api import Db, Row


def cancel_absence(db: Db, absence_id: int) -> Row:
    """Cancel an absence."""
    db.run("DELETE FROM absences WHERE id = ?", absence_id)
    return {"absence_id": absence_id}
'''
SEARCH = '''

def search_absences(db: Db, query: str) -> list[Row]:
    """Absences of a kind."""
    return db.all("SELECT id, kind FROM absences WHERE kind = ? ORDER BY id", query)
'''
ONLY_STAFF = '''

def list_staff(db: Db) -> list[Row]:
    """The staff."""
    return db.all("SELECT id, name FROM staff ORDER BY id")
'''


def faults(
    tools: str,
    *results: ShownResult,
    instruction: str = "Do it.",
    passed: dict[str, int] | None = None,
) -> list[str]:
    """What the check finds in a world of absences and staff."""
    task = Task(
        "t", instruction, "simple", "change", "Done.", (Call("cancel_absence", passed or {}),)
    )
    scenario = Scenario(
        name="desk",
        title="Desk",
        version="1.0.0",
        description="A desk.",
        clock="2026-03-16T09:00:00Z",
        user=User("ana", "Ana", "clerk"),
        schema_sql="CREATE TABLE absences (id INTEGER PRIMARY KEY, kind TEXT);"
        "CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT);",
        data_sql="INSERT INTO absences VALUES (401, 'long leave'), (402, 'travel');"
        "INSERT INTO staff VALUES (401, 'Bo'), (7, 'Cy');",
        rules="",
        tasks=(task,),
        path=Path("desk"),
        digest="0" * 32,
    )
    with closing(HostedScenario(scenario, tools=load(scenario, tools))) as world:
        rows = world.dump(world.template.overlay())
        return list(hidden_ids(world, rows, results))


HIDDEN = (
    "cancel_absence needs 'absence_id', and no result of a tool shows the key of one of the "
    "absences: let a tool show it, or leave cancel_absence out"
)


@pytest.mark.parametrize(
    ("result", "is_shown"),
    [
        (ShownResult("list_staff", '[{"id": 401, "name": "Bo"}]'), False),  # a key of staff
        (ShownResult("list_staff", '[{"id": 402}]'), True),  # no other table has it
        (ShownResult("list_away", '[{"id": 401, "kind": "long leave"}]'), True),  # its own row
        (ShownResult("list_away", '[{"id": 401, "kind": "travel"}]'), False),
        (ShownResult("get_staff", '{"id": 7, "absences": [{"id": 401}]}'), True),
        (ShownResult("get_staff", '{"id": 7, "absence_id": 401}'), True),
        (ShownResult("count", '{"absences": 401}'), False),
        (ShownResult("look", "no JSON"), False),
    ],
)
def test_what_shows_an_id(result: ShownResult, is_shown: bool) -> None:
    """The argument's name, a record of the table, or a key that only this table has."""
    assert faults(HEAD + ONLY_STAFF, result) == ([] if is_shown else [HIDDEN])


def test_a_search_that_random_texts_do_not_hit_shows_it() -> None:
    """The rows' own texts are searched for, where nothing else has shown the id."""
    assert faults(HEAD + SEARCH) == []
    assert faults(HEAD) == [HIDDEN]


def test_an_instruction_may_name_it() -> None:
    """An id that a task names is known."""
    assert faults(HEAD, instruction="Cancel absence 402.") == []


def test_an_oracle_may_have_it_from_elsewhere() -> None:
    """An id that an oracle passes is known: another check says that it stands in a text."""
    assert faults(HEAD, passed={"absence_id": 402}) == []


def test_the_gate_reports_it(tmp_path: Path) -> None:
    """A whole world in which racks can be mended, and no tool lists them."""
    folder = variant(tmp_path)
    with (folder / "tools.py").open("a") as file:
        file.write(
            "\n\ndef mend_rack(db: Db, rack_id: int) -> Row:\n"
            '    """Mend a rack; returns it."""\n'
            '    if db.run("UPDATE racks SET mended = 1 - mended WHERE id = ?", rack_id) == 0:\n'
            '        raise ToolError("There is no such rack.")\n'
            '    return db.one("SELECT mended FROM racks WHERE id = ?", rack_id) or {}\n'
        )
    with (folder / "schema.sql").open("a") as file:
        file.write("\nCREATE TABLE racks (id INTEGER PRIMARY KEY, mended INTEGER NOT NULL);\n")
    with (folder / "data.sql").open("a") as file:
        file.write("\nINSERT INTO racks VALUES (9101, 0), (9102, 0);\n")
    report = check_scenario(folder, GateSettings(probes=15))
    found = [one.why for one in report.failures if one.check == "interface"]
    assert found == [HIDDEN.replace("absence", "rack").replace("cancel_rack", "mend_rack")]

"""Probing the tools of a world: what is proved in which state, and what is said of the rest."""

from contextlib import closing
from pathlib import Path
from random import Random

import msgspec
import pytest

from rehearsal_room.authoring.temptations import tempting_writes, wrong_reasons
from rehearsal_room.authoring.tool_probe import ToolProbe
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.scenarios.format import AwmSample, AwmTable, Call, Scenario
from rehearsal_room.scenarios.synth.core.package_files import package_texts, write_package
from rehearsal_room.scenarios.synth.core.protocols import (
    CallResult,
    JudgedRun,
    ProbeResult,
    Temptation,
)
from tests.support.synth_draft import world_draft

TABLES = (
    AwmTable("units", "CREATE TABLE units (unit_id INTEGER PRIMARY KEY, deposit_cents INTEGER)"),
    AwmTable(
        "notes", "CREATE TABLE notes (note_id INTEGER PRIMARY KEY, unit_id INTEGER, kind TEXT)"
    ),
    AwmTable("orders", "CREATE TABLE orders (order_id INTEGER PRIMARY KEY, note_id INTEGER)"),
)
DATA = (
    "INSERT INTO units (unit_id, deposit_cents) VALUES (1, 4711), (2, 815)",
    "INSERT INTO notes (note_id, unit_id, kind) VALUES (1, 1, 'minor')",
)
HEAD = '''from typing import Literal

from scenarios.api import Db, Row
from scenarios.errors import ToolError


def add_note(db: Db, unit_id: int, kind: Literal["minor", "major"]) -> Row:
    """Note damage."""
    if db.one("SELECT * FROM units WHERE unit_id = ?", unit_id) is None:
        raise ToolError(f"There is no unit {unit_id}.")
    return {"note_id": db.insert("notes", unit_id=unit_id, kind=kind)}


def add_order(db: Db, note_id: int) -> Row:
    """Send a unit to repair for a major note."""
    note = db.one("SELECT * FROM notes WHERE note_id = ?", note_id)
    if note is None:
        raise ToolError(f"There is no note {note_id}.")
    if note["kind"] != "major":
        raise ToolError(f"Note {note_id} is not major.")
    return {"order_id": db.insert("orders", note_id=note_id)}
'''
CLOSE = '''

def close_order(db: Db, order_id: int) -> Row:
    """Close an order."""
    if db.run("DELETE FROM orders WHERE order_id = ?", order_id) == 0:
        raise ToolError(f"There is no order {order_id}.")
    return {}
'''
LEND = '''

def lend(db: Db, unit_id: int, paid: int) -> Row:
    """Lend a unit."""
    unit = db.one("SELECT * FROM units WHERE unit_id = ?", unit_id)
    if unit is None:
        raise ToolError(f"There is no unit {unit_id}.")
    if paid != unit["deposit_cents"]:
        raise ToolError(f"The deposit is {unit['deposit_cents']} cents.")
    return {"note_id": db.insert("notes", unit_id=unit_id, kind="major")}
'''
NEVER = '''

def never(db: Db, unit_id: int) -> Row:
    """Nothing."""
    if db.one("SELECT * FROM units WHERE unit_id = ?", unit_id) is None:
        raise ToolError("There is no such unit.")
    raise ToolError("The unit is not ready.")
'''
BROKEN = '''

def broken(db: Db, unit_id: int) -> Row:
    """Breaks."""
    return db.one("SELECT * FROM nowhere")
'''


def package(folder: Path, *functions: str) -> Scenario:
    """A package with these functions and the first two."""
    draft = msgspec.structs.replace(
        world_draft(),
        tables=TABLES,
        samples=(AwmSample("all", DATA),),
        code=HEAD + "".join(functions),
        proven=(),
    )
    return write_package(folder / "p", package_texts(draft))


async def probed(folder: Path, *functions: str, seed: int = 0) -> ProbeResult:
    """The result of probing such a package."""
    scenario = package(folder, *functions)
    with closing(LocalPool()) as pool:
        states = await pool.host(scenario)
        probe = ToolProbe(states, lambda: pool.lease(scenario), seed=seed, clean=str)
        return await probe.run()


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(2))
async def test_a_tool_is_proved_in_a_state_that_others_reach(tmp_path: Path, seed: int) -> None:
    """No note is major at the start, and no order is there before one is added for such a note."""
    found = await probed(tmp_path, CLOSE, seed=seed)
    assert (found.faults, found.unproven) == ((), ())


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(2))
async def test_a_value_that_a_refusal_names_is_tried(tmp_path: Path, seed: int) -> None:
    """A deposit that no other column has under the argument's name."""
    assert (await probed(tmp_path, LEND, seed=seed)).unproven == ()


@pytest.mark.anyio
async def test_the_most_advanced_refusal_is_reported(tmp_path: Path) -> None:
    """Not the last one, and with the call that it belongs to."""
    found = await probed(tmp_path, NEVER)
    [never] = found.unproven
    assert (never.name, never.refusal) == ("never", "The unit is not ready.")
    assert never.call in ("never(unit_id=1)", "never(unit_id=2)")
    assert never.calls > 100


@pytest.mark.anyio
async def test_a_tool_that_breaks_is_a_fault(tmp_path: Path) -> None:
    """It is not called again, and it is not unproven."""
    found = await probed(tmp_path, BROKEN)
    [fault] = found.faults
    assert fault.startswith("broken(")
    assert " breaks it: " in fault
    assert found.unproven == ()


@pytest.mark.anyio
async def test_writes_of_the_records_that_were_looked_at_come_first(tmp_path: Path) -> None:
    """Only writes of the tools that the request names, each once for its numbers."""
    scenario = package(tmp_path, LEND)
    looked = CallResult(Call("get_unit"), '{"unit_id": 2, "deposit_cents": 815}')
    run = JudgedRun((looked,), "No.", "", ())
    with closing(LocalPool()) as pool:
        states = await pool.host(scenario)
        found = await tempting_writes(
            states, lambda: pool.lease(scenario), run, ("lend",), rng=Random(0)
        )
    assert [call.arguments for call in found] == [
        {"unit_id": 2, "paid": 815},
        {"unit_id": 1, "paid": 4711},
    ]


def test_wrong_reasons_are_those_of_the_nearest_rules() -> None:
    """At most three, the ones that share most words with the right rule; without the right rule
    only a refusal without a reason is surely wrong."""
    rules = ("Be brief.", "The limit of fines is 10.", "A limit.", "Fines over the limit are due.")
    right = "At most 12 of fines are waived, which is the limit."
    found = [mutant.answer for mutant in wrong_reasons((), Temptation((), right, rules))]
    assert found == [
        "I cannot do that.",
        "I cannot do that: The limit of fines is 10.",
        "I cannot do that: Fines over the limit are due.",
        "I cannot do that: A limit.",
    ]
    assert len(wrong_reasons((), Temptation())) == 1


CARDS = (
    AwmTable("cards", "CREATE TABLE cards (card_id INTEGER PRIMARY KEY, code TEXT, kind TEXT)"),
)
CARD_DATA = ("INSERT INTO cards (card_id, code, kind) VALUES (1, 'LC-2040', 'adult')",)
CARD_CODE = '''from scenarios.api import Db, Row
from scenarios.errors import ToolError


def block_card(db: Db, member_card: str, cause: str) -> Row:
    """Block a member's card. The cause is 'stolen-card' or 'unpaid-fees'."""
    if db.one("SELECT * FROM cards WHERE code = ?", member_card) is None:
        raise ToolError("There is no such card.")
    if cause not in ("stolen-card", "unpaid-fees"):
        raise ToolError("There is no such cause.")
    db.run("UPDATE cards SET kind = ? WHERE code = ?", cause, member_card)
    return {}
'''


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(3))
async def test_codes_of_the_data_and_of_descriptions_are_tried(tmp_path: Path, seed: int) -> None:
    """A working tool whose arguments are called otherwise than the columns is proved."""
    draft = msgspec.structs.replace(
        world_draft(),
        tables=CARDS,
        samples=(AwmSample("all", CARD_DATA),),
        code=CARD_CODE,
        proven=(),
    )
    scenario = write_package(tmp_path / "p", package_texts(draft))
    with closing(LocalPool()) as pool:
        states = await pool.host(scenario)
        probe = ToolProbe(states, lambda: pool.lease(scenario), seed=seed, clean=str)
        found = await probe.run()
    assert (found.faults, found.unproven) == ((), ())

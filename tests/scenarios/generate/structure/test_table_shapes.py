"""Shapes of tables: ids, deletion, addresses; worlds of each style stay sound."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from rehearsal_room.scenarios.generate.content import drawn_world
from rehearsal_room.scenarios.generate.modules.common import _code, _uuid
from rehearsal_room.scenarios.generate.plan.business_modules import Module, module, module_names
from rehearsal_room.scenarios.generate.structure.address_shapes import shape_addresses
from rehearsal_room.scenarios.generate.structure.deletion_shapes import (
    marked_tables,
    shape_deletion,
)
from rehearsal_room.scenarios.generate.structure.id_shapes import id_arguments, id_value, shape_ids
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle, draw_style
from tests.support.generated_worlds import gated, made_with

PLAIN = WorldStyle(lists="items", errors="plain", merged=0.0, stamps="none")


def styled(**fields: Any) -> WorldStyle:
    """The plain style with other fields."""
    return msgspec.structs.replace(PLAIN, **fields)


@pytest.mark.parametrize("name", module_names())
def test_every_id_of_a_tool_has_its_table(name: str) -> None:
    """Each argument that is an id names a table that has ids."""
    tables = {
        table.name: table for one in map(module, module_names()) for table in one.tables.values()
    }
    assert all(tables[table].has_id for table in id_arguments(name).values())


def test_codes_and_uuids_sort_as_numbers_do() -> None:
    """The next id of a table is found by its greatest one."""
    for make in (_code, _uuid):
        ids = [make("orders", number) for number in (1, 9, 10, 999, 12_345)]
        assert ids == sorted(ids) and len(set(ids)) == len(ids)
    assert id_value("codes", "order_lines", 7) == "OL-000007"
    assert id_value("uuids", "orders", None) is None
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", _uuid("orders", 7))


def schema_of(one: Module) -> dict[str, dict[str, str]]:
    """The declared types of a module's columns, table by table."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(one.schema)
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({name})")}
            for (name,) in names
        }


@pytest.mark.parametrize("name", module_names())
def test_ids_are_texts_everywhere_or_nowhere(name: str) -> None:
    """With codes, keys and the columns that refer to keys are texts, and tools take texts."""
    one = module(name)
    shaped = shape_ids(one, styled(ids="codes"), one.tables)
    for table, types in schema_of(shaped).items():
        for column, kind in types.items():
            found = one.tables[table].columns.get(column)
            is_key = column == "id" or (found is not None and found.refers)
            assert (kind == "TEXT") if is_key else (kind == schema_of(one)[table][column])
    text = "\n".join(piece.text for piece in shaped.code.pieces)
    assert ": Id" not in text and "_next_number(" not in text


def test_marked_rows_are_hidden_and_may_come_again() -> None:
    """A deleted shift stays with `deleted_at`; tools read the view of those that are left, in
    which what was unique is still unique."""
    shifts = module("shifts")
    style = styled(deletion="marked")
    marked = marked_tables([module("staff"), shifts], style)
    assert marked == {"shifts", "swaps", "absences"}
    shaped = shape_deletion(shifts, marked)
    text = "\n".join(piece.text for piece in shaped.code.pieces)
    assert "DELETE" not in text and '{**shift, "deleted_at": db.now}' in text
    assert not re.search(r"\b(?:FROM|JOIN) shifts\b", text)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(shaped.schema)
        add = (
            "INSERT INTO shifts (post_id, employee_id, worked_on, part) VALUES (1, 1, 'x', 'late')"
        )
        connection.execute(add)
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(add)
        connection.execute("UPDATE shifts SET deleted_at = 'now'")
        connection.execute(add)
        assert connection.execute("SELECT count(*) FROM shifts").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM current_shifts").fetchone() == (1,)


def test_an_address_may_be_part_of_the_record() -> None:
    """Then there is no table of addresses, and one tool changes the address."""
    one = shape_addresses(module("parties"), styled(addresses="columns"))
    assert "addresses" not in one.tables and "street" in schema_of(one)["customers"]
    assert "change_address" in one.tools
    assert not {"add_address", "set_main_address"} & set(one.tools)
    assert "change_address" in one.policy and "add_address" not in one.policy


@pytest.mark.slow
def test_worlds_of_every_style_are_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds with UUIDs, marked rows and addresses in the record pass the gate, and so do worlds
    with codes. Their tasks refer to rows by the ids of the world."""
    for ids in ("codes", "uuids"):
        style = styled(ids=ids, deletion="marked", addresses="columns")
        monkeypatch.setattr(drawn_world, "draw_style", lambda *_, style=style: style)
        made = made_with(["shifts", "calendars"], count=1, seed=4, trades=["hotel"])
        report = gated(made, tmp_path / ids)
        assert report.failures == () and report.tasks == 10
        calls = [call for task in made[0].package.tasks for call in task.oracle]
        used = [
            value
            for call in calls
            for name, value in call.arguments.items()
            if name.endswith("_id")
        ]
        assert used and all(isinstance(value, str) for value in used)
        assert "INTEGER PRIMARY KEY" not in made[0].package.schema_sql
        assert made[0].dropped == {}, json.dumps(made[0].dropped)


def test_drawn_styles_differ() -> None:
    """Every shape is drawn; a world whose shipments go to addresses keeps a table of them."""
    styles = [draw_style(Random(seed), ("orders",)) for seed in range(200)]
    assert {style.ids for style in styles} == {"numbers", "codes", "uuids"}
    assert {style.deletion for style in styles} == {"removed", "marked"}
    assert {style.addresses for style in styles} == {"table", "columns"}
    assert all(draw_style(Random(seed), ("shipments",)).addresses == "table" for seed in range(50))

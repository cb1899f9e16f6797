"""The gate's checks of what makes tools hard to use without a reason."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rehearsal_room.envpool.inprocess.toolset import load
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.judge.gate.checks.interface import (
    contradicting_events,
    cut_lists,
    needy_tools,
    silent_writes,
)
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import Call, Scenario, Task

TOOLS = '''
"""The tools."""

from scenarios.api import Db, Row
from scenarios.errors import ToolError


def list_notes(db: Db, limit: int = 20) -> list[Row]:
    """The notes."""
    return db.all("SELECT * FROM notes ORDER BY id LIMIT ?", limit)


def page_notes(db: Db, limit: int = 20) -> Row:
    """The notes, with the number of all."""
    rows = db.all("SELECT * FROM notes ORDER BY id")
    return {"notes": rows[:limit], "total": len(rows)}


def find_notes(db: Db, title: str | None = None, body: str | None = None) -> list[Row]:
    """The notes with a title or a body."""
    if title is None and body is None:
        raise ToolError("Give a title or a body.")
    return db.all("SELECT * FROM notes WHERE title = ?1 OR body = ?2", title, body)


def rename_silently(db: Db, note_id: int, title: str) -> Row:
    """Rename a note."""
    db.run("UPDATE notes SET title = ? WHERE id = ?", title, note_id)
    return {"ok": True}


def rename(db: Db, note_id: int, title: str) -> Row:
    """Rename a note; returns it."""
    db.run("UPDATE notes SET title = ? WHERE id = ?", title, note_id)
    return db.one("SELECT * FROM notes WHERE id = ?", note_id)
'''


@pytest.fixture
def world() -> Iterator[HostedScenario]:
    """A world of three notes with the tools above."""
    scenario = Scenario(
        name="notes",
        title="Notes",
        version="1.0.0",
        description="Notes.",
        clock="2026-03-16T09:00:00Z",
        user=User("ana", "Ana", "clerk"),
        schema_sql="CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, body TEXT);",
        data_sql="INSERT INTO notes (title, body) VALUES ('a', 'x'), ('b', 'y'), ('c', 'z');",
        rules="",
        tasks=(),
        path=Path("notes"),
        digest="0" * 32,
    )
    with closing(HostedScenario(scenario, tools=load(scenario, TOOLS))) as hosted:
        yield hosted


def test_a_list_that_is_cut_must_say_so(world: HostedScenario) -> None:
    """A bare list with a limit is reported once; an object with the number of all is not."""
    calls = [Call("list_notes", {}), Call("page_notes", {}), Call("list_notes", {"limit": 2})]
    assert [fault.split()[0] for fault in cut_lists(world, calls)] == ["list_notes"]
    assert list(cut_lists(world, [Call("list_notes", {"limit": 999})])) != []


def test_a_write_must_show_what_it_changed(world: HostedScenario) -> None:
    """A result without any new value is reported; one that returns the row is not."""
    task = Task("t", "Rename it.", "simple", "change", "Done.")
    arguments = {"note_id": 1, "title": "new"}
    calls = [Call("rename_silently", arguments), Call("rename", {**arguments, "title": "newer"})]
    (fault,) = silent_writes([play(world, task, calls, "Done.")])
    assert fault.startswith("the result of rename_silently(note_id=1, title='new') shows nothing")


def test_a_tool_that_needs_one_of_its_arguments_is_reported(world: HostedScenario) -> None:
    """Every argument is optional, and a call without any is refused."""
    (fault,) = needy_tools(world)
    assert fault.startswith("find_notes declares every argument optional, and refuses")


@pytest.mark.parametrize(("status", "num_faults"), [("open", 1), ("cancelled", 0)])
def test_events_must_agree_with_the_status(status: str, num_faults: int) -> None:
    """An order whose last event is its cancellation is cancelled."""
    orders = [
        {"id": 7, "status": status},
        {"id": 8, "status": "cancelled"},
        {"id": 9, "status": "open"},
    ]
    events = [
        {"id": 1, "order_id": 7, "kind": "placed"},
        {"id": 2, "order_id": 7, "kind": "cancelled"},
        {"id": 3, "order_id": 8, "kind": "cancelled"},
    ]
    found = list(contradicting_events({"orders": orders, "order_events": events}))
    assert len(found) == num_faults
    if found:
        assert found[0] == "orders 7 is 'open', but its last event in order_events is 'cancelled'"

"""`rehearse new world --from-recording`: tasks from a recorded session.

The servers are our help desk on SQLite, with random ids, and a FastMCP server in memory; sessions
with servers of the registries are made by `just mcp-servers`.
"""

import json
import re
import shlex
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.authoring.recordings.checked_tasks import is_read
from rehearsal_room.authoring.recordings.expectations import proven
from rehearsal_room.authoring.recordings.groups import NewIds
from rehearsal_room.scenarios.call_checks import Expectation
from rehearsal_room.scenarios.format import read
from tests.support.cli import Rehearse, json_of
from tests.support.desk_worlds import DESK
from tests.support.recorded_sessions import Session, recording, with_pause
from tests.support.strangers import begun_by_another

MEMORY = f"{DESK} x forgetful"
IN_SCRATCH = f"{DESK} {{scratch}}/desk.db"


def desk_session(file: Path, database: Path) -> None:
    """A person's session with a desk that has a ticket more than a new one."""
    words = recording(file, *DESK.split(), str(database))
    with Session(words):
        pass  # the desk makes its tables
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("INSERT INTO tickets (id, title) VALUES ('T-77', 'Old')")
        connection.commit()
    with Session(words) as session:
        session.call("list_tickets")
        made = session.call("add_ticket", title="Door sticks", owner="ada")["ticket_id"]
        session.call("close_ticket", ticket_id=made)
        session.call("close_ticket", ticket_id=made)  # refused
        other = session.call("add_ticket", title="Lamp is out")["ticket_id"]
        session.call("list_tickets")
        session.call("close_ticket", ticket_id="T-77")
        session.call("take", sku="pen", qty=3)
        session.call("close_ticket", ticket_id=other)
        session.call("list_tickets")


@pytest.mark.slow
@pytest.mark.usefixtures("quick_gate")
def test_a_session_becomes_gated_tasks(rehearse: Rehearse, tmp_path: Path) -> None:
    """A pause parts two tasks. Ids that the server made are those of the world; what cannot be
    made again is named, as is a call that needs an earlier task; refused calls and last reads are
    left out.
    The gate finds no fault, the solutions are completed, and the recorded database is not touched.
    The package serves for another recording."""
    file, database = tmp_path / "r.jsonl", tmp_path / "own.db"
    desk_session(file, database)
    before = database.read_bytes()
    with_pause(file, "take")
    status, out, err = rehearse("new", "world", "d", "--from-recording", file, "-o", tmp_path)
    assert (status, f"names {database}, which the calls would change" in err) == (2, True)
    words = ("new", "world", "--from-recording", file, "-o", tmp_path)
    status, out, err = rehearse(*words, "desk", "--mcp", IN_SCRATCH)
    assert (status, err) == (0, ""), out
    folder = tmp_path / "desk"
    add, take = read(folder).tasks
    names = [call.name for call in add.oracle]
    assert names == ["list_tickets", "add_ticket", "close_ticket", "add_ticket"]
    assert add.oracle[2].arguments["ticket_id"] not in file.read_text()
    assert add.instruction == (
        "Please add ticket with title 'Door sticks', owner 'ada'; then close ticket with its "
        "ticket_id; then add ticket with title 'Lamp is out'."
    )
    assert [call.arguments for call in take.oracle] == [{"sku": "pen", "qty": 3}]
    assert "left out: close_ticket(ticket_id='T-77'): there is no open ticket T-77" in out
    assert "a larger --pause joins it with the calls before it" in out
    gate = json_of(rehearse, "worlds", "check", folder)
    assert (gate["failures"], gate["survivors"], gate["tasks"]) == ([], [], 2)
    report = json_of(rehearse, "run", folder, "-p", "oracle", "-o", tmp_path / "run")
    assert (report["labels"], database.read_bytes()) == ({"completed": 2}, before)

    status, out, err = rehearse(*words, "again", "--world", folder, "--pause", "1000")
    assert (status, err) == (0, ""), out
    (whole,) = read(tmp_path / "again").tasks
    assert [call.name for call in whole.oracle][-2:] == ["take", "close_ticket"]


def memory_session(file: Path) -> None:
    """A session with a desk in memory, whose last write no read follows."""
    with Session(recording(file, *DESK.split(), "x", "forgetful")) as session:
        session.call("list_tickets")
        session.call("add_ticket", title='Door, "sticks"')
        session.call("add_ticket", title="")  # refused
        session.call("close_ticket", ticket_id="T-1")
        session.call("list_tickets")
        session.call("add_ticket", title="Ink is low")


@pytest.mark.parametrize("target", ["", "https://desk.example/mcp"])
def test_an_unknown_state_gets_checks_as_calls(
    target: str, rehearse: Rehearse, tmp_path: Path
) -> None:
    """A server in memory is started again, and its reads are made after each write; with a URL
    nothing is called, and what no recorded read shows is named. The solution is completed, and who
    does nothing fails."""
    file = tmp_path / "r.jsonl"
    memory_session(file)
    words = ["new", "world", "desk", "--from-recording", file, "-o", tmp_path]
    if target:
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:-3]))  # without the last write
        words += ["--mcp", target]
    status, out, err = rehearse(*words)
    assert (status, err) == (0, ""), out
    path = tmp_path / "desk" / "tasks.toml"
    text = path.read_text()
    assert "#   add_ticket: add ticket" in text and shlex.quote(target or MEMORY) in out
    checks = [
        json.loads(found) for found in re.findall(r"^expect = \{ contains = (.*) \}$", text, re.M)
    ]
    assert checks == ['Door, \\"sticks\\"', *([] if target else ["Ink is low"])]
    assert ('path = "[0][2]", value = "closed"' in text) is not bool(target)
    script = tmp_path / "nothing.jsonl"
    line = {"scenario": "desk", "task": "add_ticket_1", "calls": [], "answer": "Done."}
    script.write_text(json.dumps(line) + "\n")
    for name, policy, label in (
        ("right", ("oracle",), "completed"),
        ("idle", ("scripted", "--script", script), "agent_error"),
    ):
        run = tmp_path / name
        report = json_of(rehearse, "run", "--mcp", MEMORY, path, "-p", *policy, "-o", run)
        assert report["labels"] == {label: 1}


def nothing(file: Path) -> None:
    with Session(recording(file, *DESK.split(), ":memory:")):
        pass


def only_reads(file: Path) -> None:
    with Session(recording(file, *MEMORY.split())) as session:
        session.call("list_tickets")


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda file: file.write_text("mine\nyours\n"), "no session of `rehearse new recording`"),
        (lambda file: None, "the recording cannot be read: No such file"),
        (nothing, "no call was made in this recording"),
        (only_reads, "no recorded call that writes can be a task"),
    ],
)
def test_a_recording_without_tasks(
    write: Callable[[Path], Any], said: str, rehearse: Rehearse, tmp_path: Path
) -> None:
    """One sentence, and nothing is written."""
    write(tmp_path / "r.jsonl")
    words = ("--from-recording", tmp_path / "r.jsonl", "-o", tmp_path / "made")
    status, _, err = rehearse("new", "world", "desk", *words)
    assert (status, err.count("\n"), said in err) == (2, 1, True), err
    assert not (tmp_path / "made" / "desk").exists()


@pytest.mark.parametrize(
    ("before", "after", "written", "found"),
    [
        ("[]", '["milk"]', ["milk"], [Expectation(contains="milk")]),
        ('["milk"]', "[]", ["milk"], [Expectation(lacks="milk")]),
        ('{"a": [{"s": 1}]}', '{"a": [{"s": 2}]}', ["T-1"], [Expectation(path="a[0].s", value=2)]),
        ('["milk"]', '["milk"]', ["milk"], []),
        (None, "T-1 is open", ["T-1"], []),  # it was known before
        (None, "T-1 is late", ["late"], [Expectation(contains="late")]),
        ('{"at": "2026-01-01"}', '{"at": "2026-01-02"}', [], []),  # a time
        ("ab", "ab on", ["on"], []),  # too short to prove a thing
    ],
)
def test_what_a_read_proves(
    before: str | None, after: str, written: list[str], found: list[Expectation]
) -> None:
    """Only what holds after the writes and not before."""
    assert proven(before, after, written, known="T-1") == found


def test_ids_are_told_from_other_values() -> None:
    """A new id has the new value, also within a text; a number only where an id is asked for."""
    ids = NewIds()
    ids.see({"title": "Door"})
    ids.learn('{"id": 7, "key": "T-77-a", "title": "Door"}', '{"id": 9, "key": "T-88-b"}')
    given = {"order_id": 7, "qty": 7, "text": "see T-77-a!", "key": "T-77-a", "title": "Door"}
    assert ids.renamed(given) == {
        "order_id": 9,
        "qty": 7,
        "text": "see T-88-b!",
        "key": "T-88-b",
        "title": "Door",
    }


@pytest.mark.parametrize(
    ("name", "hint", "expected"),
    [
        ("list_tickets", None, True),
        ("getTicket", None, True),
        ("add-ticket", None, False),
        ("settle", None, False),
        ("get_and_lock", False, False),
        ("tickets", True, True),
    ],
)
def test_a_tool_that_reads(name: str, hint: bool | None, expected: bool) -> None:
    """What it says itself counts, then the first word of its name."""
    annotations = None if hint is None else {"readOnlyHint": hint}
    assert is_read(name, [{"name": name, "annotations": annotations}]) is expected


@pytest.mark.parametrize("mark", ["", "of another command", "none"])
def test_the_recording_of_a_stranger_starts_nothing(
    mark: str, rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command in a recording of another machine is not started, nor one that somebody put into
    a recording of this user; the sentence shows it, and how to give it. A recording that the user
    made is made again, as the other tests show."""
    file, trace = tmp_path / "r.jsonl", tmp_path / "trace"
    memory_session(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    (started,) = [line for line in lines if line["recorded"] == "started"]
    assert started["mark"]
    if mark == "":
        begun_by_another(monkeypatch, tmp_path)
    else:
        started["command"] = [sys.executable, "-c", f"open({str(trace)!r}, 'w')"]
    if mark == "none":
        del started["mark"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("new", "world", "desk", "--from-recording", file, "-o", tmp_path / "made")
    status, _, err = rehearse(*words)
    assert (status, len(err.strip().splitlines())) == (2, 1)
    assert shlex.quote(shlex.join(started["command"])) in err and "--mcp" in err
    assert not trace.exists() and not (tmp_path / "made").exists()


@pytest.mark.parametrize("depth", [2_000, 200_000])
def test_a_recording_that_is_nested_too_deeply(
    depth: int, rehearse: Rehearse, tmp_path: Path
) -> None:
    """Such a line is left out."""
    file = tmp_path / "r.jsonl"
    deep = "[" * depth + "]" * depth
    asked = '{"recorded": "asked", "session": "s", "id": 1, "at": 0, "name": "x", "arguments": '
    file.write_text(f'{asked}{{"a": {deep}}}}}\n')
    status, _, err = rehearse("new", "world", "d", "--from-recording", file, "-o", tmp_path)
    assert (status, err) == (
        2,
        f"error: {file}: it has no session of `rehearse new recording`; it has 1 other lines\n",
    )

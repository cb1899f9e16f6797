"""Hosted generated code: what a call sees and changes, and how worlds are isolated."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rehearsal_room.envpool.core.errors import SeedError, ToolsetError
from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.envpool.hosting.live_world import LiveWorld
from rehearsal_room.envpool.store.states import States
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import AwmTable
from tests.support.hosted_records import HEAD, TABLES, calls, dump, fresh, small
from tests.support.paths import FIXTURES

NOTES = (
    HEAD
    + """
class NoteOut(BaseModel):
    id: int
    text: str


@app.get("/notes", response_model=list[NoteOut], operation_id="list_notes")
async def list_notes():
    session = Session()
    notes = [NoteOut(id=n.id, text=n.text) for n in session.query(Note).order_by(Note.id)]
    session.close()
    return notes


class NoteIn(BaseModel):
    text: str


@app.post("/notes", response_model=NoteOut, operation_id="add_note")
def add_note(note: NoteIn):
    session = Session()
    row = Note(text=note.text)
    session.add(row)
    session.commit()
    return NoteOut(id=row.id, text=row.text)


@app.post("/broken", operation_id="add_and_break")
async def add_and_break(note: NoteIn):
    session = Session()
    session.add(Note(text=note.text))
    session.commit()
    session.add(Note(text="never committed"))
    session.flush()
    raise ValueError("after a commit")
"""
)


@contextmanager
def host(
    code: str, *, image: bytes = b"", tables: tuple[AwmTable, ...] = TABLES
) -> Iterator[AwmHost]:
    hosted = AwmHost(small(code, tables=tables), image)
    try:
        yield hosted
    finally:
        hosted.close()


def texts(results: list[ToolResult]) -> list[str]:
    return [" ".join(result.text.split()) for result in results]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # SQLAlchemy's about decimals in SQLite
def test_code_written_in_many_ways_behaves_as_genuine() -> None:
    """Pools, dependencies, lazy loading, enums, JSON, raw sqlite3, handlers, background tasks and
    nested transactions: tools, texts, errors and the final rows equal the record."""
    record = json.loads((FIXTURES / "hosting" / "library.json").read_text(encoding="utf-8"))
    scenario = small((FIXTURES / "hosting" / "library.py").read_text(encoding="utf-8"), tables=())
    hosted = AwmHost(scenario)
    try:
        assert [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.schema}
            for tool in hosted.tools
        ] == record["tools"]
        world = fresh(hosted)
        results = [hosted.call(world, name, arguments) for name, arguments, *_ in record["calls"]]
        assert [(result.is_error, result.text) for result in results] == [
            (is_error, text) for _, _, is_error, text in record["calls"]
        ]
        states = States(scenario, hosted.template, hosted.tools)
        assert dump(states, world) == {
            table: sorted(rows, key=json.dumps) for table, rows in record["rows"].items()
        }
        states.close()
    finally:
        hosted.close()


def test_a_result_has_the_changes_of_its_call() -> None:
    """It has text, changes and the digest of the new state, which a recount confirms."""
    with host(NOTES) as hosted:
        world = fresh(hosted)
        [before, added, after] = [
            hosted.call(world, "list_notes", {}),
            hosted.call(world, "add_note", {"text": "é"}),
            hosted.call(world, "list_notes", {}),
        ]
        assert texts([before, added, after]) == [
            "[]",
            '{ "id": 1, "text": "é" }',
            '[ { "id": 1, "text": "é" } ]',
        ]
        assert added.changes == (RowChange("notes", (1,), None, {"id": 1, "text": "é"}),)
        assert (before.changes, after.changes) == ((), ())
        states = States(small(NOTES), hosted.template, hosted.tools)
        assert states.verify_digest(world.overlay) == added.digest == after.digest
        assert dump(states, world) == {"notes": [[1, "é"]]}
        states.close()


def test_what_was_committed_before_a_failure_stays() -> None:
    """Such a call has an error and changes; what it did not commit is gone, nothing is locked."""
    with host(NOTES) as hosted:
        world = fresh(hosted)
        broken = hosted.call(world, "add_and_break", {"text": "stays"})
        fault = "Error calling add_and_break. Status code: 500. Response: Internal Server Error"
        assert (broken.text, broken.error) == (fault, "internal")
        assert broken.changes == (RowChange("notes", (1,), None, {"id": 1, "text": "stays"}),)
        [listed, again] = [
            hosted.call(world, "list_notes", {}),
            hosted.call(world, "add_note", {"text": "stays"}),
        ]
        assert texts([listed]) == ['[ { "id": 1, "text": "stays" } ]']
        assert (again.error, again.changes, again.digest) == ("internal", (), listed.digest)


def test_a_call_that_runs_no_code_counts_and_changes_nothing() -> None:
    """Unknown tools and invalid arguments are answered before the application."""
    with host(NOTES) as hosted:
        world = fresh(hosted)
        results = [
            hosted.call(world, "nope", {}),
            hosted.call(world, "add_note", {}),
            hosted.call(world, "add_note", [1]),
        ]
        assert [(result.error, result.text) for result in results] == [
            ("unknown_tool", "Unknown tool: nope"),
            ("arguments", "Input validation error: 'text' is a required property"),
            ("arguments", "Invalid request parameters: the arguments are not an object"),
        ]
        assert world.num_calls == 3
        assert {result.digest for result in results} == {
            hosted.call(world, "list_notes", {}).digest
        }


def test_what_the_code_writes_while_loading_belongs_to_the_template() -> None:
    """Worlds begin with the tables and rows that the code writes at import and at startup; a host
    made from the image has them once."""
    code = NOTES + (
        "class Extra(Base):\n    __tablename__ = 'extra'\n"
        "    id = Column(Integer, primary_key=True)\n"
        "Base.metadata.create_all(engine)\n"
        "add_note(NoteIn(text='at import'))\n"
        "@app.on_event('startup')\ndef up():\n    add_note(NoteIn(text='at startup'))\n"
    )
    rows = '[ { "id": 1, "text": "at import" }, { "id": 2, "text": "at startup" } ]'
    with host(code) as hosted:
        assert sorted(hosted.template.tables) == ["extra", "notes"]
        assert texts(calls(hosted, ("list_notes", {}))) == [rows]
        image, template = hosted.template.image, hosted.template
    with host(code, image=image) as hosted:
        assert hosted.template == template
        assert texts(calls(hosted, ("list_notes", {}))) == [rows]


def test_code_may_create_all_tables() -> None:
    """The code of a record without tables may create them; without any table it is refused."""
    with host(NOTES, tables=()) as hosted:
        assert texts(calls(hosted, ("add_note", {"text": "x"}), ("list_notes", {}))) == [
            '{ "id": 1, "text": "x" }',
            '[ { "id": 1, "text": "x" } ]',
        ]
    with (
        pytest.raises(SeedError) as refused,
        host(
            "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/')\ndef x(): ...\n", tables=()
        ),
    ):
        pass
    assert str(refused.value) == "small/server.py: it creates no table"


def test_time_and_randomness_follow_from_the_world() -> None:
    """Another host repeats calls exactly; each call of a world has its own time and numbers."""
    code = HEAD + (
        "import datetime, random, time, uuid\n"
        "@app.get('/now', operation_id='now')\n"
        "async def now():\n    time.sleep(30)\n"
        "    return [datetime.datetime.utcnow(), random.random(), uuid.uuid4()]\n"
    )
    with host(code) as hosted:
        first = texts(calls(hosted, ("now", {}), ("now", {})))
        assert first == texts(calls(hosted, ("now", {}), ("now", {})))
    with host(code) as hosted:
        assert texts(calls(hosted, ("now", {}), ("now", {}))) == first
    assert first[0] != first[1]
    assert all(text.startswith('[ "2026-03-14T09:30:') for text in first)


def test_module_state_belongs_to_the_world() -> None:
    """A counter in a global starts at zero in each world and continues in a copy of a world."""
    code = HEAD + (
        "count = 0\nseen = []\n"
        "@app.post('/count', operation_id='count')\n"
        "async def add(name: str):\n    global count\n    count += 1\n    seen.append(name)\n"
        "    return [count, seen]\n"
    )
    with host(code) as hosted:
        first, second = fresh(hosted), fresh(hosted)
        assert json.loads(hosted.call(first, "count", {"name": "a"}).text) == [1, ["a"]]
        fork = first.copy()
        assert json.loads(hosted.call(second, "count", {"name": "b"}).text) == [1, ["b"]]
        assert json.loads(hosted.call(first, "count", {"name": "c"}).text) == [2, ["a", "c"]]
        assert json.loads(hosted.call(fork, "count", {"name": "d"}).text) == [2, ["a", "d"]]
    with host(code) as other:  # another worker
        assert json.loads(other.call(fork, "count", {"name": "e"}).text) == [3, ["a", "d", "e"]]


def test_hosts_share_a_process() -> None:
    """Two hosts of a record do not see each other's tables, state or time."""
    with host(NOTES) as first, host(NOTES) as second:
        worlds = fresh(first), fresh(second)
        for number in range(3):
            for hosted, world in zip((first, second), worlds, strict=True):
                assert hosted.call(world, "add_note", {"text": f"{number}"}).error is None
        assert worlds[0].overlay.pages == worlds[1].overlay.pages


def test_an_open_session_does_not_affect_other_worlds() -> None:
    """When code never closes its session, each world still reads and writes its own rows."""
    code = HEAD + (
        "session = Session()\n"
        "@app.post('/n', operation_id='add')\n"
        "async def add(text: str):\n"
        "    session.add(Note(text=text))\n    session.flush()\n"
        "    if text != 'dirty':\n        session.commit()\n"
        "    return [n.text for n in session.query(Note).order_by(Note.id)]\n"
    )
    with host(code) as hosted:
        worlds = [fresh(hosted) for _ in range(3)]
        results = [
            hosted.call(world, "add", {"text": text})
            for text in ("a", "dirty", "b")
            for world in worlds
        ]
        assert [json.loads(result.text) for result in results[-3:]] == [["a", "b"]] * 3


def test_a_failed_commit_in_a_dependency_fails_the_call() -> None:
    """The dependency ends before the response is sent, as on FastAPI 0.115."""
    code = HEAD + (
        "def get_db():\n    db = Session()\n    try:\n        yield db\n        db.commit()\n"
        "    except Exception:\n        db.rollback()\n        raise\n"
        "    finally:\n        db.close()\n"
        "@app.post('/n', operation_id='add')\n"
        "def add(text: str, db=Depends(get_db)):\n"
        "    db.add(Note(text=text))\n    return text\n"
    )
    with host(code) as hosted:
        results = calls(hosted, ("add", {"text": "x"}), ("add", {"text": "x"}))
        assert [(result.error, len(result.changes)) for result in results] == [
            (None, 1),
            ("internal", 0),
        ]


def test_code_that_does_not_load_is_refused_and_leaves_no_module() -> None:
    """The message names the file and the line."""
    modules = set(sys.modules)
    for code, reason in (
        (HEAD + "raise ValueError('no')\n", "small/server.py: line 21: ValueError: no"),
        (HEAD, "small/server.py: its application has no tool: its OpenAPI document has no route"),
    ):
        with pytest.raises(ToolsetError) as refused, host(code):
            pass
        assert str(refused.value) == reason
    assert {name for name in set(sys.modules) - modules if name.startswith("awm_")} == set()


def test_sql_that_never_ends_is_stopped() -> None:
    """The result is an error about the time; its world is unchanged."""
    code = NOTES + (
        "from sqlalchemy import text as sql\n"
        "@app.get('/forever', operation_id='forever')\n"
        "async def forever():\n"
        "    with engine.connect() as c:\n"
        "        c.execute(sql('WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) "
        "SELECT count(*) FROM t'))\n"
    )
    with host(code) as hosted:
        hosted._hook.database._max_strides = 10  # fewer, to save seconds
        [stopped, after] = calls(hosted, ("forever", {}), ("list_notes", {}))
        assert (stopped.text, stopped.error) == (
            "forever took too long and was stopped.",
            "timeout",
        )
        assert (after.text, after.error) == ("[]", None)


def test_a_world_moves_between_workers_call_by_call() -> None:
    """A world consists of its database, its module state and its number of calls."""
    with host(NOTES) as hosted:
        world = fresh(hosted)
        for number in range(4):
            world = LiveWorld(world.overlay.copy(), world.module_state, world.num_calls)
            hosted.call(world, "add_note", {"text": f"{number}"})
        assert len(json.loads(hosted.call(world, "list_notes", {}).text)) == 4
        assert world.num_calls == 5

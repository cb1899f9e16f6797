"""The known oddities of AWM's released data: each has a defined outcome."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.hosting.awm_host import AwmHost
from rehearsal_room.scenarios.awm.importing import import_awm
from rehearsal_room.scenarios.format import AwmSample, AwmTable, Scenario
from tests.support.awm_files import SQL, rows_of, write_folder
from tests.support.hosted_records import HEAD, calls, small

TOOLS = """
@app.get("/notes/{note_id}", operation_id="get_note")
async def get_note(note_id: int):
    session = Session()
    note = session.query(Note).filter(Note.id == note_id).first()
    session.close()
    return {"id": 0, "text": ""} if note is None else {"id": note.id, "text": note.text}


@app.delete("/notes/{note_id}", operation_id="delete_note")
async def delete_note(note_id: int):
    session = Session()
    num = session.query(Note).filter(Note.id == note_id).delete()
    session.commit()
    session.close()
    return {"success": bool(num)}


@app.get("/strict/{note_id}", operation_id="strict_note")
async def strict_note(note_id: int):
    raise HTTPException(status_code=404, detail=f"Note {note_id} not found: missing parameter")


@app.get("/first", operation_id="first_note")
async def first_note(note_id: int):
    session = Session()
    return session.query(Note).filter(Note.id == note_id).first().text


@app.get("/unnamed")
async def unnamed():
    return "unnamed"


@app.get("/slashed/", operation_id="slashed")
async def slashed():
    return "slashed"


@app.get("/things/{thing}", operation_id="thing")
async def thing(thing: str):
    return {"thing": thing}
"""
ORDERS = AwmTable(
    "orders",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, note_id INTEGER NOT NULL REFERENCES notes(id))",
)
NOTES = AwmTable("notes", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)")
ORDER_TOOL = """
class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    note_id = Column(Integer, nullable=False)


@app.post("/orders", operation_id="add_order")
async def add_order(note_id: int):
    session = Session()
    order = Order(note_id=note_id)
    session.add(order)
    session.commit()
    return {"id": order.id}
"""


@contextmanager
def hosted(scenario: Scenario) -> Iterator[AwmHost]:
    host = AwmHost(scenario)
    try:
        yield host
    finally:
        host.close()


def seeded(code: str, *inserts: str, tables: tuple[AwmTable, ...] = (NOTES,)) -> Scenario:
    scenario = small(code, tables=tables)
    assert scenario.awm is not None
    awm = msgspec.structs.replace(scenario.awm, samples=(AwmSample("notes", inserts),))
    return msgspec.structs.replace(scenario, awm=awm)


def called(name: str, **arguments: Any) -> ToolResult:
    with hosted(seeded(HEAD + TOOLS, "INSERT INTO notes VALUES (1, 'milk')")) as host:
        [result] = calls(host, (name, arguments))
        return result


def test_a_broken_seed_row_is_skipped_and_counted() -> None:
    """A backslash before a quote is not valid SQL: this row is skipped, the others are inserted."""
    rows = ("INSERT INTO notes VALUES (1, 'it\\'s')", "INSERT INTO notes VALUES (2, 'bread')")
    with hosted(seeded(HEAD + TOOLS, *rows)) as host:
        first, second = calls(host, ("get_note", {"note_id": 1}), ("get_note", {"note_id": 2}))
        assert [json.loads(one.text)["id"] for one in (first, second)] == [0, 2]
        assert host.num_statements == 2
        [fault] = host.seed_faults
        assert (fault.stage, fault.table, fault.statement) == ("seed", "notes", 0)
        assert "syntax error" in fault.error


def test_names_are_joined_however_they_are_written(tmp_path: Path) -> None:
    """Rows that spell a name differently belong to one scenario, in any order."""
    rows = rows_of("E-Commerce  Lab (1)!", "e_commerce_lab_1")
    folder = write_folder(tmp_path / "awm", rows)
    report = import_awm(folder, tmp_path / "out")
    assert [one.name for one in report.written] == ["e_commerce_lab_1"]


def test_the_first_of_two_verifiers_is_used_and_both_are_reported(tmp_path: Path) -> None:
    """Of two verifiers of one task the first is used, and the duplicate is reported."""
    rows = rows_of("Desk", "desk")
    again = json.loads(json.dumps(rows[SQL][0]))
    again["verification"]["code"] = "def verify_task(a, b):\n    return {'later': 1}\n"
    rows[SQL].append(again)
    report = import_awm(write_folder(tmp_path / "awm", rows), tmp_path / "out")
    assert "later" not in (tmp_path / "out" / "desk" / "verify" / "0_sql.py").read_text()
    assert [(one.file, one.lines, one.taken) for one in report.duplicates] == [(SQL, (1, 3), 1)]


def test_an_operation_without_an_id_is_listed_under_fastapis_name() -> None:
    """FastAPI generates an operation id, so the original stack lists such a route, too."""
    with hosted(seeded(HEAD + TOOLS)) as host:
        assert "unnamed_unnamed_get" in [tool.name for tool in host.tools]
    assert called("unnamed_unnamed_get").text == '"unnamed"'


def test_a_trailing_slash_is_kept() -> None:
    """A route that ends in a slash is called with it; a path that ends in a slash because its
    parameter is empty is not a route."""
    assert called("slashed").text == '"slashed"'
    empty = called("thing", thing="")
    assert (empty.error, empty.text) == (
        "refused",
        'Error calling thing. Status code: 404. Response: {"detail":"Not Found"}',
    )


def test_a_404_of_the_code_is_a_refusal() -> None:
    """Its text (`not found`, `missing`, `parameter`) does not count as a malformed call."""
    result = called("strict_note", note_id=7)
    assert (result.error, result.text) == (
        "refused",
        "Error calling strict_note. Status code: 404. "
        'Response: {"detail":"Note 7 not found: missing parameter"}',
    )


def test_a_500_is_the_worlds_fault_and_the_world_continues() -> None:
    """An attribute of a missing row is an internal error, with the text of the original stack."""
    with hosted(seeded(HEAD + TOOLS, "INSERT INTO notes VALUES (1, 'milk')")) as host:
        missing = ("first_note", {"note_id": 9})
        broken, again, fine = calls(host, missing, missing, ("first_note", {"note_id": 1}))
    text = "Error calling first_note. Status code: 500. Response: Internal Server Error"
    assert [(one.error, one.text) for one in (broken, again)] == [("internal", text)] * 2
    assert fine.text == '"milk"'


def test_a_missing_row_may_be_a_placeholder() -> None:
    """Reading a missing row succeeds with an object of id 0, and deleting it reports a failure
    without an error: the world's code is written like that, and its results stay unchanged."""
    assert json.loads(called("get_note", note_id=99).text) == {"id": 0, "text": ""}
    gone = called("delete_note", note_id=99)
    assert (gone.error, json.loads(gone.text), gone.changes) == (None, {"success": False}, ())


def test_a_reference_to_nothing_is_written() -> None:
    """Foreign keys are off for the code's own connections, in the original stack and here."""
    with hosted(seeded(HEAD + ORDER_TOOL, tables=(NOTES, ORDERS))) as host:
        [result] = calls(host, ("add_order", {"note_id": 404}))
    assert (result.error, json.loads(result.text)) == (None, {"id": 1})
    assert [change.table for change in result.changes] == ["orders"]


@pytest.mark.parametrize(
    "engine",
    [
        'engine = create_engine(\n    os.getenv("DATABASE_PATH"),\n    echo=False,\n)',
        'engine = create_engine("postgresql://nobody@nowhere/x", pool_size=5, max_overflow=2)',
        'engine = __import__("sqlalchemy").create_engine(url="sqlite:///x.db", future=True)',
        "from sqlalchemy.pool import StaticPool\n"
        'engine = create_engine("sqlite://", poolclass=StaticPool, '
        'connect_args={"check_same_thread": False})',
    ],
    ids=["lines", "postgres", "keywords", "static"],
)
def test_every_engine_is_replaced_by_the_worlds(engine: str) -> None:
    """One line or many, another database's URL, keyword pools."""
    line = 'engine = create_engine(os.getenv("DATABASE_PATH"))'
    assert line in HEAD
    code = HEAD.replace(line, engine) + TOOLS
    with hosted(seeded(code, "INSERT INTO notes VALUES (1, 'milk')")) as host:
        [result] = calls(host, ("get_note", {"note_id": 1}))
    assert json.loads(result.text) == {"id": 1, "text": "milk"}


def test_a_server_that_is_started_without_a_guard() -> None:
    """`uvicorn.run(app)` at the top level ends the script there; the application is hosted."""
    ending = (
        '\nimport uvicorn\nuvicorn.run(app, host="127.0.0.1", port=8000)\nraise SystemExit(3)\n'
    )
    with hosted(seeded(HEAD + TOOLS + ending)) as host:
        assert len(host.tools) == 7

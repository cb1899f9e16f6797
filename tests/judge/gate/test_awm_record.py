"""The gate for AWM records: what it finds without an oracle."""

from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.workers.pool import WorkerSettings
from rehearsal_room.judge.gate.awm_record import check_record
from rehearsal_room.judge.gate.core.report import WorldGateReport
from rehearsal_room.judge.gate.core.task_runner import GateSettings
from rehearsal_room.scenarios.format import AwmSample, AwmVerifier, Scenario
from tests.support.hosted_records import HEAD, small

pytestmark = pytest.mark.usefixtures("kept_fork_servers")
CODE = (
    HEAD
    + """
@app.get("/notes", operation_id="list_notes")
def list_notes():
    session = Session()
    found = [note.text for note in session.query(Note).order_by(Note.id)]
    session.close()
    return found


@app.post("/notes", operation_id="add_note")
def add_note(text: str):
    session = Session()
    known = session.query(Note).filter(Note.text == text).count()
    if not known:
        session.add(Note(text=text))
        session.commit()
    session.close()
    return {"added": None if known else text}
"""
)
BROKEN = """
@app.get("/broken", operation_id="broken")
def broken(number: int = 0):
    return [][number]
"""
PICKY = """
@app.get("/notes/{note_id}", operation_id="get_note")
def get_note(note_id: int):
    raise HTTPException(404)
"""
RUDE = """
@app.post("/rude", operation_id="add_rudely")
def add_rudely(text: str):
    session = Session()
    session.add(Note(text=text))
    session.commit()
    session.close()
    return {"added": text}
"""
CARELESS = """
@app.post("/copies", operation_id="copy_note")
def copy_note(note_id: int):
    session = Session()
    session.add(Note(text=f"copy of {note_id}, {session.query(Note).count()}"))
    session.commit()
    session.close()
    return {"copied": note_id}
"""
ODD = """
@app.get("/odd", operation_id="odd")
def odd():
    return id(object()) and open("/proc/self/stat").read()
"""
HAS = """
import sqlite3
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    rows = sqlite3.connect(final_db_path).execute("SELECT text FROM notes").fetchall()
    return {"result": "complete" if ("%s",) in rows else "others"}
"""
READS = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    return {"result": "complete" if "%s" in (final_answer or "") else "others"}
"""
EVIDENCE = "def verify_task(initial_db_path, final_db_path):\n    return {'rows': 1}\n"
RAISES = "def verify_task(initial_db_path, final_db_path):\n    raise KeyError('orders')\n"
SEED = ("INSERT INTO notes VALUES (1, 'milk')", "INSERT INTO notes VALUES (2, 'bread')")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[RoutingPool]:
    """One worker for all tests of this module: to start it takes longer than any of them."""
    async with RoutingPool(WorkerSettings(workers=1)) as pool:
        yield pool


def record(
    *, code: str = "", seed: tuple[str, ...] = SEED, verifier: AwmVerifier | None = None
) -> Scenario:
    """A world of notes with one task, sound by default. Each variant has a digest of its own, as
    the pool that hosts them all needs."""
    scenario = small(CODE + code)
    assert scenario.awm is not None
    verifier = verifier or AwmVerifier(sql=EVIDENCE, code=HAS % "tea")
    awm = msgspec.structs.replace(
        scenario.awm, samples=(AwmSample("notes", seed),), verifiers={"t0": verifier}
    )
    digest = blake2b(repr(awm).encode(), digest_size=16).hexdigest()
    return msgspec.structs.replace(scenario, awm=awm, digest=digest)


def found(report: WorldGateReport) -> list[tuple[str, str]]:
    return [(failure.check, failure.task) for failure in report.failures]


async def checked(pool: RoutingPool, scenario: Scenario) -> WorldGateReport:
    return (await check_record(scenario, pool, GateSettings(probes=8))).report


async def test_a_sound_record_passes(pool: RoutingPool) -> None:
    """It has no failures; its tasks, tools and probes are counted."""
    report = await checked(pool, record())
    assert report.failures == ()
    assert (report.worlds, report.tasks, report.tools) == (1, 1, 2)
    assert report.probes > 16
    assert (report.soundness, report.unread) == ((), (f"{report.names[0]}/t0",))


@pytest.mark.parametrize(
    ("fault", "expected", "why"),
    [
        (
            {"seed": (*SEED, "INSERT INTO notes VALUES (1, 'it\\'s')")},
            ("seed", ""),
            "statement 2 of notes fails",
        ),
        (
            {"verifier": AwmVerifier(code=HAS % "milk")},
            ("noop", "t0"),
            "the target state holds from the start",
        ),
        ({"verifier": AwmVerifier(sql=RAISES, code=HAS % "tea")}, ("verifier", "t0"), "orders"),
        ({"verifier": AwmVerifier()}, ("verifier", "t0"), "no verifier"),
        (
            {"verifier": AwmVerifier(code=READS % "bread")},
            ("adversaries", "t0"),
            "paid for no work: pastes what it read, refuses and pastes; let the verifier bound",
        ),
        ({"code": BROKEN}, ("tool", ""), "every call of broken fails"),
        ({"code": RUDE}, ("constraint", ""), "calls of add_rudely fail inside; add_rudely("),
        (
            {"code": CARELESS},
            ("constraint", ""),
            "copy_note accepts note_id=999999937, which no row has, and writes: copy_note(",
        ),
        ({"code": "\n1 / 0\n"}, ("package", ""), "ZeroDivisionError"),
        ({"code": ODD}, ("tool", ""), "/proc/self/stat"),
    ],
    ids=[
        *("seed", "noop", "raises", "missing", "pasted", "broken", "rude", "careless", "import"),
        "forbidden",
    ],
)
async def test_a_fault_is_named(
    pool: RoutingPool, fault: dict[str, Any], expected: tuple[str, str], why: str
) -> None:
    """Lost rows, a target state that holds from the start, verifiers that raise or are missing,
    tools that always fail, fail on some calls or accept keys of no row, code that cannot be hosted
    or does what the sandbox forbids."""
    report = await checked(pool, record(**fault))
    assert found(report) == [expected]
    assert why in report.failures[0].why


async def test_a_tool_that_refuses_is_not_broken(pool: RoutingPool) -> None:
    """A tool whose every call is refused is listed as unreached."""
    report = await checked(pool, record(code=PICKY))
    assert (report.failures, report.unreached) == ((), ("small.get_note",))


async def test_an_instruction_names_rows_that_exist(pool: RoutingPool) -> None:
    """The number of a row that does not exist is reported; names of rows to be created are not."""
    scenario = record()
    (task,) = scenario.tasks
    text = 'Delete note 4711 and add one "The Waves" of a.soll@example.com.'
    tasks = (msgspec.structs.replace(task, instruction=text),)
    report = await checked(pool, msgspec.structs.replace(scenario, tasks=tasks, digest="0" * 32))
    assert found(report) == [("texts", "t0")]
    assert report.failures[0].why.startswith("it names the number '4711', which is not in")

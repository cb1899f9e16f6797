"""Scenarios that do nothing wrong, and everything that can be observed of them: texts, states,
digests, verdicts. Their code uses what hostile code would replace in a shared process."""

from pathlib import Path
from typing import Any

import msgspec

from rehearsal_room.envpool.workers.pool import WorkerPool
from rehearsal_room.scenarios.format import AwmVerifier, Scenario, Task
from tests.support.hosted_records import HEAD, small
from tests.support.ledger_world import ledger

_CODE = """
import json
from decimal import Decimal
from datetime import date


class NoteOut(BaseModel):
    id: int
    text: str


class Plain(json.JSONEncoder):
    def default(self, value):
        return str(value)


@app.post("/notes", operation_id="add_note", response_model=NoteOut)
def add_note(text: str):
    with sessionmaker(bind=engine)() as session:
        note = Note(text=text)
        session.add(note)
        session.commit()
        return NoteOut(id=note.id, text=note.text)


@app.get("/notes", operation_id="list_notes")
def list_notes():
    with sessionmaker(bind=engine)() as session:
        return [{"id": note.id, "text": note.text} for note in session.query(Note)]


@app.get("/price", operation_id="price")
def price(amount: int):
    share = Decimal(amount) / Decimal(7) + Decimal(%(number)d)
    return json.loads(json.dumps({"share": share, "on": date(2026, 3, 1)}, cls=Plain))


@app.get("/raw", operation_id="raw")
def raw():
    return json.dumps({"number": %(number)d})
"""
_VERIFIER = """
def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    from decimal import Decimal

    found = sqlite3.connect(final_db_path).execute("SELECT text FROM notes ORDER BY id").fetchall()
    share = json.loads(json.dumps({"share": str(Decimal(1) / Decimal(7))}))
    leftovers = sorted(each.name for each in os.scandir(".") if each.name != "verify")
    done = found == [("%(wanted)s",)] and final_answer == "done"
    return {"result": "complete" if done else "others", **share, "leftovers": leftovers}
"""
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("add_note", {"text": "milk"}),
    ("list_notes", {}),
    ("price", {"amount": 10}),
    ("raw", {}),
    ("add_note", {}),
)
_BOOKINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("book", {"account_id": 1, "amount": 5}),
    ("book", {"account_id": 9, "amount": 1}),
    ("get_account", {"account_id": 1}),
)


def bystanders(num: int, folder: Path) -> list[Scenario]:
    """So many scenarios, no two of them equal; every fourth is a package in our format."""
    return [
        ledger(folder / str(number), policy_md=str(number)) if number % 4 == 3 else _awm(number)
        for number in range(num)
    ]


def _awm(number: int) -> Scenario:
    scenario = small(HEAD + _CODE % {"number": number}, name=f"bystander_{number}")
    assert scenario.awm is not None
    wanted = {"done": "milk", "not_done": "bread"}
    verifiers = {
        name: AwmVerifier(code=_VERIFIER % {"wanted": text}) for name, text in wanted.items()
    }
    return msgspec.structs.replace(
        scenario,
        tasks=tuple(Task(name, "Buy.", "unrated", "open", "") for name in wanted),
        awm=msgspec.structs.replace(scenario.awm, verifiers=verifiers),
    )


async def observe(pool: WorkerPool, scenario: Scenario) -> list[Any]:
    """All that an episode shows of a scenario: results, the final state, and the verdicts of all
    tasks on it and on the start."""
    seen: list[Any] = []
    async with pool.lease(scenario) as env:
        for name, arguments in _CALLS if scenario.awm is not None else _BOOKINGS:
            seen.append(await env.call(name, arguments, ""))
        end = env.state()
    start = pool.hosted(scenario).start
    for task in scenario.tasks:
        for state in (start, end):
            verified = await pool.verify(scenario, task, state, "done")
            seen.append((verified.label, verified.detail, verified.findings, verified.fault))
    return [*seen, end, pool.hosted(scenario).tools]

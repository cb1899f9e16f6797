"""Seed rows of the approvals, and helpers that insert requests and decisions.

Pools: request_subjects (what money is asked for, a phrase such as "two office chairs").
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code

_KINDS = (("Travel", 1.0), ("Equipment", 2.0), ("Training", 1.0), ("Repairs", 2.0), ("Events", 0.5))
_SUBJECTS = (
    "two office chairs",
    "a course in first aid",
    "the train to the trade fair",
    "a new coffee machine",
    "the repair of the front door",
    "flowers for the anniversary",
    "a second screen",
    "the staff party",
    "a night at the conference hotel",
    "new signs for the entrance",
)


def rows(maker: Maker) -> None:
    """The kinds with their highest amounts, and a few requests, some decided."""
    top = maker.parameters["SUPERVISOR_LIMIT_CENTS"]
    for name, factor in _KINDS:
        maker.insert("request_kinds", name=name, most_cents=int(top * factor))
    people = maker.rows("employees", active=1)
    for index in range(maker.many(4, least=1)):
        author, decider = maker.rng.sample(people, k=2)
        request = new_request(maker, author, decider, cents=maker.cents(2_000, 9_000, 500), age=9)
        if index % 2:
            decide(maker, request, maker.one_of("approved", "approved", "rejected"))


def request_subjects(maker: Maker, count: int) -> list[str]:
    """Return this many different things for which money is asked, in the trade's words."""
    known = {row["subject"] for row in maker.rows("requests")}
    pool = [one for one in maker.pool("request_subjects", *_SUBJECTS) if one not in known]
    if len(pool) < count:
        pool = list(dict.fromkeys((*maker.pool("request_subjects", *_SUBJECTS), *_SUBJECTS)))
    return maker.rng.sample(pool, k=count)


def request_kind(maker: Maker, name: str) -> Row:
    """Return the kind of requests of this name: Travel, Equipment, Training, Repairs, Events."""
    return maker.rows("request_kinds", name=name)[0]


def new_request(
    maker: Maker,
    author: Row,
    decider: Row,
    *,
    subject: str | None = None,
    kind: Row | None = None,
    cents: int,
    age: int = 3,
    **columns: Any,
) -> Row:
    """Insert a request for money that was made `age` days ago, and return it."""
    return maker.insert(
        "requests",
        reference=new_code(maker, "requests", "reference", "RQ"),
        kind_id=(kind or maker.rng.choice(maker.rows("request_kinds")))["id"],
        made_by=author["id"],
        decider_id=decider["id"],
        subject=subject or request_subjects(maker, 1)[0],
        amount_cents=cents,
        made_at=maker.ago(age),
        **({"status": "open"} | columns),
    )


def decide(maker: Maker, request: Row, verdict: str, *, remark: str = "", days: int = 1) -> Row:
    """Let the decider of a request decide it, `days` days ago."""
    request["status"] = verdict
    usual = "Within budget." if verdict == "approved" else "Not this quarter."
    return maker.insert(
        "decisions",
        request_id=request["id"],
        employee_id=request["decider_id"],
        verdict=verdict,
        remark=remark or usual,
        decided_at=maker.ago(days),
    )

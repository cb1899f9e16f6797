"""Seed rows of the documents, and helpers that insert documents, versions and shares.

Pools: document_titles (titles of papers that the staff keep, without a full stop),
version_summaries (what is new in a version, a phrase).
"""

from typing import Any

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.modules.draft_helpers import new_code
from rehearsal_room.scenarios.generate.modules.naming import new_title

_TITLES = (
    "House rules",
    "Emergency plan",
    "Price list",
    "Key register",
    "Holiday rota",
    "Complaints procedure",
    "Cleaning schedule",
    "Checklist for new staff",
    "Contract of lease",
    "Privacy notice",
    "Salary bands",
    "First-aid instructions",
)
_SUMMARIES = (
    "phone numbers brought up to date",
    "dates for the new season",
    "shorter wording throughout",
    "chapter on data protection added",
)


def rows(maker: Maker) -> None:
    """A few documents with their versions and a share."""
    employees = maker.rows("employees", active=1)
    for index in range(maker.many(4, least=1)):
        document = new_document(
            maker,
            status=("approved", "draft", "archived")[index % 3],
            age=maker.rng.randrange(5, 200),
        )
        if document["status"] != "archived" and maker.chance(0.5):
            reader = maker.rng.choice(employees)
            if reader["id"] != document["owner_id"]:
                new_share(maker, document, reader)


def document_titles(maker: Maker, count: int) -> list[str]:
    """Return this many different titles that no document has yet, in the trade's words."""
    known = {row["title"] for row in maker.rows("documents")}
    pool = [title for title in maker.pool("document_titles", *_TITLES) if title not in known]
    if len(pool) < count:
        pool = list(dict.fromkeys((*pool, *(one for one in _TITLES if one not in known))))
    if len(pool) < count:
        pool += [f"{title} (annex)" for title in _TITLES if f"{title} (annex)" not in known]
    return maker.rng.sample(pool, k=count)


def new_document(
    maker: Maker,
    *,
    title: str | None = None,
    owner: Row | None = None,
    author: Row | None = None,
    versions: int = 1,
    age: int = 60,
    **columns: Any,
) -> Row:
    """Insert a document with so many versions, the latest of which is `age` days old, by one
    author, the owner unless given."""
    owner = owner or maker.rng.choice(maker.rows("employees", active=1))
    given = {"classification": "internal", "status": "approved"} | columns
    document = maker.insert(
        "documents",
        reference=new_code(maker, "documents", "reference", "DC"),
        title=new_title(maker, "documents", "title", title or document_titles(maker, 1)[0]),
        owner_id=owner["id"],
        **given,
    )
    for number in range(1, versions + 1):
        days = age + 40 * (versions - number)
        new_version(maker, document, author or owner, number=number, age=days)
    return document


def new_version(
    maker: Maker, document: Row, author: Row, *, number: int, age: int, summary: str | None = None
) -> Row:
    """Insert a version of a document that was made `age` days ago."""
    usual = (
        "first version"
        if number == 1
        else maker.rng.choice(maker.pool("version_summaries", *_SUMMARIES))
    )
    return maker.insert(
        "document_versions",
        document_id=document["id"],
        number=number,
        summary=summary or usual,
        author_id=author["id"],
        made_at=maker.ago(age),
    )


def latest_version(maker: Maker, document: Row) -> Row:
    """Return the version of a document with the highest number."""
    versions = maker.rows("document_versions", document_id=document["id"])
    return max(versions, key=lambda row: int(row["number"]))


def new_share(maker: Maker, document: Row, employee: Row, mode: str = "read") -> Row:
    """Insert the share that an employee has of a document."""
    return maker.insert(
        "document_shares", document_id=document["id"], employee_id=employee["id"], mode=mode
    )

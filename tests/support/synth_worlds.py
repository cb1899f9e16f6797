"""Small worlds as a model would write them, stage by stage: four trades of one kind of business.

    members  things  loans
    lend a thing (change), who has one (question), lend to a member who is blocked (decline)

The valid answers are here; answers with the known faults of AWM's data are in
tests.support.synth_faults.
"""

import json
from dataclasses import dataclass
from typing import Any

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Words:
    """The words of one trade, all in the singular."""

    name: str
    member: str
    thing: str
    loan: str
    prefix: str  # of the codes of things
    description: str

    @property
    def key(self) -> str:
        """The package's name."""
        return self.name.lower().replace(" ", "_")


BIKES = Words(
    *("City Bike Hire", "rider", "bike", "hire", "BK"),
    "A city hires out bicycles at forty stations. The desk registers riders, hires bikes out and "
    "takes them back, keeps repairs in view and blocks riders who owe fees.",
)
ROBES = Words(
    *("Choir Wardrobe", "singer", "robe", "fitting", "RB"),
    "A cathedral choir keeps its robes in a vestry. The wardrobe keeper fits singers, notes who "
    "wears which size and sends torn cloth to the tailor before the festival concert.",
)
BERTHS = Words(
    *("Harbour Office", "skipper", "berth", "mooring", "HB"),
    "The master of a small harbour gives visiting yachts a place at the quay, collects dues for "
    "the night, watches draught and tide, and turns away boats whose papers have run out.",
)
LENSES = Words(
    *("Camera Pool", "student", "lens", "checkout", "LN"),
    "A film school's equipment counter: optics and tripods go out for shoots, the technician "
    "checks glass on their way back, and those with overdue kit get nothing more until then.",
)
WORLDS = (BIKES, ROBES, BERTHS, LENSES)


def plural(word: str) -> str:
    """Example: "lens" -> "lenses" """
    return word + ("es" if word.endswith("s") else "s")


def put(words: Words, text: str) -> str:
    """A text in the trade's words."""
    for mark, word in (
        ("MEMBERS", plural(words.member)),
        ("MEMBER", words.member),
        ("THINGS", plural(words.thing)),
        ("THING", words.thing),
        ("LOANS", plural(words.loan)),
        ("LOAN", words.loan),
        ("PRE", words.prefix),
    ):
        text = text.replace(mark, word)
    return text


TASKS = {
    "lend": "Ana Ruiz (ana.ruiz@example.com) is here for PRE-102. Book it out until 2026-03-21.",
    "who": "Which email address does the MEMBER have who has PRE-103 at the moment?",
    "blocked": "Ben Okafor wants PRE-101 until 2026-03-20. Please book it out to him.",
}
KINDS = {"lend": "change", "who": "question", "blocked": "decline"}
MEMBERS = """CREATE TABLE MEMBERS (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  blocked INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1))
)"""
THINGS = """CREATE TABLE THINGS (
  id INTEGER PRIMARY KEY,
  code TEXT NOT NULL UNIQUE,
  status TEXT NOT NULL CHECK (status IN ('in', 'out', 'repair'))
)"""
LOANS = """CREATE TABLE LOANS (
  id INTEGER PRIMARY KEY,
  MEMBER_id INTEGER NOT NULL REFERENCES MEMBERS (id),
  THING_id INTEGER NOT NULL REFERENCES THINGS (id),
  lent_at TEXT NOT NULL,
  due_on TEXT NOT NULL,
  returned_at TEXT
)"""
LOAN_INDEX = "CREATE INDEX LOANS_by_MEMBER ON LOANS (MEMBER_id)"
INSERT_MEMBERS = (
    "INSERT INTO MEMBERS (id, name, email) VALUES (1, 'Ana Ruiz', 'ana.ruiz@example.com')",
    "INSERT INTO MEMBERS (id, name, email, blocked) VALUES (2, 'Ana Ruiz', 'ana.r@example.com', 0)",
    "INSERT INTO MEMBERS (id, name, email, blocked) VALUES (3, 'Ben Okafor', 'ben@example.com', 1)",
    "INSERT INTO MEMBERS (id, name, email, blocked) VALUES (4, 'Mia O''Dea', 'mia@example.com', 0)",
)
INSERT_THINGS = (
    "INSERT INTO THINGS (id, code, status) VALUES (1, 'PRE-101', 'in'), (2, 'PRE-102', 'in')",
    "INSERT INTO THINGS (id, code, status) VALUES (3, 'PRE-103', 'out'), (4, 'PRE-104', 'repair')",
)
INSERT_LOANS = (
    "INSERT INTO LOANS (id, MEMBER_id, THING_id, lent_at, due_on) "
    "VALUES (1, 4, 3, '2026-03-10T10:00:00Z', '2026-03-17')",
)
TOOLS: list[dict[str, Any]] = [
    {
        "name": "find_MEMBERS",
        "description": "MEMBERS whose name contains the text.",
        "parameters": {"name": {"type": "string"}},
        "reads": ["MEMBERS"],
    },
    {
        "name": "find_THING",
        "description": "The THING of a code, with its status.",
        "parameters": {"code": {"type": "string"}},
        "reads": ["THINGS"],
    },
    {
        "name": "list_LOANS",
        "description": "LOANS that are not over, of one THING or of all.",
        "parameters": {"THING_id": {"type": "integer", "required": False}},
        "reads": ["LOANS"],
    },
    {
        "name": "get_MEMBER",
        "description": "One MEMBER.",
        "parameters": {"MEMBER_id": {"type": "integer"}},
        "reads": ["MEMBERS"],
    },
    {
        "name": "start_LOAN",
        "description": "Book a THING out to a MEMBER until a day (YYYY-MM-DD).",
        "parameters": {
            "MEMBER_id": {"type": "integer"},
            "THING_id": {"type": "integer"},
            "due_on": {"type": "string"},
        },
        "reads": ["MEMBERS", "THINGS"],
        "writes": ["LOANS", "THINGS"],
    },
]
CODE = '''import re
from typing import Any

from scenarios.api import Db, Row
from scenarios.errors import ToolError


def find_MEMBERS(db: Db, name: str) -> list[Row]:
    """MEMBERS whose name contains the text."""
    return db.all("SELECT * FROM MEMBERS WHERE instr(name, ?) > 0 ORDER BY id", name)


def find_THING(db: Db, code: str) -> Row:
    """The THING of a code, with its status."""
    found = db.one("SELECT * FROM THINGS WHERE code = ?", code)
    if found is None:
        raise ToolError(f"There is no THING {code!r}.")
    return found


def list_LOANS(db: Db, THING_id: int | None = None) -> list[Row]:
    """LOANS that are not over, of one THING or of all."""
    return db.all(
        "SELECT * FROM LOANS WHERE returned_at IS NULL AND THING_id = coalesce(?, THING_id)"
        " ORDER BY id",
        THING_id,
    )


def get_MEMBER(db: Db, MEMBER_id: int) -> Row:
    """One MEMBER."""
    found = db.one("SELECT * FROM MEMBERS WHERE id = ?", MEMBER_id)
    if found is None:
        raise ToolError(f"There is no MEMBER {MEMBER_id}.")
    return found


def start_LOAN(db: Db, MEMBER_id: int, THING_id: int, due_on: str) -> dict[str, Any]:
    """Book a THING out to a MEMBER until a day (YYYY-MM-DD)."""
    who = get_MEMBER(db, MEMBER_id)
    what = db.one("SELECT * FROM THINGS WHERE id = ?", THING_id)
    if what is None:
        raise ToolError(f"There is no THING {THING_id}.")
    if who["blocked"]:
        raise ToolError(f"{who['name']} is blocked.")
    if what["status"] != "in":
        raise ToolError(f"{what['code']} is {what['status']}.")
    if not re.fullmatch(r"\\d{4}-\\d{2}-\\d{2}", due_on):
        due_on = "2026-03-28"
    number = db.insert(
        "LOANS", MEMBER_id=MEMBER_id, THING_id=THING_id, lent_at=db.now, due_on=due_on
    )
    db.run("UPDATE THINGS SET status = 'out' WHERE id = ?", THING_id)
    return {"LOAN_id": number, "due_on": due_on}
'''
_HEAD = """from scenarios.api import State
from scenarios.checks import ANY, Check, Finding


def {function}(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
"""
VERIFIERS = {
    "lend": _HEAD.format(function="lend")
    + """    check.created("LOANS", MEMBER_id=1, THING_id=2, due_on="2026-03-21", lent_at=ANY)
    check.updated("THINGS", 2, status="out")
    check.nothing_else()
    return check.findings
""",
    "who": _HEAD.format(function="who")
    + """    check.answer_has("mia@example.com")
    check.nothing_else()
    return check.findings
""",
    "blocked": _HEAD.format(function="blocked")
    + """    check.declined("blocked")
    check.nothing_else()
    return check.findings
""",
}
SOLUTIONS: dict[str, tuple[tuple[Call, ...], str]] = {
    "lend": (
        (
            ("find_MEMBERS", {"name": "Ana Ruiz"}),
            ("find_THING", {"code": "PRE-999"}),
            ("find_THING", {"code": "PRE-102"}),
            ("start_LOAN", {"MEMBER_id": 1, "THING_id": 2, "due_on": "2026-03-21"}),
        ),
        "Good news. PRE-102 is booked out to Ana Ruiz until 2026-03-21.",
    ),
    "who": (
        (
            ("find_THING", {"code": "PRE-103"}),
            ("list_LOANS", {"THING_id": 3}),
            ("get_MEMBER", {"MEMBER_id": 4}),
        ),
        "It is with Mia O'Dea.\nHer address is mia@example.com.",
    ),
    "blocked": (
        (("find_MEMBERS", {"name": "Ben Okafor"}),),
        "I cannot do that: Ben Okafor is blocked.",
    ),
}


def classification(score: int = 9) -> str:
    """The answer of stage `classify`."""
    return json.dumps({"score": score, "categories": ["rental"], "features": ["loans"]})


def tasks_answer(words: Words, tasks: dict[str, str] = TASKS) -> str:
    """The answer of stage `tasks`."""
    rows = [
        {"id": name, "kind": KINDS.get(name, "change"), "instruction": put(words, text)}
        for name, text in tasks.items()
    ]
    policy = put(words, "- Nothing is booked out to a MEMBER who is blocked.")
    user = {"name": "Noor Haddad", "role": "desk"}
    return json.dumps({"user": user, "policy": policy, "tasks": rows})


def schema(words: Words, *, ddl: str = MEMBERS) -> str:
    """The answer of stage `schema`."""
    tables = [
        {"name": "MEMBERS", "ddl": ddl, "indexes": []},
        {"name": "THINGS", "ddl": THINGS},
        {"name": "LOANS", "ddl": LOANS, "indexes": [LOAN_INDEX]},
    ]
    return put(words, json.dumps({"tables": tables}))


def data(
    words: Words,
    *,
    members: tuple[str, ...] = INSERT_MEMBERS,
    things: tuple[str, ...] = INSERT_THINGS,
    loans: tuple[str, ...] = INSERT_LOANS,
) -> str:
    """The answer of stage `data`."""
    tables = [
        {"table_name": name, "reasoning": "so that the tasks can be done", "insert_statements": sql}
        for name, sql in (("MEMBERS", members), ("THINGS", things), ("LOANS", loans))
    ]
    return put(words, json.dumps({"tables": tables}))


def tools(words: Words, listed: list[dict[str, Any]] = TOOLS) -> str:
    """The answer of stage `tools`."""
    return put(words, json.dumps({"tools": listed}))


def code_block(words: Words, code: str) -> str:
    """Code in a code block, as models answer."""
    return f"Here it is:\n\n```python\n{put(words, code)}```\n"

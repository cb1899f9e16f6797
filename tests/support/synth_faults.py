"""Answers with the faults that are known from AWM's data, each followed by a corrected answer.

`FAULTY` is the script of the world `City Bike Hire` (see tests.support.synth_server), `SOLUTIONS`
are the solver's solutions of its additional tasks. With `HOPELESS` no schema of a world is ever
valid, and with `DEAD` one tool of a world never works.
"""

import json

from tests.support.synth_worlds import (
    BERTHS,
    BIKES,
    CODE,
    INSERT_LOANS,
    INSERT_MEMBERS,
    MEMBERS,
    ROBES,
    TASKS,
    TOOLS,
    VERIFIERS,
    code_block,
    data,
    put,
    schema,
    tasks_answer,
    tools,
)

W = BIKES
MORE_TASKS = {
    **TASKS,
    "repaired": "Make sure that PRE-104 is marked as being in repair.",  # it already is
    "ghost": "Ana Ruiz (ana.r@example.com) wants PRE-777 until 2026-03-22.",  # does not exist
    "stubborn": "Mia O'Dea wants PRE-101 until 2026-03-23. Book it out to her.",  # never proved
}
_REPAIRED = "Mia O'Dea (mia@example.com) is here for BK-101. Book it out until 2026-03-24."
_GHOST = "Ana Ruiz (ana.r@example.com) is here for BK-101. Book it out until 2026-03-22."


def _verifier(name: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return (
        "from scenarios.api import State\nfrom scenarios.checks import ANY, Check, Finding\n\n\n"
        f"def {name}(before: State, after: State, answer: str) -> list[Finding]:\n"
        f"    check = Check(before, after, answer)\n{body}    return check.findings\n"
    )


def _lent(name: str, member: int, due_on: str) -> str:
    created = (
        f'check.created("LOANS", MEMBER_id={member}, THING_id=1, due_on="{due_on}", lent_at=ANY)'
    )
    return _verifier(
        name, created, 'check.updated("THINGS", 1, status="out")', "check.nothing_else()"
    )


def _rewritten(instruction: str, code: str) -> str:
    return f"```json\n{json.dumps({'instruction': instruction})}\n```\n{code_block(W, code)}"


_UNCHECKED = CODE.replace(
    """    who = get_MEMBER(db, MEMBER_id)
    what = db.one("SELECT * FROM THINGS WHERE id = ?", THING_id)
    if what is None:
        raise ToolError(f"There is no THING {THING_id}.")
    if who["blocked"]:
        raise ToolError(f"{who['name']} is blocked.")
    if what["status"] != "in":
        raise ToolError(f"{what['code']} is {what['status']}.")
""",
    "",
)
_DEAD = CODE.replace(
    '    if found is None:\n        raise ToolError(f"There is no THING',
    '    if True:\n        raise ToolError(f"There is no THING',
)
_CLOCK = CODE.replace("import re\n", "import re\nfrom datetime import datetime\n").replace(
    "lent_at=db.now", "lent_at=datetime.now().isoformat()"
)
_MARKED = CODE.replace(
    "\n\n\ndef find_MEMBERS", "\n\nToolError.executed = True\n\n\ndef find_MEMBERS"
)
_ESCAPED = "INSERT INTO MEMBERS (id, name, email) VALUES (4, 'Mia O\\'Dea', 'mia@example.com')"
_ORPHAN = INSERT_LOANS[0].replace("VALUES (1, 4, 3,", "VALUES (1, 44, 3,")

FAULTY = {
    (W.name, "tasks"): ("Let me think about some tasks.", tasks_answer(W, MORE_TASKS)),
    (W.name, "schema"): (
        schema(W, ddl=MEMBERS.replace("PRIMARY KEY,", "PRIMARY KEY", 1)),
        schema(W, ddl=MEMBERS.replace("email TEXT", "password TEXT,\n  email TEXT")),
        schema(W),
    ),
    (W.name, "data"): (
        data(W, members=(*INSERT_MEMBERS[:3], _ESCAPED), loans=(_ORPHAN,)),
        put(W, json.dumps({"repairs": [{"statement": 4, "sql": INSERT_MEMBERS[3]}]})),
        put(W, json.dumps({"repairs": [{"statement": 7, "sql": INSERT_LOANS[0]}]})),
    ),
    (W.name, "tools"): (
        tools(W, [{**TOOLS[0], "reads": ["people"]}, *TOOLS[1:]]),
        tools(W),
    ),
    (W.name, "code"): (
        code_block(W, _CLOCK),
        code_block(W, _UNCHECKED),
        code_block(W, _DEAD),
        code_block(W, _MARKED),
    ),
    (W.name, "lend"): (
        code_block(W, _verifier("lend", "check.nothing_else()")),  # accepts the unchanged world
        code_block(W, _verifier("lend", 'after.one("SELECT * FROM LOANS WHERE id = 2")["due_on"]')),
        code_block(
            W, VERIFIERS["lend"].replace('"THINGS", 2', '"THINGS", 1')
        ),  # refuses the solution
        code_block(  # accepts mistakes
            W, VERIFIERS["lend"].replace('due_on="2026-03-21"', "due_on=ANY")
        ),
        code_block(W, VERIFIERS["lend"]),
    ),
    (W.name, "who"): (
        code_block(W, 'def who(before, after, answer):\n    return {"result": "complete"}\n'),
        code_block(W, VERIFIERS["who"]),
    ),
    (W.name, "repaired"): (
        code_block(
            W,
            _verifier(
                "repaired",
                'status = after.value("SELECT status FROM THINGS WHERE id = 4")',
                'check.goal("in repair", status == "repair", "repair", status)',
            ),
        ),
        _rewritten(_REPAIRED, _lent("repaired", 4, "2026-03-24")),
    ),
    (W.name, "ghost"): (
        code_block(W, _lent("ghost", 2, "2026-03-22")),
        _rewritten(_GHOST, _lent("ghost", 2, "2026-03-22")),
    ),
    (W.name, "stubborn"): (code_block(W, _lent("stubborn", 1, "2026-03-23")),),
}
SOLUTIONS = {
    (W.name, _REPAIRED): (
        [("start_hire", {"rider_id": 4, "bike_id": 1, "due_on": "2026-03-24"})],
        "Done.",
    ),
    (W.name, _GHOST): (
        [("start_hire", {"rider_id": 2, "bike_id": 1, "due_on": "2026-03-22"})],
        "Done.",
    ),
    (W.name, put(W, MORE_TASKS["stubborn"])): (
        [("start_hire", {"rider_id": 4, "bike_id": 1, "due_on": "2026-03-23"})],
        "Done.",
    ),
}
HIDDEN = CODE.replace(  # a tool that works only with an argument that no draw finds
    '    return db.all("SELECT * FROM MEMBERS WHERE',
    '    if name[::-1] != "ziur ana":\n        raise ToolError("Nobody is found.")\n'
    '    return db.all("SELECT * FROM MEMBERS WHERE',
)
DEAD = {(BERTHS.name, "code"): (code_block(BERTHS, _DEAD),)}
HOPELESS = {(ROBES.name, "schema"): (schema(ROBES, ddl="CREATE TABLE singers (id INTEGER"),)}

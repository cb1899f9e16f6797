"""Twenty tasks on the stub gym, each with calls that do it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.suites.parity.enterprise.stub_gym import SEED, TOOLS

Verifier = dict[str, Any]
_SYSTEM = "You are an agent of the desk.\n\n  Act on facts.\t“No guesses.”\n"
DESK = "desk"


class Made(NamedTuple):
    """A task, and what does it."""

    name: str
    mode: str
    config: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]]
    answer: str


def state(
    name: str, query: str, expected: Any, comparison: str = "equals", gym: str | None = DESK
) -> Verifier:
    """A verifier of the database."""
    config = {"query": query, "expected_value": expected, "comparison_type": comparison}
    made = {"verifier_type": "database_state", "name": name, "validation_config": config}
    return {**made, **({} if gym is None else {"gym_name": gym})}


def called(*tools: str, least: int = 1) -> Verifier:
    """A verifier of the calls."""
    config = {"selected_tools": list(tools), "minimum_tool_calls": least}
    return {"verifier_type": "tool_execution", "name": "calls", "validation_config": config}


def said(query: str, prompt: str) -> Verifier:
    """A verifier that asks a model."""
    config = {"sql_query": query, "comparison_prompt": prompt}
    made = {"verifier_type": "response_check", "name": "response", "gym_name": DESK}
    return {**made, "validation_config": config}


def _case(id: int, column: str = "state") -> str:
    return f"SELECT {column} FROM cases WHERE case_id = {id}"


def tasks(url: str, other: str = "") -> list[Made]:
    """The tasks, whose gym is at `url`; some have a second one at `other`."""
    closed = state("closed", _case(1), "closed")
    close = [("update_case", {"case_id": 1, "state": "closed"})]
    count = "SELECT COUNT(*) AS n FROM cases WHERE title = 'Lamp'"
    lamp = [("create_case", {"title": "Lamp", "user_id": 2})]
    both = [*close, ("add_note", {"case_id": 1, "text": "done"})]
    noted = "SELECT author FROM notes WHERE text = 'done'"
    ask = said(_case(1), "Does the answer say the state?")
    plain: list[tuple[str, list[Verifier], list[Any]]] = [
        ("close", [closed], close),
        ("create", [state("created", count, 1)], lamp),
        ("equal names, last fails", [closed, state("closed", _case(2), "closed")], close),
        ("equal names, last passes", [state("closed", _case(2), "closed"), closed], close),
        ("no such server", [closed, state("lost", _case(1), "open", gym="nowhere")], close),
        ("no verifier runs", [state("lost", _case(1), "open", gym="nowhere")], close),
        ("a text for a number", [state("priority", _case(2, "priority"), "2")], close),
        ("greater", [state("more", "SELECT COUNT(*) FROM cases", 3, "greater_than")], lamp),
        ("less", [state("fewer", "SELECT COUNT(*) FROM cases", 4, "less_than")], []),
        ("contains", [state("row", _case(1, "*"), "closed", "contains")], close),
        ("strange comparison", [state("x", _case(1), "closed", "like")], close),
        ("broken query", [closed, state("y", "SELECT nothing FROM nowhere", 1)], close),
        (
            "calls",
            [closed, called("find_case", "update_case", least=2)],
            [("find_case", {"case_id": 1}), *close],
        ),
        ("context", [state("author", noted, "ann@x.example")], both),
        ("no name", [{**closed, "name": None}, state("", _case(2), "open")], close),
        ("no gym named", [state("default", _case(1), "closed", gym=None)], close),
        (
            "delete",
            [state("gone", "SELECT COUNT(*) FROM cases WHERE case_id = 3", 0)],
            [("delete_case", {"case_id": 3})],
        ),
        ("response", [closed, ask], close),
        ("unknown type", [closed, {**closed, "verifier_type": "magic", "name": "magic"}], close),
        ("two gyms", [closed, state("second", _case(2), "open", gym="second")], close),
    ]
    made = []
    for number, (name, verifiers, calls) in enumerate(plain):
        servers = [_server(DESK, url)] + ([_server("second", other)] if name == "two gyms" else [])
        tools = [] if number % 4 == 3 else [tool["name"] for tool in TOOLS[: 6 + number % 3]]
        config = {
            "_comment": "left out",
            "gym_servers_config": servers,
            "system_prompt": _SYSTEM,
            "user_prompt": f"Task {number}: please do “{name}”.\n",
            "selected_tools": tools,
            "restricted_tools": ["whoami"] if number % 5 == 0 else [],
            "number_of_runs": 1,
            "mcp_endpoint": "/mcp",
            "verifiers": verifiers,
        }
        mode = ("oracle", "plus_5_tools", "plus_10_tools", "plus_15_tools")[number % 4]
        made.append(Made(f"t{number:02}", mode, config, calls, f"Case 1 is closed ({name})."))
    return made


def _server(name: str, url: str) -> dict[str, Any]:
    context = {"x-user-email": "ann@x.example", "team_name": "North"}
    return {
        "mcp_server_name": name,
        "mcp_server_url": url,
        "seed_database_file": "dbs/desk.sql",
        "context": context,
    }


def write(folder: Path, made: list[Made]) -> None:
    """Write tasks as upstream's runner does it, and their seed."""
    (folder / "dbs").mkdir(parents=True, exist_ok=True)
    (folder / "dbs" / "desk.sql").write_text(SEED, encoding="utf-8")
    for one in made:
        path = folder / f"{one.mode}__desk__{one.name}.json"
        path.write_text(json.dumps(one.config), encoding="utf-8")

"""The servers: how they are started, what solves a task with them, and random calls of them."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.mcp_postgres.worlds import write_world

INSTALLED = Path(os.environ.get("MCP_POSTGRES", ".venv-mcp-postgres")).resolve()
Call = tuple[str, dict[str, Any]]


class Server(NamedTuple):
    """One server. Solution and harm: a tool, and its arguments in TOML."""

    command: str
    solution: tuple[str, str]
    harm: tuple[str, str]
    write_call: Call
    random_call: Callable[[random.Random], Call]

    def write(self, folder: Path, address: str) -> Path:
        """Its package."""
        return write_world(folder, self.command, address, self.solution)


def _statement(rng: random.Random) -> str:
    """A random statement on the repair desk: most of them write, and some are refused."""
    customer, ticket = f"C-{rng.randint(1, 4)}", rng.randint(1, 4)
    title = rng.choice(["Lamp", "Fan", "Sink"])
    if rng.random() < 0.04:
        return "CREATE TABLE IF NOT EXISTS extra (id uuid DEFAULT gen_random_uuid(), word text)"
    return rng.choice(
        [
            f"INSERT INTO tickets (customer, title) VALUES ('{customer}', '{title}') RETURNING *",
            f"UPDATE tickets SET state = 'closed', touched = now() WHERE id = {ticket}",
            f"DELETE FROM customers WHERE id = '{customer}'",
            "UPDATE stock.parts SET qty = qty - (random() * 3)::int WHERE sku = 'bulb'",
            "INSERT INTO log (line) VALUES ('same')",
            "DELETE FROM log WHERE line = 'same'",
            f"UPDATE tickets SET facts = facts || jsonb_build_object('seen', clock_timestamp()), "
            f"tags = tags || '{title}' WHERE id = {ticket}",
            "SELECT id, title, token, opened_at FROM tickets ORDER BY id",
            "SELECT now() AS at, gen_random_uuid() AS token",
            "INSERT INTO extra (word) VALUES ('x') RETURNING *",
        ]
    )


def _enhanced(rng: random.Random) -> Call:
    if rng.random() < 0.6:
        sql = _statement(rng)
        return ("query" if sql.startswith("SELECT") else "execute"), {"sql": sql}
    return rng.choice(
        [
            (
                "insert",
                {"table": "customers", "data": {"id": f"C-{rng.randint(3, 6)}", "name": "X"}},
            ),
            ("update", {"table": "tickets", "data": {"price": 9}, "where": "id = 1"}),
            ("delete", {"table": "tickets", "where": f"id = {rng.randint(1, 3)}"}),
        ]
    )


def _henkey(rng: random.Random) -> Call:
    if rng.random() < 0.6:
        return "pg_execute_sql", {"sql": _statement(rng)}
    insert = {"operation": "insert", "table": "customers"}
    return rng.choice(
        [
            (
                "pg_execute_mutation",
                {**insert, "data": {"id": f"C-{rng.randint(3, 6)}", "name": "X"}, "returning": "*"},
            ),
            (
                "pg_execute_mutation",
                {"operation": "delete", "table": "tickets", "where": f"id = {rng.randint(1, 3)}"},
            ),
            ("pg_execute_query", {"operation": "select", "query": "SELECT * FROM customers"}),
        ]
    )


def _sql_of(tool: str) -> Callable[[random.Random], Call]:
    return lambda rng: (tool, {"sql": _statement(rng)})


_TICKET = {"customer": "C-2", "title": "Window rattles", "urgency": "high"}
_INSERT = "INSERT INTO tickets (customer, title, urgency) VALUES ('C-2', 'Window rattles', 'high')"
_HARM = "{ sql = \"DELETE FROM customers WHERE id = 'C-3'\" }"
_TOML = '{ customer = "C-2", title = "Window rattles", urgency = "high" }'
SERVERS = {
    "enhanced-postgres-mcp-server": Server(
        f"{INSTALLED}/node_modules/.bin/enhanced-postgres-mcp {{postgres}}",
        ("insert", f'{{ table = "tickets", data = {_TOML} }}'),
        ("execute", _HARM),
        ("insert", {"table": "tickets", "data": _TICKET}),
        _enhanced,
    ),
    "@henkey/postgres-mcp-server": Server(
        f"{INSTALLED}/node_modules/.bin/postgres-mcp --connection-string {{postgres}}",
        ("pg_execute_mutation", f'{{ operation = "insert", table = "tickets", data = {_TOML} }}'),
        ("pg_execute_sql", _HARM),
        ("pg_execute_mutation", {"operation": "insert", "table": "tickets", "data": _TICKET}),
        _henkey,
    ),
    "fluid-postgres-mcp": Server(
        f"{INSTALLED}/bin/fluid-postgres-mcp {{postgres}}",
        ("execute_sql", f"{{ sql = {json.dumps(_INSERT)} }}"),
        ("execute_sql", _HARM),
        ("execute_sql", {"sql": _INSERT}),
        _sql_of("execute_sql"),
    ),
}

"""A stub of EnterpriseOps-Gym's servers: a small help desk in SQLite, over HTTP.

POST /api/seed-database, /api/sql-runner, /mcp (JSON-RPC: initialize, tools/list, tools/call), and
DELETE /api/delete-database. The database is that of the header x-database-id.
"""

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Arguments = dict[str, Any]
_ID = {"type": "integer"}
_TEXT = {"type": ["string", "null"], "description": "Free text."}


def _tool(name: str, *required: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": f"{name} of the desk.", "inputSchema": schema}


TOOLS = [
    _tool("find_case", "case_id", case_id=_ID),
    _tool("list_cases", state=_TEXT),
    _tool("create_case", "title", "user_id", title=_TEXT, user_id=_ID, priority=_ID),
    _tool("update_case", "case_id", case_id=_ID, state=_TEXT, priority=_ID, title=_TEXT),
    _tool("delete_case", "case_id", case_id=_ID),
    _tool("add_note", "case_id", "text", case_id=_ID, text=_TEXT),
    _tool("find_user", "email", email=_TEXT),
    _tool("whoami"),
]
SEED = """
CREATE TABLE users (user_id INTEGER PRIMARY KEY, email TEXT NOT NULL, name TEXT);
CREATE TABLE cases (case_id INTEGER PRIMARY KEY, title TEXT, state TEXT DEFAULT 'open',
  priority INTEGER DEFAULT 3, user_id INTEGER REFERENCES users(user_id));
CREATE TABLE notes (case_id INTEGER, text TEXT, author TEXT);
INSERT INTO users VALUES (1, 'ann@x.example', 'Ann'), (2, 'bob@x.example', 'Bob');
INSERT INTO cases VALUES (1, 'Printer', 'open', 3, 1), (2, 'VPN', 'open', 2, 2),
  (3, 'Door', 'closed', 3, 1);
INSERT INTO notes VALUES (1, 'Paper jam', 'ann@x.example');
"""


class StubGym:
    """The gym; `served` answers requests inside of the block."""

    def __init__(self, tools: list[dict[str, Any]] | None = None) -> None:
        self.tools = TOOLS if tools is None else tools
        self.databases: dict[str, sqlite3.Connection] = {}
        self.counts: Counter[str] = Counter()  # requests by what they ask
        self.calls: list[tuple[str, Arguments]] = []
        self.lock = threading.Lock()
        self.url = ""
        self.session = ""  # the only MCP session that is known; empty: there are none

    @contextmanager
    def served(self) -> Iterator["StubGym"]:
        """Answer requests on loopback."""
        gym = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if not gym.url:
                    self.close_connection = True
                    return
                with gym.lock:
                    status, value = gym.answer(self.path, body, self.headers)
                data = b"" if value is None else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if gym.session:
                    self.send_header("mcp-session-id", gym.session)
                self.end_headers()
                self.wfile.write(data)

            do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self._server = server
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            self.stop()
            for database in self.databases.values():
                database.close()

    def stop(self) -> None:
        """Listen no longer, and answer nothing."""
        self.url = ""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Any, headers: Any) -> tuple[int, Any]:
        """Status and body of the answer to a request."""
        if path == "/mcp":
            return self._mcp(body, headers)
        self.counts[path] += 1
        name = body["database_id"]
        if path == "/api/seed-database":
            made = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
            made.row_factory = sqlite3.Row
            made.executescript(body["sql_content"])
            self.databases[name] = made
        elif path == "/api/delete-database":
            self.databases.pop(name).close()
        else:
            try:
                return 200, {"data": self._rows(headers["x-database-id"], body["query"])}
            except (sqlite3.Error, KeyError) as exc:
                return 400, {"detail": str(exc)}
        return 200, {"ok": True}

    def _mcp(self, body: Any, headers: Any) -> tuple[int, Any]:
        self.counts[body["method"]] += 1
        if body["method"] != "initialize" and self.session != headers.get("mcp-session-id", ""):
            return 404, {"detail": "there is no such session"}
        match body["method"]:
            case "initialize":
                result: Any = {"protocolVersion": "2024-11-05", "capabilities": {}}
            case "tools/list":
                result = {"tools": self.tools}
            case "tools/call":
                name, arguments = body["params"]["name"], body["params"]["arguments"]
                self.calls.append((name, arguments))
                try:
                    text, failed = json.dumps(self._call(name, arguments, headers)), False
                except (sqlite3.Error, KeyError, TypeError) as exc:
                    text, failed = f"{type(exc).__name__}: {exc}", True
                result = {"content": [{"type": "text", "text": text}], "isError": failed}
            case _:
                return 204, None
        return 200, {"jsonrpc": "2.0", "id": body["id"], "result": result}

    def _rows(self, name: str, query: str, *values: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in self.databases[name].execute(query, values)]

    def _call(self, name: str, given: Arguments, headers: Any) -> Any:
        database = headers["x-database-id"]
        match name:
            case "find_case":
                query = "SELECT * FROM cases WHERE case_id = ?"
                return self._rows(database, query, given["case_id"])
            case "list_cases":
                query = "SELECT case_id, title FROM cases WHERE ? IS NULL OR state = ?"
                return self._rows(database, query, *[given.get("state")] * 2)
            case "create_case":
                query = "INSERT INTO cases (title, user_id, priority) VALUES (?, ?, ?) RETURNING *"
                values = given["title"], given["user_id"], given.get("priority", 3)
                return self._rows(database, query, *values)
            case "update_case":
                named = [one for one in ("state", "priority", "title") if one in given]
                query = f"UPDATE cases SET {', '.join(f'{one} = ?' for one in named)}"
                values = [given[one] for one in named]
                query += " WHERE case_id = ? RETURNING *"
                return self._rows(database, query, *values, given["case_id"])
            case "delete_case":
                query = "DELETE FROM cases WHERE case_id = ? RETURNING case_id"
                return self._rows(database, query, given["case_id"])
            case "add_note":
                query = "INSERT INTO notes VALUES (?, ?, ?) RETURNING *"
                author = headers.get("x-user-email", "nobody")
                return self._rows(database, query, given["case_id"], given["text"], author)
            case "find_user":
                return self._rows(database, "SELECT * FROM users WHERE email = ?", given["email"])
        return {"user": headers.get("x-user-email"), "team": headers.get("x-team-name")}

"""A help desk over MCP, for tests: its state is an SQLite database, its ids are random.

    python desk.py DATABASE [HOW...]

HOW: `remembers` (it counts closed tickets in memory), `tries` (it counts tries to close one),
`locks` (a try to close one leaves a file, which the list shows and the next listing removes),
`caches` (it lists what it listed before, until it writes), `restless` (each start adds a row),
`wal` and `rolls` (it sets the mode of its journal), `late` (it takes stock a fifth of a second
after its answer), `bare` (it starts without a database), `reopens` (it closes its database after
each call), `files DIR` (each ticket is a file as well), `folders DIR` (it is an empty folder and a
link), `bytes DIR` (its file has a name that is not UTF-8), `noisy` (it greets on standard output),
`forgetful` (it has no state on disk).
"""

import json
import os
import random
import socket
import sqlite3
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS tickets (id TEXT PRIMARY KEY, title TEXT NOT NULL, owner TEXT,
  state TEXT DEFAULT 'open', opened_at TEXT, touched REAL);
CREATE TABLE IF NOT EXISTS stock (sku TEXT PRIMARY KEY, qty INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS log (line TEXT, at TEXT DEFAULT CURRENT_TIMESTAMP);
"""
TOOLS = {
    "add_ticket": {"title": "string", "owner": "string"},
    "close_ticket": {"ticket_id": "string"},
    "take": {"sku": "string", "qty": "integer"},
    "list_tickets": {},
    "tag": {"ticket_id": "string", "word": "string"},
    "export": {"path": "string"},
    "crash": {},
}


class Refused(Exception):
    """The desk refuses a call."""


class Desk:
    """The desk on its database."""

    def __init__(self, path: str, how: list[str]) -> None:
        self.how = how
        self.closed = self.tries = 0
        self.listed: Any = None  # as it was listed last
        self.folder = Path(how[how.index("files") + 1]) if "files" in how else None
        self.path = ":memory:" if "forgetful" in how else path
        self.db: sqlite3.Connection | None = None
        if "bare" not in how:
            self.open()

    def open(self) -> sqlite3.Connection:
        """The database, which is made where it is missing."""
        if self.db is None:
            self.db = sqlite3.connect(self.path)
            if "wal" in self.how:
                self.db.execute("PRAGMA journal_mode=WAL")
            if "rolls" in self.how:
                self.db.execute("PRAGMA journal_mode=DELETE")
            self.db.executescript(SCHEMA)
            if not self.db.execute("SELECT 1 FROM stock").fetchone():
                rows = [("pen", 40), ("ink", 7)]
                self.db.executemany("INSERT INTO stock VALUES (?, ?)", rows)
                self.db.execute(
                    "INSERT INTO tickets VALUES ('T-1', 'Lamp flickers', 'ada', 'open', ?, 0.5)",
                    ("2026-01-02",),
                )
            if "restless" in self.how:
                self.db.execute("INSERT INTO log (line) VALUES (?)", (f"start {time.time_ns()}",))
            self.db.commit()
        return self.db

    def make(self, key: str) -> None:
        """What stands for a ticket on disk."""
        if "folders" in self.how:
            made = Path(self.how[self.how.index("folders") + 1], key)
            made.mkdir(parents=True)
            made.with_name(f"{key}.link").symlink_to(key)
        if "bytes" in self.how:
            folder = self.how[self.how.index("bytes") + 1]
            Path(folder).mkdir(exist_ok=True)
            with open(os.fsencode(folder) + b"/" + key.encode() + b"\xff", "w") as file:
                file.write(key)

    def take(self, sku: str, qty: int) -> None:
        """Take stock, in another thread."""
        with sqlite3.connect(self.path) as db:
            db.execute("UPDATE stock SET qty = qty - ? WHERE sku = ?", (qty, sku))
        db.close()

    def call(self, name: str, given: dict[str, Any]) -> Any:
        """The result of a call."""
        db = self.open()
        found: Any = None
        if name != "list_tickets":
            self.listed = None
        match name:
            case "add_ticket":
                if not given["title"]:
                    raise Refused("a ticket needs a title")
                key = f"T-{random.randint(1000, 9999)}-{uuid.uuid4().hex[:4]}"
                row = (key, given["title"], given.get("owner"), datetime.now(UTC).isoformat())
                db.execute("INSERT INTO tickets VALUES (?, ?, ?, 'open', ?, 1)", row)
                db.execute("INSERT INTO log (line) VALUES (?)", (f"opened {key}",))
                if self.folder is not None:
                    self.folder.mkdir(parents=True, exist_ok=True)
                    (self.folder / f"{key}.md").write_text(f"# {given['title']}\n")
                self.make(key)
                found = {"ticket_id": key}
            case "close_ticket":
                self.tries += 1
                if "locks" in self.how:
                    Path(f"{self.path}.lock").touch()
                changed = db.execute(
                    "UPDATE tickets SET state = 'closed' WHERE id = ? AND state = 'open'",
                    (given["ticket_id"],),
                )
                if not changed.rowcount:
                    raise Refused(f"there is no open ticket {given['ticket_id']}")
                self.closed += 1
                counts = {"remembers": self.closed, "tries": self.tries}
                found = {"closed": next((counts[how] for how in self.how if how in counts), 1)}
            case "take" if "late" in self.how:
                threading.Timer(0.2, self.take, (given["sku"], given["qty"])).start()
                found = {"taken": given["qty"]}
            case "take":
                db.execute(
                    "UPDATE stock SET qty = qty - ? WHERE sku = ?", (given["qty"], given["sku"])
                )
                found = {"taken": given["qty"]}
            case "list_tickets" if "caches" in self.how and self.listed is not None:
                found = self.listed
            case "list_tickets":
                found = db.execute("SELECT id, title, state FROM tickets ORDER BY id").fetchall()
                if "locks" in self.how:
                    lock = Path(f"{self.path}.lock")
                    found.append(lock.exists())
                    lock.unlink(missing_ok=True)
                self.listed = found
            case "tag":
                db.execute("CREATE TABLE IF NOT EXISTS tags (ticket_id TEXT, word TEXT)")
                db.execute(
                    "INSERT INTO tags VALUES (?, ?)", (given["ticket_id"], given.get("word"))
                )
                found = {"tagged": True}
            case "export":
                if "/" not in given["path"]:
                    raise Refused("a path has a slash")
                Path(given["path"]).write_text("tickets")
                found = {"socket": _reaches_a_network()}
            case "crash":
                sys.exit("the desk is on fire")
        db.commit()
        if "reopens" in self.how:
            db.close()
            self.db = None
        return found


def _reaches_a_network() -> bool:
    """Whether there is a network beside the loopback."""
    return [name for _, name in socket.if_nameindex()] != ["lo"]


def main() -> None:
    """Answer line by line, in the revision of 2024-11-05."""
    desk = Desk(sys.argv[1], sys.argv[2:])
    if "noisy" in desk.how:
        sys.stdout.write("desk 1.0 is ready\n")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result: dict[str, Any] = {}
        match request["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "desk", "version": "1"},
                }
            case "tools/list":
                result = {"tools": [_tool(name, fields) for name, fields in TOOLS.items()]}
            case "tools/call":
                params = request["params"]
                try:
                    text = json.dumps(desk.call(params["name"], params.get("arguments") or {}))
                except (Refused, KeyError, OSError, sqlite3.Error) as exc:
                    desk.open().rollback()
                    result = {"isError": True, "content": [{"type": "text", "text": str(exc)}]}
                else:
                    result = {"content": [{"type": "text", "text": text}]}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}))
        sys.stdout.write("\n")
        sys.stdout.flush()


def _tool(name: str, fields: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": name.replace("_", " "),
        "inputSchema": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in fields.items()},
            "required": [key for key in fields if key not in ("owner", "word")],
        },
    }


if __name__ == "__main__":
    main()

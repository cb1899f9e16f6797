"""A small world that exercises what the pool must get right: every kind of key, triggers, cascades,
REPLACE, savepoints, floats, blobs, tools that refuse, break, run away or give bad data."""

from pathlib import Path

from scenarios.format import Scenario, read

HEAD = """
name = "ledger"
title = "Ledger"
version = "1"
description = "Accounts and entries."
clock = "2026-03-14T09:30:00Z"
[user]
id = "u1"
name = "Ada Lindqvist"
role = "clerk"
"""

SCHEMA = """
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  balance INTEGER NOT NULL DEFAULT 0 CHECK (balance >= 0), rate REAL NOT NULL DEFAULT 0
);
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL REFERENCES accounts ON DELETE CASCADE,
  amount INTEGER NOT NULL, note TEXT, at TEXT NOT NULL
);
CREATE TABLE tags (account_id INTEGER, tag TEXT, weight REAL, PRIMARY KEY (account_id, tag))
  WITHOUT ROWID;
CREATE TABLE settings (name TEXT PRIMARY KEY, value ANY);
CREATE TABLE journal (what TEXT);
CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
  UPDATE accounts SET balance = balance + new.amount WHERE id = new.account_id;
  INSERT INTO journal VALUES ('entry ' || new.id);
END;
"""

DATA = """
INSERT INTO accounts (id, name, balance, rate) VALUES (1, 'till', 100, 0.5), (2, 'bank', 5000, 2);
INSERT INTO accounts (id, name) VALUES (3, 'a; semicolon, in a name');
INSERT INTO entries (account_id, amount, note, at) VALUES (1, 10, 'first', '2026-01-01');
INSERT INTO tags VALUES (1, 'cash', 1.0), (2, 'cash', 0.25);
INSERT INTO settings VALUES ('limit', 1000), ('blob', x'00ff');
"""

TOOLS = '''
"""Tools of the ledger."""
from typing import Annotated, Any, Literal

import msgspec

from scenarios.api import Db
from scenarios.errors import ToolError


def get_account(db: Db, account_id: int) -> dict[str, Any]:
    """One account with its entries."""
    account = db.one("SELECT * FROM accounts WHERE id = ?", account_id)
    if account is None:
        raise ToolError(f"There is no account {account_id}.")
    entries = db.all("SELECT * FROM entries WHERE account_id = ? ORDER BY id", account_id)
    return account | {"entries": entries}


def open_account(db: Db, name: str, kind: Literal["cash", "card"] = "cash") -> dict[str, Any]:
    """Open an account."""
    if db.value("SELECT 1 FROM accounts WHERE name = ?", name):
        raise ToolError(f"The name {name!r} is taken.")
    account = db.insert("accounts", name=name)
    db.insert("tags", account_id=account, tag=kind, weight=1)
    return {"id": account, "at": db.value("SELECT datetime('now')")}


def book(db: Db, account_id: int, amount: int, note: str | None = None) -> dict[str, Any]:
    """Book an amount; the balance may not fall below zero."""
    if db.one("SELECT id FROM accounts WHERE id = ?", account_id) is None:
        raise ToolError(f"There is no account {account_id}.")
    entry = db.insert("entries", account_id=account_id, amount=amount, note=note, at=db.now)
    return {"entry": entry}


def close_account(db: Db, account_id: int) -> dict[str, Any]:
    """Delete an account with its entries, then refuse if it held money."""
    balance = db.value("SELECT balance FROM accounts WHERE id = ?", account_id)
    closed = db.run("DELETE FROM accounts WHERE id = ?", account_id)
    if balance:
        raise ToolError(f"Account {account_id} still holds {balance}.")
    return {"closed": closed}


def retag(
    db: Db, account_id: int, tag: str, weight: Annotated[float, msgspec.Meta(ge=0)]
) -> dict[str, Any]:
    """Set a tag, replacing one of that name."""
    db.run("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", account_id, tag, weight)
    return {"tags": db.all("SELECT * FROM tags ORDER BY account_id, tag")}


def rename(db: Db, account_id: int, new_id: int) -> int:
    """Move an account to another number, if it has no entries."""
    if db.value("SELECT 1 FROM entries WHERE account_id = ?", account_id):
        raise ToolError("It has entries.")
    if db.value("SELECT 1 FROM accounts WHERE id = ?", new_id):
        raise ToolError("The number is taken.")
    return db.run("UPDATE accounts SET id = ? WHERE id = ?", new_id, account_id)


def half(db: Db, note: str) -> str:
    """Write, take it back to a savepoint, write something else."""
    db.run("INSERT INTO journal VALUES ('kept: ' || ?)", note)
    db.execute("SAVEPOINT s")
    db.run("UPDATE accounts SET rate = rate + 1")
    db.run("DELETE FROM journal")
    db.execute("ROLLBACK TO s")
    db.execute("RELEASE s")
    return "half"


def set_value(db: Db, name: str, value: int | float | str | None) -> str:
    """Set a setting of any type."""
    db.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", name, value)
    return "set"


def wipe(db: Db) -> int:
    """Delete the journal."""
    return db.run("DELETE FROM journal")


def broken(db: Db) -> None:
    """Write, then break."""
    db.run("INSERT INTO journal VALUES ('lost')")
    raise KeyError("nothing here")


def bad_data(db: Db) -> object:
    """Write, then give what JSON cannot say."""
    db.run("INSERT INTO journal VALUES ('lost')")
    return object()


def runaway(db: Db) -> Any:
    """Write, then count for ever."""
    db.run("INSERT INTO journal VALUES ('lost')")
    return db.value(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    )


def chance(db: Db) -> Any:
    """Ask for a random number."""
    return db.value("SELECT random()")


def forbidden(db: Db, sql: str) -> Any:
    """Write, then execute what a tool may not."""
    db.run("INSERT INTO journal VALUES ('lost')")
    return db.execute(sql)
'''

TASKS = """
[[task]]
id = "open"
instruction = "Open an account named petty."
difficulty = "simple"
kind = "change"
answer = "Opened."
oracle = [{ name = "open_account", arguments = { name = "petty" } }]
"""

VERIFY = """
from scenarios.api import State
from scenarios.checks import ANY, Check, Finding


def open(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("accounts", name="petty", balance=0)
    check.created("tags", tag="cash")
    check.nothing_else()
    return check.findings
"""


def write_package(folder: Path, **files: str) -> Path:
    """Write the package, with some files replaced (`tools_py="..."`); gives its folder."""
    texts = {
        "scenario.toml": HEAD,
        "schema.sql": SCHEMA,
        "data.sql": DATA,
        "tools.py": TOOLS,
        "policy.md": "",
        "tasks.toml": TASKS,
        "verify.py": VERIFY,
    }
    texts |= {name.replace("_", "."): text for name, text in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def ledger(folder: Path, **files: str) -> Scenario:
    """The package, written and read."""
    return read(write_package(folder, **files))

"""A small world with the difficult cases for a pool: all kinds of keys, triggers, cascades,
REPLACE, savepoints, floats, blobs, and tools that refuse, break, never end or return bad data."""

from pathlib import Path

from rehearsal_room.scenarios.format import Scenario, read

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
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB);
CREATE TABLE aliases (alias TEXT COLLATE NOCASE PRIMARY KEY, account_id INTEGER) WITHOUT ROWID;
CREATE TABLE blobs (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE odd (rowid TEXT, "a ""quoted"" name" TEXT);
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
INSERT INTO aliases VALUES ('Kasse', 1);
INSERT INTO odd VALUES ('one', 'x'), ('two', NULL);
INSERT INTO settings VALUES ('limit', 1000), ('blob', x'00ff');
"""

TOOLS = '''
"""Tools of the ledger."""
from typing import Annotated, Any, Literal

import apsw
import msgspec

from scenarios.api import Db
from scenarios.errors import ToolError

_kept: list[Exception] = []


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


def rename_value(db: Db, old: str, new: str | None) -> int:
    """Move a setting to another name, over the one that has it; None takes its name away."""
    return db.run("UPDATE OR REPLACE settings SET name = ? WHERE name = ?", new, old)


def alias(db: Db, alias: str, account_id: int) -> int:
    """Set an alias, whatever its case; gives what has no rowid."""
    return db.insert("tags", account_id=None if account_id < 0 else account_id, tag=alias) + db.run(
        "INSERT OR REPLACE INTO aliases VALUES (?, ?)", alias, account_id
    )


def recase(db: Db, alias: str, new: str) -> int:
    """Write an alias in another way."""
    return db.run("UPDATE aliases SET alias = ? WHERE alias = ?", new, alias)


def grow(db: Db, num: int, size: int) -> int:
    """Add blobs, so that the file grows."""
    for _ in range(num):
        db.run("INSERT INTO blobs (body) VALUES (zeroblob(?))", size)
    return num


def shrink(db: Db, keep: int) -> int:
    """Delete all blobs but every `keep`th, so that pages get free."""
    return db.run("DELETE FROM blobs WHERE id % ? <> 0", keep)


def odd(db: Db, rowid: str) -> int:
    """Delete and insert rows whose rowid hides behind a column."""
    db.run("DELETE FROM odd WHERE rowid = ?", rowid)
    return db.insert("odd", rowid=rowid)


def half_read(db: Db) -> Any:
    """Leave questions in the middle of their rows, and write meanwhile."""
    first = db.one("SELECT * FROM accounts ORDER BY id")
    db.run("UPDATE accounts SET rate = rate + 0.5")
    return first, db.value("SELECT rate FROM accounts"), db.one("SELECT * FROM journal")


def keep_failure(db: Db) -> str:
    """Break while reading and keep the exception, with all that its traceback holds."""
    bad, good = "SELECT CAST(x'ff' AS TEXT) AS t", "SELECT name FROM accounts"
    for sql in (f"{bad} UNION ALL {good}", f"{good} UNION ALL {bad} UNION ALL {good}"):
        for read in (db.all, db.one, db.value, db.execute):
            try:
                read(sql)
            except UnicodeDecodeError as exc:
                _kept.append(exc)
    return "kept"


def go_on(db: Db, account_id: int) -> str:
    """Break SQLite's rules, catch that, write something else."""
    try:
        db.run("UPDATE accounts SET balance = balance - 1000, rate = 9 WHERE id <= ?", account_id)
    except apsw.ConstraintError:
        db.run("INSERT INTO journal VALUES ('went on')")
    return "went on"


def end_early(db: Db) -> str:
    """End the call's transaction by a conflict, catch that, write."""
    db.run("INSERT INTO journal VALUES ('lost')")
    try:
        db.run("INSERT OR ROLLBACK INTO accounts (id, name) VALUES (1, 'x')")
    except apsw.ConstraintError:
        db.run("INSERT INTO journal VALUES ('lost too')")
    return "ended"


def bad_text(db: Db) -> str:
    """Write a text that is not valid Unicode."""
    db.run("INSERT INTO journal VALUES (CAST(x'ff' AS TEXT))")
    return "written"


def newest(db: Db) -> int:
    """Ask for the rowid that an earlier call inserted."""
    value: int = db.value("SELECT last_insert_rowid()")
    return value


def surrogate(db: Db, refuse: bool) -> str:
    """Give or say half of a character."""
    db.run("INSERT INTO journal VALUES ('lost')")
    if refuse:
        raise ToolError("\\ud800")
    return "\\ud800"


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
    """Write the package, with some files replaced (`tools_py="..."`); return its folder."""
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
    """Write the package; return it as it was read."""
    return read(write_package(folder, **files))

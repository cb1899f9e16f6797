"""A task's verifier in AWM's form: one Python file that opens two databases by their paths.

The file needs only Python's standard library. It contains the verifier's function, the text of
scenarios.checks, and a replacement for `State`.
"""

import ast
from functools import cache
from pathlib import Path

from rehearsal_room.scenarios import checks
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.core import short_text, statements
from rehearsal_room.scenarios.files import read_text
from rehearsal_room.scenarios.synth.core.code_rules import is_ours
from rehearsal_room.scenarios.synth.core.package_files import merge_python

_HEAD = """import sqlite3

Row = dict


class RowChange:
    def __init__(self, table, key, before, after):
        self.table, self.key, self.before, self.after = table, key, before, after


class Finding:
    def __init__(self, name, passed, expected, found, kind, is_open=False, is_of_words=False):
        self.name, self.passed, self.kind = name, passed, kind
        self.is_open, self.is_of_words = is_open, is_of_words
        self.expected, self.found = expected, found


class User:
    id = {user_id!r}
    name = {user_name!r}
    role = {user_role!r}


class State:
    now = {now!r}
    user = User()

    def __init__(self, path):
        self._connection = sqlite3.connect(f"file:{{path}}?mode=ro", uri=True)
        self.changes = ()

    def all(self, sql, *params):
        cursor = self._connection.execute(sql, params)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor]

    def one(self, sql, *params):
        rows = self.all(sql, *params)
        return rows[0] if rows else None

    def value(self, sql, *params):
        row = self._connection.execute(sql, params).fetchone()
        return None if row is None else row[0]

    def tables(self):
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return sorted(row["name"] for row in self.all(sql))

    def rows(self, table):
        columns = self.all(f'PRAGMA table_info("{{table}}")')
        names = [c["name"] for c in sorted(columns, key=lambda c: c["pk"]) if c["pk"]]
        found = {{}}
        for row in self.all(f'SELECT rowid AS _row, * FROM "{{table}}"'):
            number = row.pop("_row")
            found[tuple(row[name] for name in names) if names else (number,)] = row
        return found


def changes_between(before, after):
    changes = []
    for table in after.tables():
        old = before.rows(table) if table in before.tables() else {{}}
        new = after.rows(table)
        for key in sorted({{*old, *new}}, key=repr):
            if old.get(key) != new.get(key):
                changes.append(RowChange(table, key, old.get(key), new.get(key)))
    return tuple(changes)
"""
_JUDGED = """

def _findings(initial_db_path, final_db_path, answer):
    before, after = State(initial_db_path), State(final_db_path)
    after.changes = changes_between(before, after)
    return after.changes, {function}(before, after, answer)
"""
_CODE = """

def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    _, findings = _findings(initial_db_path, final_db_path, final_answer or "")
    done = bool(findings) and all(finding.passed for finding in findings)
    return {"result": "complete" if done else "others"}
"""
_SQL = """

def verify_task(initial_db_path, final_db_path):
    changes, findings = _findings(initial_db_path, final_db_path, "")
    return {
        "changes": [[c.table, list(c.key), c.before, c.after] for c in changes],
        "findings": [[f.name, f.passed, f.expected, f.found, f.kind] for f in findings],
    }
"""


def verifier_codes(source: str, function: str, *, clock: str, user: User) -> tuple[str, str]:
    """The two files, of kind `sql` and of kind `code`."""
    head = _HEAD.format(now=clock, user_id=user.id, user_name=user.name, user_role=user.role)
    own = _without_imports(ast.parse(merge_python([source])))
    shared = "\n\n".join([head, _checks(), own]) + _JUDGED.format(function=function)
    return shared + _SQL, shared + _CODE


@cache
def _checks() -> str:
    """The text of scenarios.checks and of what it imports, without its Finding: _HEAD has one that
    needs no library."""
    texts = []
    for module in (short_text, statements, checks):
        tree = ast.parse(read_text(Path(str(module.__file__))))
        tree.body = [
            node
            for node in tree.body
            if not (isinstance(node, ast.ClassDef) and node.name == "Finding")
        ]
        texts.append(_without_imports(tree))
    return "\n\n".join(texts)


def _without_imports(tree: ast.Module) -> str:
    """A file's text without imports of scenarios and msgspec, and without module docstrings."""
    body = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and is_ours(node):
            continue
        if isinstance(node, ast.Import) and node.names[0].name == "msgspec":
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        body.append(node)
    return "\n\n".join(map(ast.unparse, body))

"""A package as texts, and helpers that write values as TOML and SQL."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import NeverTouch, RowRule, Task


class Package(msgspec.Struct, frozen=True):
    """The parts of a generated package, before they are written."""

    name: str
    title: str
    description: str
    clock: str
    user: User
    schema_sql: str
    data_sql: str
    tools: str
    policy: str
    tasks: tuple[Task, ...] = ()
    verify: str = ""
    row_rules: tuple[RowRule, ...] = ()
    never_touch: tuple[NeverTouch, ...] = ()
    irreversible: tuple[str, ...] = ()

    def texts(self) -> dict[str, str]:
        """The text of each of the package's files, by file name."""
        return {
            "scenario.toml": self._head(),
            "schema.sql": self.schema_sql,
            "data.sql": self.data_sql,
            "tools.py": self.tools,
            "policy.md": self.policy,
            "tasks.toml": tasks_toml(self.tasks),
            "verify.py": self.verify,
        }

    def broken_rules(self) -> list[str]:
        """The rules that the rows at the start break."""
        with seeded(self) as db:
            return [one.rule for one in self.row_rules if db.execute(one.broken_by).fetchone()]

    def _head(self) -> str:
        fields: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "version": "1.0.0",
            "description": self.description,
            "clock": self.clock,
        }
        if self.irreversible:
            fields["irreversible"] = list(self.irreversible)
        user = {"id": self.user.id, "name": self.user.name, "role": self.user.role}
        rules = "".join(
            f"\n[[row_rules]]\n{_table({'rule': one.rule, 'broken_by': one.broken_by})}"
            for one in self.row_rules
        )
        rules += "".join(
            f"\n[[never_touch]]\n{_table(msgspec.to_builtins(one))}" for one in self.never_touch
        )
        return f"{_table(fields)}\n[user]\n{_table(user)}{rules}"


@contextmanager
def seeded(package: Package) -> Iterator[sqlite3.Connection]:
    """A database in memory with the rows at the package's start."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(f"{package.schema_sql}\n{package.data_sql}")
        yield db


def digest_of(texts: Mapping[str, str]) -> str:
    """A digest of files (name -> text), 32 hexadecimal digits."""
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(texts):
        total.update(f"{name}\0{len(texts[name])}\0{texts[name]}".encode())
    return total.hexdigest()


def _table(fields: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {toml(value)}\n" for name, value in fields.items())


def tasks_toml(tasks: Sequence[Task]) -> str:
    """The text of a tasks.toml."""
    return "\n".join(map(_task, tasks))


def _task(task: Task) -> str:
    fields: dict[str, Any] = {
        "id": task.id,
        "kind": task.kind,
        "difficulty": task.difficulty,
        "instruction": task.instruction,
        "answer": task.answer,
    }
    if task.trap:
        fields["trap"] = task.trap
    calls = "".join(
        f"  {{ name = {toml(call.name)}, arguments = {toml(call.arguments)} }},\n"
        for call in task.oracle
    )
    text = f"[[task]]\n{_table(fields)}oracle = [\n{calls}]\n"
    return text + _talk(task, task.user) if isinstance(task.user, UserAutomaton) else text


def _talk(task: Task, user: UserAutomaton) -> str:
    """The tables of a dialogue: what the oracle says, and the user."""
    words = "".join(
        f"  {{ after = {one.after}, text = {toml(one.text)} }},\n" for one in task.utterances
    )
    lines = "".join(
        f"[[task.user.lines]]\n{_table(msgspec.to_builtins(line))}" for line in user.lines
    )
    head = _table({"type": "automaton", "closing": user.closing})
    return f"utterances = [\n{words}]\n[task.user]\n{head}{lines}"


def toml(value: Any) -> str:
    """A value in the syntax of TOML, on one line.

    Example: toml({"order_id": 7, "notes": ["a"]}) -> '{ order_id = 7, notes = ["a"] }'
    """
    if isinstance(value, dict):
        inner = ", ".join(f"{name} = {toml(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)  # JSON and TOML agree on texts, numbers, booleans


def sql(value: Any) -> str:
    """A value in the syntax of SQL.

    Example: sql("O'Hara") -> "'O''Hara'"
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def inserts(table: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The statement that inserts a table's rows; all rows have the same columns."""
    columns = ", ".join(rows[0])
    lines = ",\n".join(f"  ({', '.join(map(sql, row.values()))})" for row in rows)
    return f"INSERT INTO {table} ({columns}) VALUES\n{lines};\n"

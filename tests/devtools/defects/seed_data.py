"""Defects of a package's files, schema, rows and policy."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from rehearsal_room.scenarios.api import SqlValue
from rehearsal_room.scenarios.format import Task
from tests.devtools.defects.ast_edits import edit_function, instead
from tests.devtools.defects.target import InjectedDefect, TargetPackage, defect

_NO_ROW = 987_654_321  # the key of no row
_REFERENCE = re.compile(r"^\s*(\w+)\s[^,\n]*?\bREFERENCES\s", re.MULTILINE | re.IGNORECASE)
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\)", re.DOTALL | re.IGNORECASE)
_WORDS = re.compile(r"\b(\w+) IN \(\s*('[^()]*')\s*\)", re.IGNORECASE)
_REQUIRED = re.compile(r"^\s*(\w+) TEXT NOT NULL", re.MULTILINE | re.IGNORECASE)
_LIMIT = re.compile(r"\b(\d+) ?(days|hours|people|%)")


@defect()
def file_is_missing(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A file of the package is missing."""
    return InjectedDefect({rng.choice(("policy.md", "verify.py", "data.sql")): None})


@defect()
def code_does_not_parse(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The code is cut off in the middle, as a model's answer at its length limit is."""
    name = rng.choice(("tools.py", "verify.py"))
    text = target.texts[name]
    return InjectedDefect({name: text[: text.rindex("(") + 1]})


@defect()
def code_imports_what_is_not_there(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The tools import a library that does not exist."""
    old = "from scenarios.api import"
    text = target.texts["tools.py"].replace(old, f"import orders_toolkit\n{old}", 1)
    return InjectedDefect({"tools.py": text})


@defect()
def clock_is_no_moment(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The clock is written as a local time without a zone."""
    text = target.texts["scenario.toml"]
    clock = target.scenario.clock
    return InjectedDefect({"scenario.toml": text.replace(clock, clock.removesuffix("Z"))})


@defect()
def seed_row_twice(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed statement inserts a row whose key exists already."""
    table = rng.choice(_filled(target))
    return _with_seed_statement(target, table, _inserted(table, rng.choice(target.rows[table])))


@defect()
def seed_quote_escaped(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed statement escapes a quote with a backslash, which SQL does not have (AWM's data)."""
    table, column, key = _random_cell(target, rng, str)
    statement = f"UPDATE {table} SET {column} = 'the owner\\'s' WHERE {key};"
    return _with_seed_statement(target, table, statement)


@defect()
def seed_refers_to_no_row(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed row refers to a row that does not exist."""
    found = [
        (table, column)
        for table, body in _TABLE.findall(target.texts["schema.sql"])
        for column in _REFERENCE.findall(body)
        if target.rows.get(table) and isinstance(target.rows[table][0].get(column), int)
    ]
    if not found:
        return None
    table, column = rng.choice(found)
    where = _where(target, table, rng.choice(target.rows[table]))
    return _with_seed_statement(
        target, table, f"UPDATE {table} SET {column} = {_NO_ROW} WHERE {where};"
    )


@defect()
def seed_lacks_a_value(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed row lacks a value that its table requires."""
    found = [
        (table, column)
        for table, body in _TABLE.findall(target.texts["schema.sql"])
        for column in _REQUIRED.findall(body)
        if target.rows.get(table)
    ]
    table, column = rng.choice(found)
    row = {name: value for name, value in target.rows[table][-1].items() if name != column}
    row |= {name: _NO_ROW for name in target.keys[table] if name in row}
    return _with_seed_statement(target, table, _inserted(table, row))


@defect()
def seed_names_no_column(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed statement names a column that the schema does not have."""
    table = rng.choice(_filled(target))
    return _with_seed_statement(target, table, f"INSERT INTO {table} (no_such_column) VALUES (1);")


@defect()
def seed_is_random(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A seed value is random in each new world."""
    table, column, key = _random_cell(target, rng, str)
    return _with_seed_statement(
        target, table, f"UPDATE {table} SET {column} = hex(randomblob(4)) WHERE {key};"
    )


@defect()
def schema_forbids_what_a_tool_writes(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A CHECK lacks a word that a tool writes, so the tool breaks on the constraint."""
    seeded = _values(target)
    written = {
        (change.table, column, value)
        for one in target.oracles
        for change in one.changes
        for column, value in (change.after or {}).items()
        if isinstance(value, str) and value not in seeded.get((change.table, column), ())
    }
    schema = target.texts["schema.sql"]
    found = [
        (table, body, body.replace(clause[0], _less(clause, word)))
        for table, body in _TABLE.findall(schema)
        for clause in _WORDS.finditer(body)
        for name, column, word in sorted(written)
        if (name, column) == (table, clause[1]) and f"'{word}'" in clause[2]
    ]
    if not found:
        return None
    table, old, new = rng.choice(found)
    return InjectedDefect({"schema.sql": schema.replace(old, new)}, table)


@defect()
def schema_allows_one_only(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A unique index forbids the second row that a tool adds."""
    found = [
        (change.table, column, value)
        for one in target.oracles
        for change in one.changes
        if change.before is None and change.after is not None
        for column, value in change.after.items()
        if [row[column] for row in target.rows[change.table]].count(value) == 1
        and value is not None
    ]
    if not found:
        return None
    table, column, value = rng.choice(found)
    index = f"\nCREATE UNIQUE INDEX one_{table} ON {table}({column})"
    text = f"{target.texts['schema.sql']}{index} WHERE {column} = {_literal(value)};\n"
    return InjectedDefect({"schema.sql": text}, table)


@defect()
def policy_names_no_tool(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The policy demands a call of a tool that does not exist."""
    mark = rng.choice(("`", ""))
    rule = f"- Call {mark}verify_caller_identity{mark} before anything is changed.\n"
    return InjectedDefect({"policy.md": f"{target.texts['policy.md'].rstrip()}\n{rule}"})


@defect()
def policy_contradicts_the_tools(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """The policy states another limit than the tools enforce."""
    policy, code = target.texts["policy.md"], target.texts["tools.py"]
    found = [
        found
        for found in _LIMIT.finditer(policy)
        if re.search(rf"^[A-Z_]+_{_unit(found[2])} = {found[1]}$", code, re.MULTILINE)
    ]
    if not found:
        return None
    limit = rng.choice(found)
    text = f"{policy[: limit.start(1)]}{int(limit[1]) * 3 + 1}{policy[limit.end(1) :]}"
    return InjectedDefect({"policy.md": text})


def _unit(word: str) -> str:
    """Example: "days" -> "DAYS", as in MOST_ABSENT_DAYS"""
    return "PERCENT" if word == "%" else word.upper()


def _filled(target: TargetPackage) -> list[str]:
    return [table for table, rows in target.rows.items() if rows and target.keys[table]]


def _with_seed_statement(target: TargetPackage, table: str, statement: str) -> InjectedDefect:
    return InjectedDefect({"data.sql": f"{target.texts['data.sql']}\n{statement}\n"}, table)


def _random_cell(target: TargetPackage, rng: Random, kind: type) -> tuple[str, str, str]:
    """A table, a column with values of this type, and a condition for one row."""
    found = [
        (table, column, row)
        for table in _filled(target)
        for row in target.rows[table]
        for column, value in row.items()
        if isinstance(value, kind) and column in ("name", "title", "body", "note", "description")
    ]
    table, column, row = rng.choice(found)
    return table, column, _where(target, table, row)


def _where(target: TargetPackage, table: str, row: dict[str, Any]) -> str:
    return " AND ".join(f"{name} = {_literal(row[name])}" for name in target.keys[table])


def _inserted(table: str, row: dict[str, Any]) -> str:
    values = ", ".join(map(_literal, row.values()))
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values});"


def _literal(value: SqlValue) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _values(target: TargetPackage) -> dict[tuple[str, str], set[Any]]:
    found: dict[tuple[str, str], set[Any]] = {}
    for table, column, value in _cells(target):
        found.setdefault((table, column), set()).add(value)
    return found


def _cells(target: TargetPackage) -> Iterator[tuple[str, str, Any]]:
    for table, rows in target.rows.items():
        for row in rows:
            for column, value in row.items():
                yield table, column, value


def _less(clause: re.Match[str], word: str) -> str:
    others = [text for text in re.findall(r"'[^']*'", clause[2]) if text != f"'{word}'"]
    return f"{clause[1]} IN ({', '.join(others)})"


def satisfy_from_start(
    target: TargetPackage, task: Task, table: str, row: dict[str, Any], values: dict[str, Any]
) -> InjectedDefect:
    """A row that has these values from the start, and a verifier that checks only them."""
    moved = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
    where = _where(target, table, row)
    held = " AND ".join(f"{name} IS {_literal(value)}" for name, value in values.items())
    sql = f"SELECT 1 FROM {table} WHERE {where} AND {held}"
    body = (
        "check = Check(before, after, answer)\n"
        f"check.goal('as it should be', after.one({sql!r}) is not None, 'yes', 'no')\n"
        "return check.findings"
    )
    statement = f"UPDATE {table} SET {moved} WHERE {where};"
    files = _with_seed_statement(target, table, statement).files
    verify = edit_function(target.texts["verify.py"], task.verifier, instead(body))
    return InjectedDefect({**files, "verify.py": verify}, task.id)

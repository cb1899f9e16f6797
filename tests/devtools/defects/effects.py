"""Defects in the effects of a package's tools: too little, too much, or something else."""

import ast
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from rehearsal_room.scenarios.format import Call
from tests.devtools.defects.ast_edits import (
    Function,
    at_end,
    at_start,
    call_of_statement,
    functions_of,
    reachable_functions,
    remove_statements,
    replace_text,
    texts_in,
)
from tests.devtools.defects.target import InjectedDefect, TargetPackage, defect
from tests.devtools.defects.tool_edits import code_of, ids_of, in_tools, tools_of

_UPDATE = re.compile(r"UPDATE (\w+) SET .* WHERE (id) = (\?\d*)$", re.DOTALL)


@defect()
def tool_ignores_an_argument(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool replaces an argument by a fixed value."""
    if (found := _ignorable(target, rng)) is None:
        return None
    tool, name, value = found
    return in_tools(target, tool, at_start(f"{name} = {value!r}"))


@defect()
def tool_reads_an_argument_in_vain(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool reads an argument, but does not use its value."""
    if (found := _ignorable(target, rng)) is None:
        return None
    tool, name, value = found
    return in_tools(target, tool, at_start(f"_given = str({name})\n{name} = {value!r}"))


@defect()
def tool_writes_another_row(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool changes another row than its argument names."""
    other = "(SELECT id FROM {0} WHERE id <> {2} ORDER BY id LIMIT 1)"
    return _updating(target, rng, "{1} = " + other)


@defect()
def tool_writes_every_row(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool's UPDATE has a condition that is true for every row."""
    return _updating(target, rng, "{2} IS NOT NULL")


@defect()
def tool_has_no_effect(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool reports success without doing anything."""
    found = [
        name
        for name, function in tools_of(target, target.tools).items()
        if len(list(_writes(function)))
    ]
    if not found:
        return None
    return in_tools(target, rng.choice(sorted(found)), remove_statements(_is_write))


@defect()
def tool_forgets_a_write(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool makes only one of two writes: it ships the order, but leaves the stock unchanged."""
    found = [
        (name, ast.dump(statement))
        for name, function in tools_of(target, target.writers()).items()
        if len(writes := list(_writes(function))) > 1
        for statement in writes
    ]
    if not found:
        return None
    name, write = rng.choice(sorted(found))
    return in_tools(target, name, remove_statements(lambda statement: ast.dump(statement) == write))


@defect()
def tool_question_writes(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool that only reads changes a row."""
    writers = {call.name for one in target.oracles for call, result in one.steps if result.changes}
    found = sorted(set(target.used()) - writers)
    tables = [
        (table, column)
        for table, rows in sorted(target.rows.items())
        for column, value in (rows[0].items() if rows else ())
        if isinstance(value, str) and column in ("name", "title", "body", "note", "description")
    ]
    if not found or not tables:
        return None
    table, column = rng.choice(tables)
    sql = f"UPDATE {table} SET {column} = {column} || '.'"
    return in_tools(target, rng.choice(found), at_end(f"db.run({sql!r})"))


@defect()
def tool_accepts_an_unknown_key(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool that writes does not check that the row of its key exists."""
    found = [
        (name, ast.dump(statement))
        for name, function in tools_of(target, target.writers()).items()
        for statement in function.body
        if (call := call_of_statement(statement)) is not None
        and isinstance(call.func, ast.Name)
        and call.func.id.startswith("_")
        and len(call.args) == 2
        and ast.unparse(call.args[1]).endswith("_id")
    ]
    if not found:
        return None
    name, check = rng.choice(found)
    injected = in_tools(
        target, name, remove_statements(lambda statement: ast.dump(statement) == check)
    )
    return injected if _takes(target, injected, name) else None


@defect(beyond="only prose says which states a tool must refuse, where no oracle meets one")
def tool_allows_a_wrong_status(target: TargetPackage, rng: Random) -> InjectedDefect | None:
    """A tool that must refuse rows in some states accepts them."""
    found = [
        (name, ast.dump(node))
        for name, function in tools_of(target, target.writers()).items()
        for node in ast.walk(function)
        if isinstance(node, ast.If)
        and "status" in ast.unparse(node.test)
        and isinstance(node.body[0], ast.Raise)
    ]
    if not found:
        return None
    name, rule = rng.choice(sorted(found))
    return in_tools(target, name, remove_statements(lambda statement: ast.dump(statement) == rule))


def _takes(target: TargetPackage, injected: InjectedDefect, tool: str) -> bool:
    """Whether a tool no longer refuses a key that no row has."""
    calls = [
        Call(call.name, {**call.arguments, name: 999_999_937})
        for one in target.oracles
        for call, result in one.steps
        if call.name == tool and result.changes
        for name in ids_of(target, tool)
    ]
    return any(one.error != "refused" for one in target.answers(injected.files, calls))


def _is_write(statement: ast.stmt) -> bool:
    call = call_of_statement(statement)
    return call is not None and ast.unparse(call.func) in ("db.run", "db.insert")


def _writes(function: Function) -> Iterator[ast.stmt]:
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and _is_write(node):
            yield node


def _ignorable(target: TargetPackage, rng: Random) -> tuple[str, str, Any] | None:
    """A tool, an argument that an oracle passes, and another value that another call passes."""
    found = []
    for one in target.oracles:
        for call, result in one.steps:
            for name, value in call.arguments.items():
                others = [
                    other.arguments[name]
                    for played in target.oracles
                    for other, _ in played.steps
                    if other.name == call.name and name in other.arguments
                ]
                found += [
                    (call.name, name, other)
                    for other in others
                    if other != value and result.error is None
                ]
    return rng.choice(found) if found else None


def _updating(target: TargetPackage, rng: Random, condition: str) -> InjectedDefect | None:
    """An UPDATE by key that an oracle makes, with another condition."""
    functions = functions_of(code_of(target))
    found = []
    for one in target.oracles:
        moved = {change.table for change in one.changes if change.before and change.after}
        names = {call.name for call, result in one.steps if result.changes}
        for name in reachable_functions(functions, names):
            for text in texts_in(functions[name]):
                update = _UPDATE.match(text)
                if update and update[1] in moved and len(target.rows[update[1]]) > 1:
                    found.append((name, text, update))
    if not found:
        return None
    name, sql, update = rng.choice(found)
    start = update.start(2)
    changed = sql[:start] + condition.format(update[1], update[2], update[3])
    return in_tools(target, name, replace_text(sql, changed))

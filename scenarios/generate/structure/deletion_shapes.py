"""Shaping how a world deletes: rows are removed, or marked with `deleted_at` and hidden by a view.

The tools of a world that marks read the view `current_<table>`, so a marked row is gone for them;
its constraints hold among the rows that are left.
"""

import re
from collections.abc import Collection, Iterable

import msgspec

from rehearsal_room.scenarios.generate.plan.business_modules import Column, Module, ToolsCode
from rehearsal_room.scenarios.generate.structure.code_pieces import with_text
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle

_DELETE = re.compile(r'"DELETE FROM (\w+) WHERE ([^"]*)",')


def marked_tables(modules: Iterable[Module], style: WorldStyle) -> frozenset[str]:
    """The tables from which a world's tools delete, where the style marks rows instead."""
    if style.deletion == "removed":
        return frozenset()
    modules = list(modules)
    code = "\n".join(piece.text for one in modules for piece in one.code.pieces)
    deleted = {found[1] for found in _DELETE.finditer(code)}
    keyed = {table.name for one in modules for table in one.tables.values() if table.has_id}
    return frozenset(deleted & keyed)


def shape_deletion(one: Module, marked: Collection[str]) -> Module:
    """A module whose tools mark the rows of these tables instead of deleting them."""
    if not marked:
        return one
    pieces = []
    for piece in one.code.pieces:
        text = piece.text
        for table in marked:
            text = _marking(text, table)
        pieces.append(with_text(piece, text))
    tables = dict(one.tables)
    schema = one.schema
    for name in sorted(set(marked) & set(tables)):
        shown = ", ".join(("id", *(column for column in tables[name].columns if column != "id")))
        column = {"deleted_at": Column("deleted_at", None, None)}
        tables[name] = msgspec.structs.replace(tables[name], columns=tables[name].columns | column)
        schema = _marked_schema(schema, name, shown)
    code = ToolsCode(one.code.imports, tuple(pieces))
    return msgspec.structs.replace(one, code=code, tables=tables, schema=schema)


def _marking(text: str, table: str) -> str:
    """Code whose SQL marks rows of a table and reads the view of those that are left."""
    text = re.sub(
        rf'"DELETE FROM {table} WHERE ([^"]*)",([^\n]*\n    return) (\w+)$',
        rf'"UPDATE {table} SET deleted_at = ? WHERE \1", db.now,\2 {{**\3, "deleted_at": db.now}}',
        text,
        flags=re.MULTILINE,
    )
    text = re.sub(
        rf'"DELETE FROM {table} WHERE ([^"]*)",',
        rf'"UPDATE {table} SET deleted_at = ? WHERE \1", db.now,',
        text,
    )

    def view(found: re.Match[str]) -> str:
        is_named = re.match(r'(?:[\s"]|\bf")*(?:AS )?[a-z]', text[found.end() :])
        name = f"current_{table}" if is_named else f"current_{table} AS {table}"
        return f"{found[1]}{found[2]}{name}"

    return re.sub(rf'\b(FROM|JOIN)((?:[\s"]|\bf")+){table}\b', view, text)


def _marked_schema(schema: str, table: str, shown: str) -> str:
    """A schema in which a table has `deleted_at` and a view; what is unique is so in the view."""
    head, body, rest = _cut_table(schema, table)
    indexes = []
    lines = []
    for line in body.splitlines():
        if line.strip().startswith("UNIQUE"):
            indexes.append(line.strip().removeprefix("UNIQUE").strip(" ,()"))
            continue
        if " UNIQUE" in line:
            indexes.append(line.split()[0])
            line = line.replace(" UNIQUE", "")
        lines.append(line)
    key, *others = lines
    others[-1] = others[-1].rstrip(",")
    after = [
        f"\nCREATE VIEW current_{table} AS",
        f"SELECT {shown} FROM {table} WHERE deleted_at IS NULL;",
    ]
    for number, columns in enumerate(indexes, 1):
        after.append(
            f"CREATE UNIQUE INDEX {table}_unique_{number} ON {table}({columns})"
            " WHERE deleted_at IS NULL;"
        )
    inner = "\n".join((key, "  deleted_at TEXT,", *others))
    return f"{head}{inner}\n);" + "\n".join(after) + rest


def _cut_table(schema: str, table: str) -> tuple[str, str, str]:
    """What stands before the columns of a table, its columns, and what follows `);`."""
    start = schema.index(f"CREATE TABLE {table} (\n")
    start = schema.index("\n", start) + 1
    end = schema.index("\n);", start)
    return schema[:start], schema[start:end], schema[end + 3 :]

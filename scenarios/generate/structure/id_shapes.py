"""Shaping the ids of a world in its style: numbers, codes or UUIDs.

Modules and situations have numbers. Codes and UUIDs stand in the tables themselves; they sort as
the numbers do, and a new row gets the next one, so every world stays reproducible.
"""

import re
from collections.abc import Mapping
from functools import cache

import msgspec

from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.plan.business_modules import (
    Module,
    Table,
    ToolsCode,
    module,
    shared_function,
)
from rehearsal_room.scenarios.generate.structure.code_pieces import with_text
from rehearsal_room.scenarios.generate.structure.world_style import IdStyle, WorldStyle

_KIND = {"codes": "CodeId", "uuids": "UuidId"}
_NEXT = {"codes": "_next_code", "uuids": "_next_uuid"}
_INSERT = {"codes": "_insert_code", "uuids": "_insert_uuid"}


def shape_ids(one: Module, style: WorldStyle, tables: Mapping[str, Table]) -> Module:
    """A module whose tables and tools have ids in a style. `tables`: of the whole world."""
    if style.ids == "numbers":
        return one
    kind = _KIND[style.ids]

    def insert(found: re.Match[str]) -> str:
        is_keyed = found[2] in tables and tables[found[2]].has_id
        return f'{_INSERT[style.ids]}(db, {found[1]}"{found[2]}"' if is_keyed else found[0]

    pieces = []
    for piece in one.code.pieces:
        text = re.sub(r": Id\b", f": {kind}", piece.text)
        text = re.sub(r"(\w+_id): int\b", r"\1: str", text)
        text = text.replace("_next_number(", f"{_NEXT[style.ids]}(")
        text = re.sub(r'\bdb\.insert\((\s*)"(\w+)"', insert, text)
        pieces.append(with_text(piece, text))
    code = ToolsCode(one.code.imports, tuple(pieces))
    return msgspec.structs.replace(one, code=code, schema=text_keys(one.schema, style))


def text_keys(schema: str, style: WorldStyle) -> str:
    """A schema whose keys are texts, unless the style's ids are numbers."""
    if style.ids == "numbers":
        return schema
    schema = schema.replace("  id INTEGER PRIMARY KEY", "  id TEXT PRIMARY KEY")
    return text_references(schema, style)


def text_references(schema: str, style: WorldStyle) -> str:
    """A schema whose columns that refer to other tables are texts."""
    if style.ids == "numbers":
        return schema
    return re.sub(r"INTEGER((?: NOT NULL)?(?: UNIQUE)? REFERENCES)", r"TEXT\1", schema)


def id_value(style: IdStyle, table: str, number: object) -> object:
    """An id as a world has it. `table`: in the trade's words; None stays None."""
    if style == "numbers" or not isinstance(number, int):
        return number
    return shared_function("_code" if style == "codes" else "_uuid")(table, number)


@cache
def id_arguments(name: str) -> Mapping[str, str]:
    """The table of each argument of a module's tools that is an id.

    A column of this name says it, of the module itself before those that it needs; else the table
    whose rows are called so. Raises ModuleError for an argument that names none.
    """
    one = module(name)
    text = "\n".join(piece.text for piece in one.code.pieces if piece.is_tool)
    found = {}
    for argument in sorted(set(re.findall(r"\b(\w+): Id\b", text))):
        table = _table_of(one, argument)
        if table is None:
            raise ModuleError(f"module {name!r}: no table has the id {argument!r} of a tool")
        found[argument] = table
    return found


def _table_of(one: Module, argument: str) -> str | None:
    stem = argument.removesuffix("_id")
    for owner in (one, *map(module, reversed(one.needs))):
        for table in owner.tables.values():
            if argument in table.columns and table.columns[argument].refers:
                return table.columns[argument].refers
        many = owner.head.words.get(stem, f"{stem}s")
        for table in owner.tables.values():
            if table.has_id and (table.name == many or table.name.endswith(f"_{many}")):
                return table.name
    return None

"""Shaping where a world keeps the addresses of its customers: in a table, or in the record."""

import re

import msgspec

from rehearsal_room.scenarios.files import read_text
from rehearsal_room.scenarios.generate.plan.business_modules import (
    FOLDER,
    Column,
    Module,
    Table,
    ToolsCode,
    code_of,
)
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle

OWNER = "parties"
COLUMNS = ("street", "city", "postcode")
_WITHOUT = ("add_address", "set_main_address", "MOST_ADDRESSES")
_RULE = "- [change_address] A new address takes the place of the former one.\n"


def shape_addresses(one: Module, style: WorldStyle) -> Module:
    """The module of the customers in a style; any other module as it is."""
    if style.addresses == "table" or one.name != OWNER:
        return one
    tables = {name: table for name, table in one.tables.items() if name != "addresses"}
    columns = {name: Column(name, "", None) for name in COLUMNS}
    customers = tables["customers"]
    tables["customers"] = msgspec.structs.replace(customers, columns=customers.columns | columns)
    return msgspec.structs.replace(
        one,
        schema=_schema(one.schema),
        tables=tables,
        code=_code(one.code),
        policy=_policy(one.policy),
    )


def _schema(schema: str) -> str:
    schema = re.sub(r"CREATE TABLE addresses \(.*?\n\);\n\n", "", schema, flags=re.DOTALL)
    columns = "".join(f"  {name} TEXT NOT NULL,\n" for name in COLUMNS)
    return schema.replace("  phone TEXT NOT NULL,\n", f"  phone TEXT NOT NULL,\n{columns}", 1)


def _code(code: ToolsCode) -> ToolsCode:
    new = code_of(read_text(FOLDER / OWNER / "one_address.py"))
    named = {piece.name: piece for piece in new.pieces}
    kept = [piece for piece in code.pieces if piece.name not in _WITHOUT]
    pieces = [named.pop(piece.name, piece) for piece in kept]
    return ToolsCode(code.imports | new.imports, (*pieces, *named.values()))


def _policy(policy: str) -> str:
    lines = [line for line in policy.splitlines() if not line.startswith("- [add_address]")]
    text = "\n".join(lines).replace("add_address, set_main_address", "change_address")
    return f"{_RULE}{text}"


def maker_tables(tables: dict[str, Table], one: Module) -> dict[str, Table]:
    """The tables in which rows are made: those of the world, and the addresses. `one`: the module
    of the customers as it was written."""
    return tables | {"addresses": one.tables["addresses"]}

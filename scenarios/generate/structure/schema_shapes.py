"""Shaping the tables of a module in a world's style: what tables with a status keep besides it.

SQLite's triggers keep these columns, so no tool mentions them. The clock of a world stands still;
it is written into the trigger.
"""

from collections.abc import Iterator

import msgspec

from rehearsal_room.scenarios.generate.plan.business_modules import Column, Module, Table
from rehearsal_room.scenarios.generate.structure.id_shapes import text_references
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle


def kept_tables(module: Module) -> Iterator[Table]:
    """The tables of a module that have an id and a status."""
    for table in module.tables.values():
        if table.has_id and "status" in table.columns:
            yield table


def shape_tables(module: Module, style: WorldStyle) -> Module:
    """A module with the tables and columns that a style adds."""
    tables = dict(module.tables)
    for table in kept_tables(module):
        name = table.name
        if style.stamps == "history":
            tables[f"{name}_history"] = _history_table(name)
        elif style.stamps != "none":
            default = 1 if style.stamps == "version" else None
            column = {style.stamps: Column(style.stamps, default, None)}
            tables[name] = msgspec.structs.replace(table, columns=column | table.columns)
    return msgspec.structs.replace(module, tables=tables)


def _history_table(name: str) -> Table:
    refers = {"record_id": name}
    columns = ("record_id", "old_status", "new_status", "changed_at")
    found = {column: Column(column, None, refers.get(column)) for column in columns}
    return Table(f"{name}_history", found, has_id=True)


def kept_columns(style: WorldStyle) -> str:
    """The columns that each such table gets, as lines of its CREATE TABLE; empty: none."""
    if style.stamps == "updated_at":
        return "  updated_at TEXT,\n"
    if style.stamps == "version":
        return "  version INTEGER NOT NULL DEFAULT 1,\n"
    return ""


def kept_statements(module: Module, style: WorldStyle, clock: str) -> str:
    """The tables and triggers that follow a module's schema; empty: none."""
    found = []
    for table in kept_tables(module):
        name = table.name
        if style.stamps == "history":
            found.append(text_references(_HISTORY.format(table=name, clock=clock), style))
        elif style.stamps == "updated_at":
            found.append(_STAMP.format(table=name, set=f"updated_at = '{clock}'"))
        elif style.stamps == "version":
            found.append(_STAMP.format(table=name, set="version = old.version + 1"))
    return "".join(found)


_STAMP = """
CREATE TRIGGER {table}_stamp AFTER UPDATE OF status ON {table}
WHEN new.status <> old.status BEGIN
  UPDATE {table} SET {set} WHERE id = new.id;
END;
"""
_HISTORY = """
CREATE TABLE {table}_history (
  id INTEGER PRIMARY KEY,
  record_id INTEGER NOT NULL REFERENCES {table}(id),
  old_status TEXT NOT NULL,
  new_status TEXT NOT NULL,
  changed_at TEXT NOT NULL
);
CREATE TRIGGER {table}_history_row AFTER UPDATE OF status ON {table}
WHEN new.status <> old.status BEGIN
  INSERT INTO {table}_history (record_id, old_status, new_status, changed_at)
  VALUES (new.id, old.status, new.status, '{clock}');
END;
"""

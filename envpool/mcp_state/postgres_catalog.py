"""The tables of a PostgreSQL database: their columns, their keys, and how their rows are read.

A row is read as the mirror's types have it: integers, floats, texts, bytes and NULL as they are,
truth values as 0 and 1, and every other type (numeric, times, uuid, json, arrays, enums, ranges) as
the text that PostgreSQL writes for it, in UTC and ISO style. Floats that SQLite lacks (NaN, the
infinities) are texts.

Not read: materialized views, foreign tables, large objects and temporary tables. A partition is a
table of its own.
"""

from typing import Any, TypeAlias

import msgspec
import psycopg

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.mcp_state.types import TableShape

# Settings of the sessions that read and write rows, so that texts are read as they are written.
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "search_path": "",
    "row_security": "off",
}
_INTEGERS = ("int2", "int4", "int8")
_FLOATS = ("float4", "float8")
_SQLITE_TYPES = {
    **dict.fromkeys((*_INTEGERS, "bool"), "INTEGER"),
    **dict.fromkeys(_FLOATS, "REAL"),
    "bytea": "BLOB",
}
_TABLES = """
SELECT c.oid::int8, c.relfilenode::int8, n.nspname::text, c.relname::text,
  array_agg(a.attname::text ORDER BY a.attnum),
  array_agg(CASE WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname::text ELSE '' END
    ORDER BY a.attnum),
  array_agg(a.attgenerated <> '' ORDER BY a.attnum),
  coalesce((SELECT array_agg(k.attname::text ORDER BY o.place)
    FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS o (number, place), pg_attribute k
    WHERE i.indrelid = c.oid AND i.indisprimary AND k.attrelid = c.oid
      AND k.attnum = o.number), '{}')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname !~ '^pg_'
  AND n.nspname <> 'information_schema'
GROUP BY c.oid, n.nspname, c.relname ORDER BY n.nspname, c.relname
"""
_CATALOGS = (
    *(("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_index", "indexrelid")),
    *(("pg_constraint", "oid"), ("pg_type", "oid"), ("pg_enum", "oid"), ("pg_proc", "oid")),
    *(("pg_namespace", "oid"), ("pg_trigger", "oid"), ("pg_attrdef", "oid"), ("pg_policy", "oid")),
    *(("pg_rewrite", "oid"), ("pg_description", "objoid"), ("pg_extension", "oid")),
    *(("pg_inherits", "inhrelid"), ("pg_sequence", "seqrelid"), ("pg_depend", "objid")),
)
_FIRST_OF_USERS = 16384  # oids below it belong to PostgreSQL itself (FirstNormalObjectId)
# A row of a catalog that changes is written by a later transaction. So the number of rows and the
# sum of their transactions, taken together, never return to what they were.
_STAMP = "SELECT " + ", ".join(
    f"(SELECT concat(count(*), ':', sum(xmin::text::int8)) FROM pg_catalog.{name} "
    f"WHERE {oid} >= {_FIRST_OF_USERS})"
    for name, oid in _CATALOGS
)
Cursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]]"
Stamp = tuple[Any, ...]


class PgTable(msgspec.Struct, frozen=True):
    """A table."""

    oid: int
    filenode: int  # of its file: another one where all rows were written again
    schema: str
    name: str
    shape: TableShape
    types: tuple[str, ...]  # of PostgreSQL; empty: a type that is not its own
    generated: tuple[bool, ...]  # the columns that PostgreSQL computes

    @property
    def quoted(self) -> str:
        """The table's name in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def columns(self) -> str:
        """Its columns, in a SELECT."""
        return ", ".join(
            _read_as(quoted(name), kind)
            for (name, _), kind in zip(self.shape.columns, self.types, strict=True)
        )


def catalog_stamp(cursor: Cursor) -> Stamp:
    """What is another one after each change of the schema, and after a TRUNCATE."""
    (found,) = cursor.execute(_STAMP, prepare=True).fetchall()
    return tuple(found)


def tables_of(cursor: Cursor, database: str) -> dict[str, PgTable]:
    """The tables, by their names in the mirror. Raises WorldError."""
    found: dict[str, PgTable] = {}
    rows: list[tuple[int, int, str, str, list[str], list[str], list[bool], list[str]]]
    rows = cursor.execute(_TABLES, prepare=True).fetchall()
    for oid, filenode, schema, name, columns, types, generated, key in rows:
        shown = name if schema == "public" else f"{schema}_{name}"
        if shown in found:
            raise WorldError(
                f"the database {database} has two tables that are both read as {shown!r}"
            )
        kinds = [(column, sqlite_type(kind)) for column, kind in zip(columns, types, strict=True)]
        places = tuple(columns.index(column) for column in key)
        shape = TableShape(shown, tuple(kinds), places, without_rowid=bool(key))
        found[shown] = PgTable(oid, filenode, schema, name, shape, tuple(types), tuple(generated))
    return found


def sqlite_type(kind: str) -> str:
    """The mirror's type for one of PostgreSQL's."""
    return _SQLITE_TYPES.get(kind, "TEXT")


def quoted(name: str) -> str:
    """A name in a statement."""
    return '"' + name.replace('"', '""') + '"'


def _read_as(column: str, kind: str) -> str:
    if kind in (*_INTEGERS, *_FLOATS, "bytea"):
        return column
    return f"{column}::{'int4' if kind == 'bool' else 'text'}"

"""The template of a world: the seeded database as pages, built once per scenario."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import apsw
import msgspec

from rehearsal_room.envpool.core.errors import SeedError
from rehearsal_room.envpool.store.digest import rows_sum
from rehearsal_room.envpool.store.legacy_arithmetic import use_legacy_arithmetic
from rehearsal_room.envpool.store.overlay import PAGE, Overlay, OverlayFile, OverlayVFS
from rehearsal_room.scenarios.api import Row, RowChange
from rehearsal_room.scenarios.format import Scenario

RowValues = tuple[Any, ...]  # one row, in column order

_HIDDEN = 1  # table_xinfo's code for a column that SELECT * leaves out; 2 and 3 are generated ones

_MAX_ORPHANS = 10  # rows with broken references that a message names

_NOT_IN_SCRIPTS = {
    apsw.SQLITE_TRANSACTION: "the scripts run in one transaction",
    apsw.SQLITE_PRAGMA: "PRAGMA is not allowed in packages",
    apsw.SQLITE_ATTACH: "ATTACH is not allowed in packages",
    apsw.SQLITE_DETACH: "DETACH is not allowed in packages",
}
# Modules of virtual tables that keep their rows in tables of the same database.
_MODULES = frozenset(("fts3", "fts4", "fts5", "rtree", "rtree_i32"))
_OTHER_MODULE = "a virtual table may only be a full-text index (fts5, fts4, fts3) or an rtree"
# A full-text index of another table's text shows nothing of its own.
_INDEX_OF = re.compile(
    r"using\s+fts[345].*\bcontent\s*=\s*['\"]?([^'\",()\s]+)", re.IGNORECASE | re.DOTALL
)


class TableSchema(msgspec.Struct, frozen=True):
    """The schema of one table, and the SQL to read it."""

    name: str
    columns: tuple[str, ...]
    key: tuple[int, ...]  # positions of the primary key's columns; empty: the rowid is the key
    without_rowid: bool
    keyed_by_rowid: bool  # it has no key, or an INTEGER PRIMARY KEY, which is the rowid
    select_row: str  # SQL that selects one row by rowid, or by key where there is no rowid
    select_all: str  # SQL that selects every row
    select_identified: str  # the same, with the rowid (NULL where there is none) in front
    order: str  # for ORDER BY: the rowid, or the key
    tracked: bool = True  # SQLite's pre-update hook reports its rows (see envpool.store.tracking)
    shadows: tuple[str, ...] = ()  # of a virtual table: the tables that store its rows

    def key_of(self, rowid: Any, row: RowValues) -> RowValues:
        """The identity of a row: its primary key, or the rowid where there is no key.

        SQLite allows NULL in the key of a table with rowids, even repeatedly; such a key gets the
        rowid appended, which makes it unique.
        """
        if self.keyed_by_rowid:
            return (rowid,)
        key = tuple([row[position] for position in self.key])
        return (*key, rowid) if None in key else key

    def change(
        self, key: RowValues, before: RowValues | None, after: RowValues | None
    ) -> RowChange:
        """The change of the row with this key."""
        return RowChange(self.name, key, self.as_dict(before), self.as_dict(after))

    def reverting(self, change: RowChange) -> tuple[str, tuple[Any, ...]]:
        """The statement that puts a changed row of this table back, and its parameters."""
        before, after, table = change.before, change.after, _quoted(self.name)
        names = ["rowid"] if self.keyed_by_rowid else [_quoted(self.columns[n]) for n in self.key]
        where = " AND ".join(f"{name} IS ?" for name in names)
        key = change.key[: len(names)]
        if before is None:
            return f"DELETE FROM {table} WHERE {where}", key
        if after is None:
            columns = ", ".join(map(_quoted, before))
            marks = ", ".join("?" * len(before))
            return f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(before.values())
        other = {name: value for name, value in before.items() if value != after[name]}
        settings = ", ".join(f"{_quoted(name)} = ?" for name in other)
        return f"UPDATE {table} SET {settings} WHERE {where}", (*other.values(), *key)

    def as_dict(self, values: RowValues | None) -> Row | None:
        """A row as column name -> value; None (the row does not exist) stays None."""
        return None if values is None else dict(zip(self.columns, values, strict=True))


def same_schema(first: bytes, second: bytes) -> bool:
    """Whether two states of one template have the same schema, by their first pages: SQLite counts
    schema changes there (fileformat2.html §1.3.9)."""
    return first[40:44] == second[40:44]


class Template(msgspec.Struct, frozen=True):
    """A seeded database."""

    pages: tuple[bytes, ...]
    digest: str  # of the pages, 32 hexadecimal digits
    tables: dict[str, TableSchema]
    total: int  # the start state's row sum (see envpool.store.digest)

    @property
    def image(self) -> bytes:
        """The database file, as sqlite3 can open it."""
        return b"".join(self.pages)

    def overlay(self) -> Overlay:
        """A fresh world."""
        return Overlay({}, len(self.pages), self.total)


def make_vfs(scenario: Scenario) -> OverlayVFS:
    """A file system whose clock shows the scenario's time and whose SQL computes as the scenario
    expects. The caller unregisters it."""
    return OverlayVFS(julian_day_of(scenario), arithmetic_of(scenario))


def arithmetic_of(scenario: Scenario) -> Callable[[apsw.Connection], None] | None:
    """The function that makes SQL on a connection add and round as it did where the scenario was
    made; None: no change is needed."""
    return None if scenario.awm is None else use_legacy_arithmetic


def julian_day_of(scenario: Scenario) -> float:
    """The scenario's time as a Julian day."""
    moment = datetime.fromisoformat(scenario.clock.replace("Z", "+00:00")).astimezone(UTC)
    return moment.timestamp() / 86_400 + 2_440_587.5


def build(scenario: Scenario, vfs: OverlayVFS) -> Template:
    """Run schema.sql and data.sql strictly. Raises SeedError naming file, line and fault."""
    file = OverlayFile((), Overlay({}, 0, 0))
    connection = vfs.connect(file)
    try:
        connection.execute("BEGIN")
        for name, script in (
            ("schema.sql", scenario.schema_sql),
            ("data.sql", scenario.data_sql),
        ):
            _run_script(connection, scenario.path / name, script)
        _check_foreign_keys(connection, scenario.path)
        _check_columns(connection, scenario.path / "schema.sql")
        connection.execute("COMMIT")
        connection.execute("VACUUM")
    finally:
        connection.close()
    current = file.current
    pages = tuple(current.pages.get(n, b"\0" * PAGE) for n in range(current.num_pages))
    return template_of(pages, vfs, scenario.path / "schema.sql")


def template_of(pages: tuple[bytes, ...], vfs: OverlayVFS, path: Path) -> Template:
    """The template of a seeded database's pages.

    It only reads: an untrusted worker may have made the pages. Raises SeedError naming `path`, the
    source of the tables.
    """
    try:
        with closing(vfs.connect(OverlayFile(pages, Overlay({}, len(pages), 0)))) as connection:
            connection.execute("PRAGMA query_only=ON").fetchall()
            connection.execute("PRAGMA cell_size_check=ON").fetchall()
            tables = tables_of(connection, path)
            if not tables:
                raise SeedError(f"{path}: it creates no table")
            total = sum_of(connection, tables)
    except SeedError:
        raise
    except Exception as exc:  # reading pages that are not a database can raise anything
        raise SeedError(f"{path}: its database cannot be read: {exc}") from exc
    digest = blake2b(b"".join(pages), digest_size=16).hexdigest()
    return Template(pages, digest, tables, total)


def sum_of(connection: apsw.Connection, tables: Mapping[str, TableSchema]) -> int:
    """The row sum of a whole state, from all its rows."""
    total = 0
    for table in tables.values():
        total += rows_sum(table.name, connection.execute(table.select_all))
    return total & ((1 << 128) - 1)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _statements(script: str) -> Iterator[tuple[int, str]]:
    """Yield the statements of a script with the line on which each begins."""
    start, line, pending = 1, 1, ""
    for piece in script.split(";"):
        pending += piece
        if sqlite3.complete_statement(pending + ";"):
            leading = len(pending) - len(pending.lstrip())
            if pending.strip():
                yield start + pending[:leading].count("\n"), pending.strip()
            line += pending.count("\n")
            start, pending = line, ""
        else:
            pending += ";"
    rest = pending.rstrip("; \n\t")
    if rest.strip():
        leading = len(rest) - len(rest.lstrip())
        yield start + rest[:leading].count("\n"), rest.strip()


def _run_script(connection: apsw.Connection, path: Path, script: str) -> None:
    denied = ""

    def authorize(op: int, _name: object, detail: object, *_: object) -> int:
        nonlocal denied
        denied = _NOT_IN_SCRIPTS.get(op, "")
        if op == apsw.SQLITE_CREATE_VTABLE and str(detail).lower() not in _MODULES:
            denied = _OTHER_MODULE
        return apsw.SQLITE_DENY if denied else apsw.SQLITE_OK

    connection.authorizer = authorize
    for line, statement in _statements(script):
        try:
            connection.execute(statement).fetchall()
        except (apsw.Error, ValueError) as exc:  # ValueError: text that is not Unicode, or random()
            excerpt = " ".join(statement.split())[:120]
            raise SeedError(f"{path}: line {line}: {denied or exc} in: {excerpt}") from exc
    connection.authorizer = None


def _check_foreign_keys(connection: apsw.Connection, folder: Path) -> None:
    try:
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    except apsw.Error as exc:  # a reference to columns that are not a key
        raise SeedError(f"{folder / 'schema.sql'}: {exc}") from exc
    if broken:
        orphans = "; ".join(_describe_orphan(row) for row in broken[:_MAX_ORPHANS])
        raise SeedError(f"{folder / 'data.sql'}: {orphans}")


def _describe_orphan(found: RowValues) -> str:
    table, rowid, parent, _ = found
    row = "a row" if rowid is None else f"row {rowid}"
    return f"{row} of {table} references a row of {parent} that does not exist"


def _check_columns(connection: apsw.Connection, path: Path) -> None:
    generated = connection.execute(
        "SELECT t.name, c.name FROM pragma_table_list AS t, pragma_table_xinfo(t.name) AS c "
        "WHERE t.schema = 'main' AND t.type = 'table' AND c.hidden > 1"
    ).fetchone()
    if generated:
        table, column = generated
        raise SeedError(f"{path}: table {table}: generated column {column} is not supported")


def tables_of(connection: apsw.Connection, path: Path) -> dict[str, TableSchema]:
    """The tables of a database, by name. Shadow tables are left out (the virtual table itself shows
    their rows), and so is a full-text index of another table's text. Raises SeedError, naming
    `path`, for a table whose rows have no usable identity."""
    kinds = connection.execute(
        "SELECT l.name, l.type, l.wr, s.sql FROM pragma_table_list AS l "
        "JOIN sqlite_schema AS s ON s.name = l.name AND s.type = 'table' "
        "WHERE l.schema = 'main' AND l.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY l.name"
    ).fetchall()
    texts = {str(name).lower() for name, kind, *_ in kinds if kind == "table"}
    shadows = tuple(str(name) for name, kind, *_ in kinds if kind == "shadow")
    return {
        str(name): _table(connection, path, str(name), bool(without_rowid), shadows, kind)
        for name, kind, without_rowid, sql in kinds
        if kind == "table" or (kind == "virtual" and _indexed(str(sql)) not in texts)
    }


def _indexed(sql: str) -> str:
    """The table whose text a virtual table indexes, in lower case; empty: it has a text itself."""
    found = _INDEX_OF.search(sql)
    return found[1].lower() if found else ""


def _table(
    connection: apsw.Connection,
    path: Path,
    name: str,
    without_rowid: bool,
    shadows: tuple[str, ...],
    kind: str,
) -> TableSchema:
    columns: list[str] = []
    keyed = []
    generated = False
    for _cid, column, _type, _notnull, _default, pk, hidden in connection.execute(
        f"PRAGMA table_xinfo({_quoted(name)})"
    ):
        if hidden == _HIDDEN:
            continue
        generated = generated or bool(hidden)
        if pk:
            keyed.append((pk, len(columns)))
        columns.append(str(column))
    key = tuple(int(position) for _, position in sorted(keyed))
    lower_names = {column.lower() for column in columns}
    rowid = next((word for word in ("rowid", "oid", "_rowid_") if word not in lower_names), None)
    if rowid is None:
        raise SeedError(
            f"{path}: table {name}: columns named rowid, oid and _rowid_ hide its rowid"
        )
    where = (
        " AND ".join(f"{_quoted(columns[position])} IS ?" for position in key)
        if without_rowid
        else f"{rowid} = ?"
    )
    indexes = connection.execute(f"PRAGMA index_list({_quoted(name)})").fetchall()
    has_key_index = any(origin == "pk" for _, _, _, origin, _ in indexes)
    listed = ", ".join(map(_quoted, columns))
    return TableSchema(
        name=name,
        columns=tuple(columns),
        key=key,
        without_rowid=without_rowid,
        keyed_by_rowid=not without_rowid and not has_key_index,
        select_row=f"SELECT {listed} FROM {_quoted(name)} WHERE {where}",
        select_all=f"SELECT {listed} FROM {_quoted(name)}",
        select_identified=(
            f"SELECT {'NULL' if without_rowid else rowid}, {listed} FROM {_quoted(name)}"
        ),
        order=", ".join(_quoted(columns[p]) for p in key) if without_rowid else rowid,
        tracked=kind == "table" and not generated,
        shadows=tuple(
            shadow for shadow in shadows if kind == "virtual" and shadow.startswith(f"{name}_")
        ),
    )

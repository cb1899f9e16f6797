"""The interface for the code inside a scenario package: tools and verifiers.

`tools.py` holds plain typed functions. The first parameter is a `Db`; the others are the tool's
arguments, and the docstring is its description:

    def get_order(db: Db, order_id: int) -> dict[str, Any]:
        \"\"\"One order with its lines, payments and shipments.\"\"\"
        order = db.one("SELECT * FROM orders WHERE id = ?", order_id)
        if order is None:
            raise ToolError(f"There is no order {order_id}.")
        return order

Every public function of `tools.py` whose first parameter is annotated `Db` is a tool. Argument
types may be `int`, `float`, `str`, `bool`, `Literal[...]`, `X | None`, `list[X]`, a
`msgspec.Struct`, and `Annotated[X, msgspec.Meta(ge=1, description="...")]` of these; a parameter
with a default is optional. A tool returns a value that JSON can represent. It raises `ToolError`
to refuse a call; any other exception is a fault of the world. In both cases the whole call is
undone.

Time is the scenario's clock (`db.now`; SQLite's own `datetime('now')` returns the same moment),
never the wall clock. SQL's `random()`, DDL, PRAGMA and ATTACH are denied: worlds must be
deterministic.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

Row = dict[str, Any]
SqlValue = int | float | str | bytes | None


class User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user for whom the agent calls the tools of a world (`[user]` in scenario.toml)."""

    id: str
    name: str
    role: str


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """One row that differs between two states of a world.

    `before` is None for a new row and `after` for a deleted one. Both are whole rows, column by
    column. `key` is the primary key, in its column order (the rowid where there is none).

    Example: RowChange("orders", (7,), {"id": 7, "status": "open"}, {"id": 7, "status": "void"})
    """

    table: str
    key: tuple[Any, ...]
    before: Row | None
    after: Row | None


class Reads(Protocol):
    """Read access to a database. Parameters of statements are positional (`?`)."""

    @property
    def now(self) -> str:
        """The scenario's clock, ISO 8601 in UTC, as in `2026-03-14T09:30:00Z`."""

    @property
    def user(self) -> User:
        """The user for whom the agent acts."""

    def all(self, sql: str, /, *params: SqlValue) -> list[Row]:
        """Every row, as a dict by column name."""

    def one(self, sql: str, /, *params: SqlValue) -> Row | None:
        """The first row, or None when there is none."""

    def value(self, sql: str, /, *params: SqlValue) -> Any:
        """The first column of the first row, or None when there is no row."""


class Db(Reads, Protocol):
    """A tool's access to the world of its episode: one open transaction."""

    def run(self, sql: str, /, *params: SqlValue) -> int:
        """Execute one INSERT, UPDATE or DELETE; return the number of rows that it changed."""

    def insert(self, table: str, /, **values: SqlValue) -> int:
        """Insert one row; return its rowid (the id of an INTEGER PRIMARY KEY)."""

    def execute(self, sql: str, params: Sequence[SqlValue] = (), /) -> list[tuple[Any, ...]]:
        """Execute a statement as sqlite3 does; return the rows as tuples."""


class State(Reads, Protocol):
    """A verifier's access to a world at one moment: read-only."""

    @property
    def changes(self) -> Sequence[RowChange]:
        """The rows that differ from the episode's start, ordered by table and key."""

"""SQL of AWM records adds and rounds as SQLite did before 3.43."""

from typing import Any

import apsw
import pytest

from rehearsal_room.envpool.store.legacy_arithmetic import use_legacy_arithmetic

_BIG = 2**62
_PRICES = (153.84, 398.87, 456.6, 149.06)
# The results of SQLite 3.40.1 for sum, total and avg of four values.
_SUMS: dict[tuple[Any, ...], tuple[Any, Any, Any]] = {
    (0.1, 0.2, 0.3, None): (0.6000000000000001, 0.6000000000000001, 0.20000000000000004),
    _PRICES: (1158.3700000000001, 1158.3700000000001, 289.59250000000003),
    (1, 2, 3, None): (6, 6.0, 2.0),
    (1, 2, 0.5, "4"): (7.5, 7.5, 1.875),
    ("12", "1.5 kg", "kg", b"3"): (16.5, 16.5, 4.125),
    (None, None, None, None): (None, 0.0, None),
    (_BIG, _BIG, 1, -1): ("integer overflow", 9.223372036854776e18, 2.305843009213694e18),
}
# Its results for round(value, digits).
_ROUNDED: dict[tuple[Any, Any], Any] = {
    (399.265, 2): 399.27,
    (-399.265, 2): -399.27,
    (192.165, 2): 192.17,
    (2.675, 2): 2.68,
    (1.005, 2): 1.01,
    (1.65, 1): 1.7,
    (5.35, 1): 5.4,
    (2.449999, 1): 2.4,
    (0.5, 0): 1.0,
    (-2.5, 0): -3.0,
    (2.4, -3): 2.0,
    ("1.25 kg", 1): 1.3,
    ("kg", 1): 0.0,
    (7, 1): 7.0,
    (1e300, 2): 1e300,
    (0.1 + 0.2, 9): 0.3,
    (None, 1): None,
    (2.5, None): None,
}


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    use_legacy_arithmetic(connection)
    return connection


@pytest.mark.parametrize("values", _SUMS, ids=repr)
def test_sums_are_those_of_3_40(connection: apsw.Connection, values: tuple[Any, ...]) -> None:
    """sum, total and avg add one value after the other, without compensation."""
    found: list[Any] = []
    for name in ("sum", "total", "avg"):
        try:
            value = connection.execute(
                f"SELECT {name}(column1) FROM (VALUES (?), (?), (?), (?))", values
            ).get
        except apsw.SQLError as exc:
            value = str(exc)
        found.append(value)
    assert repr(tuple(found)) == repr(_SUMS[values])


def test_sums_over_windows(connection: apsw.Connection) -> None:
    """A window's sum subtracts the values that leave it, and stays a real after the first real."""
    rows = connection.execute(
        "SELECT sum(column1) OVER (ROWS 1 PRECEDING), avg(column1) OVER () FROM "
        "(VALUES (1), (2.5), (3), (NULL))"
    ).fetchall()
    average = 6.5 / 3
    assert repr(rows) == repr([(1, average), (3.5, average), (5.5, average), (3.0, average)])


@pytest.mark.parametrize("arguments", _ROUNDED, ids=repr)
def test_rounding_is_that_of_3_40(connection: apsw.Connection, arguments: tuple[Any, Any]) -> None:
    """Halves are rounded up by their decimal text, not by their value as doubles."""
    value = connection.execute("SELECT round(?, ?)", arguments).get
    assert repr(value) == repr(_ROUNDED[arguments])
    if arguments[1] == 0:
        assert connection.execute("SELECT round(?)", arguments[:1]).get == value


def test_views_and_generated_columns_may_use_them(connection: apsw.Connection) -> None:
    """The functions are trusted like SQLite's own: schemas that use them work."""
    connection.execute(
        "PRAGMA trusted_schema=OFF; CREATE TABLE t (a, b AS (round(a, 2)) STORED); "
        "CREATE VIEW v AS SELECT sum(b) AS s FROM t; INSERT INTO t VALUES (2.675)"
    ).fetchall()
    assert connection.execute("SELECT s FROM v").fetchall() == [(2.68,)]

"""The net of many row changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.store.changes import change_order, net_changes
from rehearsal_room.scenarios.api import Row, RowChange

Tables = dict[tuple[str, tuple[Any, ...]], Row]

_KEYS = st.tuples(st.sampled_from(["notes", "orders"]), st.integers(1, 3).map(lambda n: (n,)))
_VALUES = st.sampled_from([None, 0, 1, 1.0, "1", b"1"])
_WRITES = st.lists(st.lists(st.tuples(_KEYS, st.none() | _VALUES), max_size=4), max_size=6)


def _write(state: Tables, key: tuple[str, tuple[Any, ...]], value: Any) -> list[RowChange]:
    """Write (or, for None, delete) one row; returns the change."""
    before = state.pop(key, None)
    after = None if value is None else {"id": key[1][0], "value": value}
    if after is not None:
        state[key] = after
    return [] if before is after is None else [RowChange(*key, before, after)]


def _strict(row: Row | None) -> object:
    return row if row is None else {name: (type(v), v) for name, v in row.items()}


@given(_WRITES, _WRITES)
def test_net_is_the_difference_of_start_and_end(
    history: list[list[Any]], calls: list[list[Any]]
) -> None:
    """Whatever the calls did in between, the net equals a comparison of both states."""
    start: Tables = {}
    for group in history:
        for key, value in group:
            _write(start, key, value)
    end = dict(start)
    changes = [
        [change for key, value in group for change in _write(end, key, value)] for group in calls
    ]

    differing = sorted(
        key for key in start | end if _strict(start.get(key)) != _strict(end.get(key))
    )
    assert net_changes(changes) == tuple(
        RowChange(*key, start.get(key), end.get(key)) for key in differing
    )


@given(_WRITES)
def test_net_of_nets_is_the_net(calls: list[list[Any]]) -> None:
    """Taking the net of a part first does not change the net of the whole."""
    state: Tables = {}
    changes = [
        [change for key, value in group for change in _write(state, key, value)] for group in calls
    ]
    for cut in range(len(changes)):
        parts = [net_changes(changes[:cut]), net_changes(changes[cut:])]
        assert net_changes(parts) == net_changes(changes)


def test_a_reverted_change_vanishes() -> None:
    """A row that ends as it began is not a change, and neither is one created and deleted."""
    open_, void = {"id": 7, "status": "open"}, {"id": 7, "status": "void"}
    assert (
        net_changes(
            [
                [RowChange("orders", (7,), open_, void)],
                [RowChange("notes", (1,), None, {"id": 1})],
                [RowChange("notes", (1,), {"id": 1}, None), RowChange("orders", (7,), void, open_)],
            ]
        )
        == ()
    )


def test_deleted_and_created_again_is_an_update() -> None:
    """A row deleted and created again under its key counts as one update."""
    old, new = {"id": 7, "status": "open"}, {"id": 7, "status": "held"}
    assert net_changes(
        [[RowChange("orders", (7,), old, None)], [RowChange("orders", (7,), None, new)]]
    ) == (RowChange("orders", (7,), old, new),)


def test_keys_are_ordered_as_sqlite_orders_values() -> None:
    """NULL sorts before numbers, numbers before texts, texts before blobs."""
    keys: list[Any] = [None, -1, 2.5, 10, "10", "9", "é", b"0"]
    changes = [RowChange("t", (key,), None, {"k": key}) for key in keys]
    assert sorted([*changes[4:], *changes[:4]], key=change_order) == changes
    assert net_changes([changes[4:], changes[:4]]) == tuple(changes)

"""The world store against plain databases: equal states after calls in any order."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.inprocess.world import HostedScenario, Lease
from rehearsal_room.envpool.store.changes import net_changes
from rehearsal_room.envpool.store.overlay import PAGE, Overlay, OverlayFile
from rehearsal_room.harness.policies.random_calls import collect_values, random_arguments
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.catalogue import bundled_names
from rehearsal_room.scenarios.format import BUNDLED, read
from tests.support.budgets import examples, repeats
from tests.support.ledger_world import ledger
from tests.support.reference_database import ReferenceDatabase, image_of, read_image

_IDS = st.integers(-1, 5)
_NAMES = st.sampled_from(["till", "Kasse", "kasse", "KASSE", "limit", "é", ""])
_NUMBERS = st.sampled_from([0, 1, 1.0, -1, 2.5, "1", "", None, 2**63 - 1, 2**63, -0.0, "\ud800"])
_SQL = [
    "DROP TABLE journal",
    "PRAGMA page_size=512",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "VACUUM",
    "ATTACH ':memory:' AS x",
    "CREATE TEMP TABLE t (a)",
    "SAVEPOINT s",
    "REINDEX",
    "RELEASE s",
    "INSERT OR REPLACE INTO accounts (name) VALUES ('till')",
    "INSERT OR REPLACE INTO accounts (id, name, rate) VALUES (2, 'till', 1)",
    "UPDATE OR REPLACE accounts SET name = 'bank' WHERE id = 3",
    "UPDATE OR IGNORE accounts SET id = id + 1",
    "INSERT INTO accounts (name) VALUES ('bank') ON CONFLICT DO UPDATE SET rate = rate + 1",
    "UPDATE settings SET rowid = rowid + 10",
    "UPDATE tags SET tag = tag || account_id",
    "INSERT INTO settings SELECT NULL, value FROM settings",
    "DELETE FROM settings",
    "DELETE FROM entries",
    "INSERT INTO journal VALUES (randomblob(8))",
    "SELECT 1; SELECT 2",
]
_SPECS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "get_account": {"account_id": _IDS},
    "open_account": {"name": _NAMES, "kind": st.sampled_from(["cash", "card"])},
    "book": {"account_id": _IDS, "amount": st.integers(-200, 200), "note": _NAMES},
    "close_account": {"account_id": _IDS},
    "retag": {"account_id": _IDS, "tag": _NAMES, "weight": st.sampled_from([0, 1, 1.0, 0.5])},
    "rename": {"account_id": _IDS, "new_id": _IDS},
    "half": {"note": _NAMES},
    "set_value": {"name": _NAMES, "value": _NUMBERS},
    "rename_value": {"old": _NAMES, "new": _NAMES | st.none()},
    "alias": {"alias": _NAMES, "account_id": _IDS},
    "recase": {"alias": _NAMES, "new": _NAMES},
    "grow": {"num": st.integers(0, 12), "size": st.integers(0, 3000)},
    "shrink": {"keep": st.integers(1, 4)},
    "odd": {"rowid": st.sampled_from(["one", "two", "three"])},
    "go_on": {"account_id": _IDS},
    "forbidden": {"sql": st.sampled_from(_SQL)},
    "surrogate": {"refuse": st.booleans()},
    "missing": {},
    **{
        name: {}
        for name in (
            *("half_read", "keep_failure", "end_early", "bad_text", "newest", "wipe", "broken"),
            *("bad_data", "chance"),
        )
    },
}
_CALLS = st.one_of(
    *(st.tuples(st.just(name), st.fixed_dictionaries(fields)) for name, fields in _SPECS.items())
)
_MOVES = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(_CALLS, _CALLS, _CALLS, st.sampled_from("frns"))),
    max_size=40,
)


class Pair:
    """A lease, the image that it must equal, and the row changes since its start."""

    def __init__(self, lease: Lease, image: bytes) -> None:
        self.lease = lease
        self.image = image
        self.changes: list[tuple[RowChange, ...]] = []


class Comparison:
    """A world, its reference database, and the equalities between them."""

    def __init__(self, world: HostedScenario) -> None:
        self.world = world
        self.reference = ReferenceDatabase(world)

    def new(self) -> Pair:
        return Pair(self.world.lease(), self.reference.start)

    def call(self, pair: Pair, name: str, arguments: Any) -> str:
        before = pair.lease.digest
        pages = pair.lease.overlay.pages.copy()
        pair.image, text, error = self.reference.call(pair.image, name, arguments)
        result = pair.lease.call(name, arguments)
        assert result.error == error, (name, arguments, result)
        assert result.digest == pair.lease.digest
        if error is None or error == "refused":
            assert result.text == text
        if error is not None:
            assert (result.changes, result.digest) == ((), before)
            assert pair.lease.overlay.pages == pages
        pair.changes.append(result.changes)
        return result.text

    def fork(self, pair: Pair) -> Pair:
        fork = Pair(pair.lease.fork(), pair.image)
        fork.changes = pair.changes.copy()
        return fork

    def reset(self, pair: Pair) -> None:
        pair.lease.reset()
        pair.image, pair.changes = self.reference.start, []

    def restore(self, pair: Pair) -> None:
        """Continue the lease from its stored state."""
        pair.lease = Lease(self.world, self.world.restored(pair.lease.state()))

    def check(self, pair: Pair) -> None:
        """Check that the lease's state equals its image, in every view of it."""
        world, lease = self.world, pair.lease
        state = lease.state()
        dump, digest, _ = read_image(world, pair.image)
        assert read_image(world, image_of(world, state)) == (dump, digest, "ok")
        rows_of = world.dump(lease.overlay)
        assert {
            table: [repr(tuple(row.values())) for row in rows] for table, rows in rows_of.items()
        } == dump
        assert (lease.digest, state.digest) == (digest, digest)
        assert world.verify_digest(lease.overlay) == digest
        net = net_changes(pair.changes)
        assert repr(net) == repr(world.diff(world.template.overlay(), lease.overlay))
        _, after = world.states(state)
        assert repr(after.changes) == repr(net)

    def close(self) -> None:
        self.reference.close()
        self.world.close()


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    world = HostedScenario(
        ledger(tmp_path_factory.mktemp("worlds") / "ledger"), max_steps=1_000_000
    )
    comparison = Comparison(world)
    yield comparison
    comparison.close()


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_MOVES)
def test_any_interleaving_equals_plain_databases(
    comparison: Comparison, moves: list[tuple[int, Any]]
) -> None:
    """Calls, forks, resets, restored states and new leases in any order leave the states of
    separate databases."""
    pairs = [comparison.new(), comparison.new()]
    for index, move in moves:
        pair = pairs[index % len(pairs)]
        if move == "n":
            pairs.append(comparison.new())
        elif move == "f":
            pairs.append(comparison.fork(pair))
        elif move == "r":
            comparison.reset(pair)
        elif move == "s":
            comparison.restore(pair)
        else:
            comparison.call(pair, *move)
    for pair in pairs:
        comparison.check(pair)


@pytest.mark.parametrize("sql", _SQL)
def test_every_kind_of_statement(comparison: Comparison, sql: str) -> None:
    """Each statement, on a fresh world and twice on a used one, has the same effect as on a plain
    database, or none where it is denied."""
    fresh, used = comparison.new(), comparison.new()
    comparison.call(used, "book", {"account_id": 2, "amount": 9})
    comparison.call(used, "set_value", {"name": "é", "value": 1.5})
    comparison.call(used, "rename_value", {"old": "blob", "new": None})
    for pair in (fresh, used, used):
        comparison.call(pair, "forbidden", {"sql": sql})
        comparison.check(pair)


@pytest.mark.slow
def test_thousands_of_worlds_interleaved(comparison: Comparison) -> None:
    """Thousands of live worlds that take turns on one connection are as separate as databases."""
    rng = Random(7)
    num_worlds = repeats(short=1_000, long=3_000)
    pairs = [comparison.new() for _ in range(num_worlds)]
    for _ in range(3 * num_worlds):
        pair = rng.choice(pairs)
        account = rng.randint(1, 3)
        name, arguments = rng.choice(
            [
                ("book", {"account_id": account, "amount": rng.randint(-120, 90)}),
                ("open_account", {"name": f"n{rng.randint(0, 3)}"}),
                ("retag", {"account_id": account, "tag": "t", "weight": rng.randint(0, 3) / 2}),
                ("close_account", {"account_id": account}),
                ("get_account", {"account_id": account}),
                ("grow", {"num": rng.randint(1, 3), "size": 900}),
                ("shrink", {"keep": 2}),
                ("broken", {}),
            ]
        )
        comparison.call(pair, name, arguments)
    for pair in pairs:
        assert pair.lease.digest == read_image(comparison.world, pair.image)[1]
    for pair in rng.sample(pairs, 150):
        comparison.check(pair)


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled_names())
def test_bundled_worlds_equal_plain_databases(name: str) -> None:
    """Calls of oracles and random calls, interleaved with forks and resets, in each bundled
    world."""
    comparison = Comparison(HostedScenario(read(BUNDLED / name), max_steps=1_000_000))
    rng = Random(name)
    tasks = comparison.world.scenario.tasks
    pairs = [comparison.new() for _ in range(10)]
    plans = [list(rng.choice(tasks).oracle) for _ in pairs]
    known: dict[str, list[Any]] = {}
    for _ in range(repeats(short=150, long=1_000)):
        index = rng.randrange(len(pairs))
        pair = pairs[index]
        move = rng.random()
        if move < 0.03:
            pairs[index] = comparison.fork(rng.choice(pairs))
        elif move < 0.05:
            comparison.reset(pair)
            plans[index] = list(rng.choice(tasks).oracle)
        elif move < 0.5 and plans[index]:
            call = plans[index].pop(0)
            collect_values(comparison.call(pair, call.name, call.arguments), known)
        else:
            tool = rng.choice(comparison.world.tools)
            collect_values(
                comparison.call(pair, tool.name, random_arguments(tool.schema, rng, known)), known
            )
    for pair in pairs:
        comparison.check(pair)
    comparison.close()


def test_a_file_that_grows_and_shrinks(comparison: Comparison) -> None:
    """Pages beyond the template are added, freed, reused and stored."""
    pair = comparison.new()
    for num, size, keep in [(30, 700, 3), (5, 9000, 1), (60, 300, 7), (1, 40_000, 2), (3, 10, 1)]:
        comparison.call(pair, "grow", {"num": num, "size": size})
        comparison.check(pair)
        fork = comparison.fork(pair)
        comparison.call(pair, "shrink", {"keep": keep})
        comparison.check(pair)
        comparison.check(fork)
        comparison.restore(pair)
    assert pair.lease.overlay.num_pages > len(comparison.world.template.pages)


def test_a_gap_reads_as_zeros() -> None:
    """A page inside the file that was never written is empty, as in a sparse file."""
    file = OverlayFile((b"a" * PAGE,), Overlay({}, 1, 0))
    file.xWrite(b"d" * PAGE, 3 * PAGE)
    assert [file.xRead(PAGE, number * PAGE) for number in (1, 3, 4)] == [
        bytes(PAGE),
        b"d" * PAGE,
        b"",
    ]
    file.xTruncate(2 * PAGE)
    assert (file.xFileSize(), sorted(file.current.pages)) == (2 * PAGE, [])


def test_equal_work_gives_equal_pages(comparison: Comparison) -> None:
    """Two leases with the same calls hold the same bytes, whatever other worlds did in between."""
    first, second, other = comparison.new(), comparison.new(), comparison.new()
    calls = [("book", {"account_id": 1, "amount": 5}), ("grow", {"num": 3, "size": 2000})]
    for name, arguments in calls:
        comparison.call(first, name, arguments)
    for name, arguments in calls:
        comparison.call(other, "half", {"note": "between"})
        comparison.call(second, name, arguments)
    assert first.lease.state() == second.lease.state()


def test_the_file_system_opens_nothing_else(comparison: Comparison) -> None:
    """A second file cannot be opened through a world's file system."""
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection(str(Path("other")), vfs=comparison.world._vfs.name)

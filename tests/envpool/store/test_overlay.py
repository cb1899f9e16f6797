"""The world store against plain databases: equal states, whatever was called in which order."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envpool.inprocess.world import HostedScenario, Lease
from envpool.store.changes import net_changes
from envpool.store.overlay import PAGE, Overlay, OverlayFile
from harness.policies.random_calls import harvest, random_arguments
from scenarios.api import RowChange
from scenarios.catalogue import bundled_names
from scenarios.format import BUNDLED, read
from tests.support.ledger_world import ledger
from tests.support.reference_database import Twin, image_of, read_image

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
    """A lease, the image that it must equal, and the changes since its start."""

    def __init__(self, lease: Lease, image: bytes) -> None:
        self.lease = lease
        self.image = image
        self.changes: list[tuple[RowChange, ...]] = []


class Rig:
    """A world, its twin, and what must hold between them."""

    def __init__(self, world: HostedScenario) -> None:
        self.world = world
        self.twin = Twin(world)

    def new(self) -> Pair:
        return Pair(self.world.lease(), self.twin.start)

    def call(self, pair: Pair, name: str, arguments: Any) -> str:
        before = pair.lease.digest
        pages = pair.lease.overlay.pages.copy()
        pair.image, text, error = self.twin.play(pair.image, name, arguments)
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
        pair.image, pair.changes = self.twin.start, []

    def restore(self, pair: Pair) -> None:
        """The lease goes on from what the log would hold."""
        pair.lease = Lease(self.world, self.world.restored(pair.lease.state()))

    def check(self, pair: Pair) -> None:
        """The lease's state is its image's, whichever way one looks at it."""
        world, lease = self.world, pair.lease
        state = lease.state()
        dump, digest, _ = read_image(world, pair.image)
        assert read_image(world, image_of(world, state)) == (dump, digest, "ok")
        shown = world.dump(lease.overlay)
        assert {
            table: [repr(tuple(row.values())) for row in rows] for table, rows in shown.items()
        } == dump
        assert (lease.digest, state.digest) == (digest, digest)
        assert world.verify_digest(lease.overlay) == digest
        net = net_changes(pair.changes)
        assert repr(net) == repr(world.diff(world.template.overlay(), lease.overlay))
        _, after = world.states(state)
        assert repr(after.changes) == repr(net)

    def close(self) -> None:
        self.twin.close()
        self.world.close()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    world = HostedScenario(
        ledger(tmp_path_factory.mktemp("worlds") / "ledger"), max_steps=1_000_000
    )
    made = Rig(world)
    yield made
    made.close()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_MOVES)
def test_any_interleaving_equals_plain_databases(rig: Rig, moves: list[tuple[int, Any]]) -> None:
    """Calls, forks, resets, restored states and new leases in any order leave what separate
    databases would hold."""
    pairs = [rig.new(), rig.new()]
    for index, move in moves:
        pair = pairs[index % len(pairs)]
        if move == "n":
            pairs.append(rig.new())
        elif move == "f":
            pairs.append(rig.fork(pair))
        elif move == "r":
            rig.reset(pair)
        elif move == "s":
            rig.restore(pair)
        else:
            rig.call(pair, *move)
    for pair in pairs:
        rig.check(pair)


@pytest.mark.parametrize("sql", _SQL)
def test_every_kind_of_statement(rig: Rig, sql: str) -> None:
    """Each statement, on a fresh world and twice on a used one, does what it does to a plain
    database; or nothing, where it is denied."""
    fresh, used = rig.new(), rig.new()
    rig.call(used, "book", {"account_id": 2, "amount": 9})
    rig.call(used, "set_value", {"name": "é", "value": 1.5})
    rig.call(used, "rename_value", {"old": "blob", "new": None})
    for pair in (fresh, used, used):
        rig.call(pair, "forbidden", {"sql": sql})
        rig.check(pair)


def test_thousands_of_worlds_interleaved(rig: Rig) -> None:
    """3,000 live worlds that take turns on one connection stay as apart as 3,000 databases."""
    rng = Random(7)
    pairs = [rig.new() for _ in range(3000)]
    for _ in range(9000):
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
        rig.call(pair, name, arguments)
    for pair in pairs:
        assert pair.lease.digest == read_image(rig.world, pair.image)[1]
    for pair in rng.sample(pairs, 150):
        rig.check(pair)


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_worlds_equal_plain_databases(name: str) -> None:
    """Oracles' calls and random ones, interleaved over forks and resets, in every bundled world."""
    rig = Rig(HostedScenario(read(BUNDLED / name), max_steps=1_000_000))
    rng = Random(name)
    tasks = rig.world.scenario.tasks
    pairs = [rig.new() for _ in range(10)]
    plans = [list(rng.choice(tasks).oracle) for _ in pairs]
    known: dict[str, list[Any]] = {}
    for _ in range(260):
        index = rng.randrange(len(pairs))
        pair = pairs[index]
        move = rng.random()
        if move < 0.03:
            pairs[index] = rig.fork(rng.choice(pairs))
        elif move < 0.05:
            rig.reset(pair)
            plans[index] = list(rng.choice(tasks).oracle)
        elif move < 0.5 and plans[index]:
            call = plans[index].pop(0)
            harvest(rig.call(pair, call.name, call.arguments), known)
        else:
            tool = rng.choice(rig.world.tools)
            harvest(rig.call(pair, tool.name, random_arguments(tool.schema, rng, known)), known)
    for pair in pairs:
        rig.check(pair)
    rig.close()


def test_a_file_that_grows_and_shrinks(rig: Rig) -> None:
    """Pages beyond the template come, go free, are used anew and are stored."""
    pair = rig.new()
    for num, size, keep in [(30, 700, 3), (5, 9000, 1), (60, 300, 7), (1, 40_000, 2), (3, 10, 1)]:
        rig.call(pair, "grow", {"num": num, "size": size})
        rig.check(pair)
        fork = rig.fork(pair)
        rig.call(pair, "shrink", {"keep": keep})
        rig.check(pair)
        rig.check(fork)
        rig.restore(pair)
    assert pair.lease.overlay.num_pages > len(rig.world.template.pages)


def test_a_gap_reads_as_zeros() -> None:
    """A page that lies within the file and was never written is empty, as in a sparse file."""
    file = OverlayFile((b"a" * PAGE,), Overlay({}, 1, 0))
    file.xWrite(b"d" * PAGE, 3 * PAGE)
    assert [file.xRead(PAGE, number * PAGE) for number in (1, 3, 4)] == [
        bytes(PAGE),
        b"d" * PAGE,
        b"",
    ]
    file.xTruncate(2 * PAGE)
    assert (file.xFileSize(), sorted(file.current.pages)) == (2 * PAGE, [])


def test_equal_work_gives_equal_pages(rig: Rig) -> None:
    """Two leases that were called alike hold the same bytes, whoever was called in between."""
    first, second, other = rig.new(), rig.new(), rig.new()
    calls = [("book", {"account_id": 1, "amount": 5}), ("grow", {"num": 3, "size": 2000})]
    for name, arguments in calls:
        rig.call(first, name, arguments)
    for name, arguments in calls:
        rig.call(other, "half", {"note": "between"})
        rig.call(second, name, arguments)
    assert first.lease.state() == second.lease.state()


def test_the_file_system_opens_nothing_else(rig: Rig) -> None:
    """A second file cannot be opened through a world's file system."""
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection(str(Path("other")), vfs=rig.world._vfs.name)

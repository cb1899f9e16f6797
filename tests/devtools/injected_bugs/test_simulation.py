"""The harness in simulation: it keeps its promises through orders, delays, failures and deaths, and
the simulation would find it if it did not."""

from pathlib import Path

import apsw
import msgspec
import pytest

from tests.devtools.injected_bugs.hunt import LIBRARY_RUN, hunt
from tests.devtools.injected_bugs.injected_bugs import BUGS
from tests.devtools.simulation.campaign import fault_in
from tests.devtools.simulation.parts.choices import Choices, Deviation, Fails, shrink
from tests.devtools.simulation.parts.crash_disk import CrashDisk, PowerFailed
from tests.devtools.simulation.parts.virtual_loop import Stuck, VirtualLoop, run_virtual
from tests.devtools.simulation.simulated_run import Shape, shape_of, simulate
from tests.support.budgets import repeats

FEW_EPISODES = msgspec.structs.replace(LIBRARY_RUN, episodes=30)
SEEDS = repeats(short=10, long=2_000)  # nightly: `just simulate` and `just test-long`
INJECTED = (  # those that are found and shrunk in a second or two; `just injected-bugs` tries all
    "numbers_a_late_verdict_from_zero",
    "takes_every_message_for_a_new_one",
    "keeps_one_turn_too_few",
    "makes_a_call_again_whose_reply_was_lost",
    "makes_a_call_twice_where_its_worker_died",
)[: repeats(short=1, long=5)]


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_seed_keeps_every_promise(first: int) -> None:
    """One ending for each start, keys unique, shown is durable, results as undisturbed."""
    failures = [fault_in(seed, FEW_EPISODES) for seed in range(first, first + 10)]
    assert [one for one in failures if one is not None] == []


def test_an_equal_seed_gives_equal_events() -> None:
    """Byte for byte, times included."""
    one, two = (msgspec.msgpack.encode(simulate(5, FEW_EPISODES).records) for _ in range(2))
    assert one == two
    assert one != msgspec.msgpack.encode(simulate(6, FEW_EPISODES).records)


@pytest.mark.parametrize("bug", INJECTED)
def test_an_injected_bug_is_found_and_shrunk(bug: str) -> None:
    """By few deviations; taking any of them away makes it disappear."""
    _, failure = hunt(bug, seeds=40, subject=FEW_EPISODES)
    assert failure is not None
    assert 1 <= len(failure.deviations) <= 10


def test_fifty_bugs_can_be_injected() -> None:
    """`just simulate --injected` looks for all of them."""
    assert len(BUGS) >= 50


def test_the_first_seeds_have_runs_of_every_shape() -> None:
    """One process and several, sandbox workers, a follower, faults, admission."""
    shapes = [shape_of(seed) for seed in range(60)]
    for name in Shape.__struct_fields__:
        assert len({getattr(shape, name) for shape in shapes}) >= 2
    assert {shape.processes for shape in shapes} == {1, 2, 3}


def test_shrinking_finds_the_least() -> None:
    """Two deviations of fifty are needed, and they are left."""
    needed: set[Deviation] = {("a", 7), ("b", 31)}
    every = [("a", n) for n in range(25)] + [("b", n) for n in range(25, 50)]
    assert set(shrink(Fails(lambda allowed: needed <= allowed), every)) == needed


def test_choices_do_not_depend_on_each_other() -> None:
    """A kind of choice is the same whatever other kinds were asked for."""
    alone = Choices(3)
    beside = Choices(3)
    first = [alone.option("a", 9, rate=0.5) for _ in range(50)]
    second = []
    for _ in range(50):
        beside.option("b", 4, rate=0.9)
        second.append(beside.option("a", 9, rate=0.5))
    assert first == second
    assert [Choices(3, ()).option("a", 9, rate=1.0) for _ in range(9)] == [0] * 9


def test_what_was_not_synced_is_lost(tmp_path: Path) -> None:
    """The image after a power failure has the last commit, and not what was not committed."""
    path = tmp_path / "episodes.sqlite"
    disk = CrashDisk(Choices(0, ()))
    database = disk.connect(path)
    database.pragma("journal_mode", "WAL")
    database.pragma("synchronous", "FULL")
    database.execute("CREATE TABLE t (n)")
    database.execute("INSERT INTO t VALUES (1)")
    disk.fails_at = disk.num_writes + 2
    with pytest.raises(PowerFailed):
        database.execute("INSERT INTO t VALUES (2)")
    disk.fail(tmp_path)
    assert list(apsw.Connection(str(path)).execute("SELECT n FROM t")) == [(1,)]


def test_a_run_that_hangs_is_stuck() -> None:
    """A task that nothing will wake is found at once."""
    loop = VirtualLoop(Choices(0))

    async def hang() -> None:
        await loop.create_future()

    with pytest.raises(Stuck, match="no timer"):
        run_virtual(loop, hang)
    loop.close()


@pytest.mark.parametrize("seed", [2861, 3371, 5807, 8087, 9341])
def test_seeds_that_failed_once_keep_every_promise(seed: int) -> None:
    """Seeds with which the follower of a run kept it open for ever, or gave up too early."""
    assert fault_in(seed, LIBRARY_RUN) is None

"""The contract of every pool of worlds and of the worlds that it leases.

The Protocols are envpool.store.pool_protocol.Pool and envpool.core.types.Env. Pools of MCP servers,
whose states are unknown, keep a part of it: see tests/envpool/mcp/test_pool.py.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.core.errors import PoolError, StateError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.workers.fork_client import ForkServerClient
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings
from rehearsal_room.harness.chaos.course import CURRENT
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.tools import FaultyPool
from rehearsal_room.harness.chaos.workers import FaultyWorkers
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.chaos import chaos_of, injecting
from tests.support.fake_worker import fake_pool
from tests.support.ledger_world import ledger
from tests.support.remote_pool import remote

OpenPool = Callable[[], AbstractAsyncContextManager[Pool]]


@asynccontextmanager
async def local() -> AsyncIterator[Pool]:
    pool = LocalPool()
    try:
        yield pool
    finally:
        pool.close()


@asynccontextmanager
async def fake_workers() -> AsyncIterator[Pool]:
    async with fake_pool() as (pool, _):
        yield pool


@asynccontextmanager
async def routed() -> AsyncIterator[Pool]:
    async with RoutingPool() as pool:
        yield pool


class _LossyPool(FaultyPool):
    """A pool whose worlds are in an episode, so that faults hit their calls."""

    @asynccontextmanager
    async def lease(self, scenario: Scenario, task: Task | None = None) -> AsyncIterator[Env]:
        async with super().lease(scenario, task) as env:
            course = CURRENT.get()
            assert course is not None
            course.episode = "e0"
            yield env


@asynccontextmanager
async def lossy() -> AsyncIterator[Pool]:
    """The reply to every call is lost, and the call made again."""
    injector = Injector(chaos_of({"tools": {"lost_reply": {"share": 1.0}}}))
    async with local() as pool, injecting(injector):
        yield _LossyPool(pool, injector, FaultyWorkers(injector))


POOLS: dict[str, OpenPool | None] = {
    "local-asyncio": local,
    "local-trio": local,
    "routed-asyncio": routed,
    "fake_workers-asyncio": fake_workers,
    "workers-asyncio": None,  # see `open_pool`
    "remote-asyncio": remote,
    "lossy-asyncio": lossy,
}
_BOOK = {"account_id": 1, "amount": 5}


@pytest.fixture(scope="module", params=POOLS)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def anyio_backend(case: str) -> str:
    backend = case.partition("-")[2]
    if backend == "trio":
        pytest.importorskip("trio")
    return backend


@pytest.fixture(scope="module")
async def open_pool(case: str) -> AsyncIterator[OpenPool]:
    """Opens a new pool. All pools of real workers fork them from one server, which takes most of a
    second to start."""
    if (known := POOLS[case]) is not None:
        yield known
        return
    async with ForkServerClient() as server:

        @asynccontextmanager
        async def workers() -> AsyncIterator[Pool]:
            settings = WorkerSettings(workers=2)
            async with WorkerPool(settings, open_spawner=lambda _: nullcontext(server)) as pool:
                yield pool

        yield workers


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


async def test_leases_start_equal(open_pool: OpenPool, scenario: Scenario) -> None:
    """Two leases of one task start byte-identical, whatever other worlds did before."""
    task = scenario.task("open")
    async with open_pool() as pool:
        async with pool.lease(scenario, task) as first:
            start = (first.start_digest, first.digest, first.state())
            await first.call("book", _BOOK, "c0-0")
            async with pool.lease(scenario, task) as second:
                assert (second.start_digest, second.digest, second.state()) == start
        async with pool.lease(scenario, None) as third:
            assert (third.start_digest, third.digest, third.state()) == start
    assert start[0] == start[1] == start[2].digest


async def test_tools_are_described_as_in_mcp(open_pool: OpenPool, scenario: Scenario) -> None:
    """Every tool has a name, a description and a schema; every lease has the same tools."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        assert env.tools[0] == ToolSpec(
            "get_account",
            "One account with its entries.",
            {
                "type": "object",
                "properties": {"account_id": {"type": "integer"}},
                "required": ["account_id"],
                "additionalProperties": False,
            },
        )
        async with pool.lease(scenario, None) as other:
            assert list(other.tools) == list(env.tools)


async def test_a_call_changes_its_world_only(open_pool: OpenPool, scenario: Scenario) -> None:
    """A call returns text, changes and the digest after it; another live world does not see it."""
    async with (
        open_pool() as pool,
        pool.lease(scenario, None) as env,
        pool.lease(scenario, None) as other,
    ):
        result = await env.call("book", _BOOK, "c0-0")
        assert (result.text, result.error, result.is_error) == ('{"entry":2}', None, False)
        assert [change.table for change in result.changes] == ["accounts", "entries", "journal"]
        assert result.digest == env.digest != env.start_digest
        assert other.digest == other.start_digest == env.start_digest
        assert (await other.call("book", _BOOK, "c0-0")).digest == env.digest


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("nothing", {}, "unknown_tool"),
        ("book", {"amount": 5}, "arguments"),
        ("book", "not an object", "arguments"),
        ("set_value", {"name": "a", "value": 2**64}, "arguments"),
        ("close_account", {"account_id": 1}, "refused"),
        ("broken", {}, "internal"),
        ("bad_data", {}, "internal"),
        ("runaway", {}, "timeout"),
    ],
)
async def test_a_failure_is_data(
    open_pool: OpenPool, scenario: Scenario, name: str, arguments: object, error: str
) -> None:
    """A call that fails gives the reason and changes nothing, and the world continues."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        before = (env.digest, env.state())
        result = await env.call(name, arguments, "c1-0")
        assert (result.error, result.is_error, result.changes) == (error, True, ())
        assert result.text
        assert (result.digest, (env.digest, env.state())) == (before[0], before)
        assert (await env.call("book", _BOOK, "c2-0")).text == '{"entry":3}'


async def test_a_call_id_is_executed_once(open_pool: OpenPool, scenario: Scenario) -> None:
    """A repeated call id returns the remembered result and leaves the state unchanged."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        first = await env.call("book", _BOOK, "c0-0")
        again = await env.call("book", _BOOK, "c0-0")
        assert again == first
        assert env.digest == first.digest
        assert (await env.call("book", _BOOK, "c0-1")).text == '{"entry":3}'


async def test_a_fork_is_independent(open_pool: OpenPool, scenario: Scenario) -> None:
    """A fork continues from its parent's state; from there each world has its own state."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        middle = env.state()
        fork = env.fork()
        assert (fork.state(), fork.start_digest) == (middle, env.start_digest)
        await fork.call("book", _BOOK, "c1-0")
        assert env.state() == middle
        await env.call("wipe", {}, "c1-0")
        assert len({env.digest, fork.digest, middle.digest}) == 3


async def test_a_fork_has_a_life_of_its_own(open_pool: OpenPool, scenario: Scenario) -> None:
    """A fork has its own memory of call ids, survives failures and a reset of its parent, can be
    forked, and returns to the scenario's start, not to the point of the fork."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        fork = env.fork()
        assert (await fork.call("book", _BOOK, "c0-0")).text == '{"entry":3}'
        second, booked = fork.fork(), fork.state()
        env.reset()
        assert (await second.call("broken", {}, "c1-0")).error == "internal"
        assert (second.state(), fork.state()) == (booked, booked)
        assert (await second.call("book", _BOOK, "c2-0")).text == '{"entry":4}'
        assert (fork.state(), env.digest) == (booked, env.start_digest)
        second.reset()
        assert second.state() == env.state()
        assert (await fork.call("book", _BOOK, "c1-0")).text == '{"entry":4}'


async def test_forks_are_used_at_the_same_time(open_pool: OpenPool, scenario: Scenario) -> None:
    """Forks of one world and the world itself may be called at once: each ends as it does alone."""
    digests: dict[int, str] = {}

    async def play(env: Env, amount: int) -> None:
        for turn in range(1, 4):
            await env.call("book", {"account_id": 1, "amount": amount}, f"c{turn}-0")
            await anyio.lowlevel.checkpoint()
        digests[amount] = env.digest

    async with open_pool() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        alone = [env.fork() for _ in range(8)]
        for amount, fork in enumerate(alone, 1):
            await play(fork, amount)
        expected, digests = dict(digests), {}
        async with anyio.create_task_group() as group:
            for amount in range(1, 8):
                group.start_soon(play, env.fork(), amount)
            group.start_soon(play, env, 8)
    assert digests == expected
    assert len(set(digests.values())) == 8


async def test_a_fork_is_judged(open_pool: OpenPool, scenario: Scenario) -> None:
    """The verifier takes the state of a fork as it takes that of the leased world."""
    task = scenario.task("open")
    async with open_pool() as pool, pool.lease(scenario, task) as env:
        fork = env.fork()
        await fork.call("open_account", {"name": "petty"}, "c0-0")
        done = await pool.verify(scenario, task, fork.state(), "Opened.")
        idle = await pool.verify(scenario, task, env.state(), "Opened.")
    assert [finding for finding in done.findings if not finding.passed] == []
    assert not all(finding.passed for finding in idle.findings)


async def test_a_course_can_be_made_again(open_pool: OpenPool, scenario: Scenario) -> None:
    """The same calls in a fresh world, or in one that was reset, have equal results and leave equal
    states, failed calls included: so a logged episode can be continued from its calls alone."""
    course = [
        *(("book", _BOOK), ("open_account", {"name": "petty"}), ("broken", {}), ("nothing", {})),
        *(("close_account", {"account_id": 1}), ("grow", {"num": 10, "size": 2000})),
        *(("book", {"account_id": 1, "amount": 7}), ("wipe", {}), ("book", _BOOK)),
    ]

    async def play(env: Env) -> tuple[list[ToolResult], StoredState]:
        calls = enumerate(course)
        results = [await env.call(name, given, f"c{turn}-0") for turn, (name, given) in calls]
        return results, env.state()

    async with open_pool() as pool, pool.lease(scenario, None) as env:
        first = await play(env)
        async with pool.lease(scenario, None) as other:
            await other.call("book", _BOOK, "c0-0")
            other.reset()
            assert await play(other) == first
        async with pool.lease(scenario, None) as fresh:
            assert await play(fresh) == first
        assert len({result.digest for result in first[0]}) > 4


async def test_a_reset_is_the_start(open_pool: OpenPool, scenario: Scenario) -> None:
    """After a reset the state is the start state, and call ids may be used again."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        start = env.state()
        first = await env.call("book", _BOOK, "c0-0")
        env.reset()
        assert (env.digest, env.state()) == (env.start_digest, start)
        assert await env.call("book", _BOOK, "c0-0") == first


async def test_a_state_outlives_its_world(open_pool: OpenPool, scenario: Scenario) -> None:
    """A state is data: it survives the log's encoding, and later calls do not change it."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        await env.call("grow", {"num": 10, "size": 2000}, "c0-0")
        state = env.state()
        stored = msgspec.msgpack.encode(state)
        await env.call("wipe", {}, "c1-0")
        assert msgspec.msgpack.decode(stored, type=StoredState) == state
        assert state.digest != env.digest


async def test_worlds_take_turns(open_pool: OpenPool, scenario: Scenario) -> None:
    """Many worlds live at once, called in turns, end as each ends alone."""
    digests: dict[int, str] = {}

    async def play(pool: Pool, amount: int) -> None:
        async with pool.lease(scenario, None) as env:
            for turn in range(4):
                await env.call("book", {"account_id": 1, "amount": amount}, f"c{turn}-0")
                await anyio.lowlevel.checkpoint()
            digests[amount] = env.digest

    async with open_pool() as pool:
        async with anyio.create_task_group() as group:
            for amount in range(1, 31):
                group.start_soon(play, pool, amount)
        together = dict(digests)
        for amount in range(1, 31):
            await play(pool, amount)
    assert digests == together
    assert len(set(digests.values())) == 30


async def test_a_lease_ends_with_its_block(open_pool: OpenPool, scenario: Scenario) -> None:
    """Worlds are counted while they live; an exception or a cancellation also ends the lease."""
    async with open_pool() as pool:
        async with pool.lease(scenario, None), pool.lease(scenario, None):
            assert pool.statistics()["live"] == 2
        with pytest.raises(KeyError):
            async with pool.lease(scenario, None):
                raise KeyError
        with anyio.CancelScope() as scope:
            async with pool.lease(scenario, None) as env:
                await env.call("book", _BOOK, "c0-0")
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        counts = pool.statistics()
        assert (counts["live"], counts["leases"], counts["calls"]) == (0, 4, 1)


@pytest.mark.parametrize("files", [{"data_sql": "nonsense;"}, {"tools_py": "nonsense"}])
async def test_a_broken_world_is_a_pool_error(
    open_pool: OpenPool, tmp_path: Path, files: dict[str, str]
) -> None:
    """A world that cannot be built is an error when it is leased, and again at the next try."""
    broken = ledger(tmp_path, **files)
    async with open_pool() as pool:
        for _ in range(2):
            with pytest.raises(PoolError, match=str(tmp_path)):
                async with pool.lease(broken, None):
                    pass
        assert pool.statistics()["live"] == 0


async def test_the_protocols_are_complete(open_pool: OpenPool, scenario: Scenario) -> None:
    """A pool, a leased world and a fork have all members of their Protocols."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        for each, protocol in ((pool, Pool), (env, Env), (env.fork(), Env)):
            names = [name for name in vars(protocol) if not name.startswith("_")]
            assert [name for name in names if not hasattr(each, name)] == []


async def test_awaits_is_true_where_a_call_suspends(
    open_pool: OpenPool, scenario: Scenario
) -> None:
    """A world that does not await answers without suspending the caller; one that awaits can be
    cut off, and then the call has not happened."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        before = env.digest
        with anyio.CancelScope() as scope:
            scope.cancel()
            await env.call("book", _BOOK, "c0-0")
        assert scope.cancelled_caught is env.awaits
        assert (env.digest == before) is env.awaits


async def test_a_known_state_needs_no_checks(open_pool: OpenPool, scenario: Scenario) -> None:
    """A world whose state is known has no findings of its own: the verifier reads the state."""
    async with open_pool() as pool, pool.lease(scenario, None) as env:
        assert await env.check(scenario.task("open"), "Opened.") == ()


async def test_verifiers_read_the_stored_state(open_pool: OpenPool, scenario: Scenario) -> None:
    """The pool runs the task's verifier on an end state and an answer; each state has its own
    verdict."""
    task = scenario.task("open")
    async with open_pool() as pool, pool.lease(scenario, task) as env:
        idle = await pool.verify(scenario, task, env.state(), "")
        await env.call("open_account", {"name": "petty"}, "c0-0")
        done = await pool.verify(scenario, task, env.state(), "Opened.")
    assert (idle.fault, done.fault) == ("", "")
    assert not all(finding.passed for finding in idle.findings)
    assert [finding for finding in done.findings if not finding.passed] == []


async def test_a_broken_verifier_is_a_fault(open_pool: OpenPool, tmp_path: Path) -> None:
    """A verifier that raises is reported, and the pool continues."""
    broken = ledger(tmp_path / "broken", verify_py="def open(before, after, answer):\n    1 / 0\n")
    task = broken.task("open")
    async with open_pool() as pool, pool.lease(broken, task) as env:
        verified = await pool.verify(broken, task, env.state(), "")
        assert verified.findings == ()
        assert "raised ZeroDivisionError: division by zero" in verified.fault
        assert (await env.call("book", _BOOK, "c0-0")).error is None


async def test_a_verifier_gets_states_of_its_scenario_only(
    open_pool: OpenPool, scenario: Scenario, tmp_path: Path
) -> None:
    """The state of another scenario is refused."""
    other = ledger(tmp_path / "other", data_sql="")
    async with open_pool() as pool:
        async with pool.lease(scenario, None) as env:
            state = env.state()
        await pool.host(other)
        with pytest.raises(StateError, match="belongs to template"):
            await pool.verify(other, other.task("open"), state, "")


async def test_isolation_is_known(case: str, open_pool: OpenPool, scenario: Scenario) -> None:
    """A pool reports whether it runs the code of a trusted package in workers only."""
    async with open_pool() as pool:
        assert pool.isolates(scenario) is ("workers" in case)

"""What every pool of worlds keeps, whatever it runs on.

The Protocols are envpool.store.pool_protocol.Pool and envpool.core.types.Env.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from envpool.core.errors import PoolError
from envpool.core.types import Env, StoredState, ToolSpec
from envpool.inprocess.pool import LocalPool
from envpool.store.pool_protocol import Pool
from envpool.workers.pool import WorkerPool, WorkerSettings
from scenarios.format import Scenario
from tests.support.fake_worker import fake_pool
from tests.support.ledger_world import ledger
from tests.support.remote_pool import remote

Opening = Callable[[], AbstractAsyncContextManager[Pool]]


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
async def workers() -> AsyncIterator[Pool]:
    async with WorkerPool(WorkerSettings(workers=2)) as pool:
        yield pool


POOLS: dict[str, Opening] = {
    "local-asyncio": local,
    "local-trio": local,
    "fake_workers-asyncio": fake_workers,
    "workers-asyncio": workers,
    "remote-asyncio": remote,
}
_BOOK = {"account_id": 1, "amount": 5}


@pytest.fixture(params=POOLS)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(case: str) -> str:
    backend = case.partition("-")[2]
    if backend == "trio":
        pytest.importorskip("trio")
    return backend


@pytest.fixture
def opening(case: str) -> Opening:
    return POOLS[case]


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


async def test_leases_start_alike(opening: Opening, scenario: Scenario) -> None:
    """Two leases of one task start byte-identical, whatever happened to others before."""
    task = scenario.task("open")
    async with opening() as pool:
        async with pool.lease(scenario, task) as first:
            start = (first.start_digest, first.digest, first.state())
            await first.call("book", _BOOK, "c0-0")
            async with pool.lease(scenario, task) as second:
                assert (second.start_digest, second.digest, second.state()) == start
        async with pool.lease(scenario, None) as third:
            assert (third.start_digest, third.digest, third.state()) == start
    assert start[0] == start[1] == start[2].digest


async def test_tools_are_told_as_mcp_does(opening: Opening, scenario: Scenario) -> None:
    """Every tool has a name, a description and an object's schema; every lease has the same."""
    async with opening() as pool, pool.lease(scenario, None) as env:
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


async def test_a_call_changes_its_world_only(opening: Opening, scenario: Scenario) -> None:
    """A call gives text, changes and the digest after; another live world does not see it."""
    async with (
        opening() as pool,
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
    opening: Opening, scenario: Scenario, name: str, arguments: object, error: str
) -> None:
    """A call that fails says why, changes nothing, and the world goes on."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        before = (env.digest, env.state())
        result = await env.call(name, arguments, "c1-0")
        assert (result.error, result.is_error, result.changes) == (error, True, ())
        assert result.text
        assert (result.digest, (env.digest, env.state())) == (before[0], before)
        assert (await env.call("book", _BOOK, "c2-0")).text == '{"entry":3}'


async def test_a_call_id_is_executed_once(opening: Opening, scenario: Scenario) -> None:
    """Asked again, a call is answered from memory: the same result and the same state."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        first = await env.call("book", _BOOK, "c0-0")
        again = await env.call("book", _BOOK, "c0-0")
        assert again == first
        assert env.digest == first.digest
        assert (await env.call("book", _BOOK, "c0-1")).text == '{"entry":3}'


async def test_a_fork_is_independent(opening: Opening, scenario: Scenario) -> None:
    """A fork goes on from its parent's state, and each keeps its own from there."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        await env.call("book", _BOOK, "c0-0")
        middle = env.state()
        fork = env.fork()
        assert (fork.state(), fork.start_digest) == (middle, env.start_digest)
        await fork.call("book", _BOOK, "c1-0")
        assert env.state() == middle
        await env.call("wipe", {}, "c1-0")
        assert len({env.digest, fork.digest, middle.digest}) == 3


async def test_a_reset_is_the_start(opening: Opening, scenario: Scenario) -> None:
    """After a reset the state is the start's and ids may be used anew."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        start = env.state()
        first = await env.call("book", _BOOK, "c0-0")
        env.reset()
        assert (env.digest, env.state()) == (env.start_digest, start)
        assert await env.call("book", _BOOK, "c0-0") == first


async def test_a_state_outlives_its_world(opening: Opening, scenario: Scenario) -> None:
    """A state is data: it goes through the log's encoding, and later calls do not touch it."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        await env.call("grow", {"num": 10, "size": 2000}, "c0-0")
        state = env.state()
        stored = msgspec.msgpack.encode(state)
        await env.call("wipe", {}, "c1-0")
        assert msgspec.msgpack.decode(stored, type=StoredState) == state
        assert state.digest != env.digest


async def test_worlds_take_turns(opening: Opening, scenario: Scenario) -> None:
    """Many worlds live at once, called in turns, end as each would have ended alone."""
    digests: dict[int, str] = {}

    async def play(pool: Pool, amount: int) -> None:
        async with pool.lease(scenario, None) as env:
            for turn in range(4):
                await env.call("book", {"account_id": 1, "amount": amount}, f"c{turn}-0")
                await anyio.lowlevel.checkpoint()
            digests[amount] = env.digest

    async with opening() as pool:
        async with anyio.create_task_group() as group:
            for amount in range(1, 31):
                group.start_soon(play, pool, amount)
        together = dict(digests)
        for amount in range(1, 31):
            await play(pool, amount)
    assert digests == together
    assert len(set(digests.values())) == 30


async def test_a_lease_ends_with_its_block(opening: Opening, scenario: Scenario) -> None:
    """Worlds are counted while they live: an exception or a cancellation gives them back too."""
    async with opening() as pool:
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
    opening: Opening, tmp_path: Path, files: dict[str, str]
) -> None:
    """A world that cannot be built is told when it is leased, and again at the next try."""
    broken = ledger(tmp_path, **files)
    async with opening() as pool:
        for _ in range(2):
            with pytest.raises(PoolError, match=str(tmp_path)):
                async with pool.lease(broken, None):
                    pass
        assert pool.statistics()["live"] == 0


async def test_an_env_is_an_env(opening: Opening, scenario: Scenario) -> None:
    """What a lease gives has the whole Protocol, forks too."""
    async with opening() as pool, pool.lease(scenario, None) as env:
        names = [name for name in vars(Env) if not name.startswith("_")]
        for each in (env, env.fork()):
            assert [name for name in names if not hasattr(each, name)] == []

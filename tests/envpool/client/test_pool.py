"""Worlds leased from a server over HTTP, whose states are held by the client.

The contract of every pool is in tests/contracts/test_pool.py.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from rehearsal_room.envpool.client import http
from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.core.errors import PoolError, WorldError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Snapshot
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv, RemoteExecutionScenario
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.server.state_transfer import transfer_of
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario
from tests.support.ledger_world import ledger
from tests.support.remote_pool import served

BOOK = {"account_id": 1, "amount": 5}
GROW = {"num": 10, "size": 2000}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that repeats a request at once."""
    monkeypatch.setattr(http, "_PAUSES_S", (0.0,))
    yield


async def test_oracles_end_as_in_this_process() -> None:
    """Every result, with its changes and digest, and every final state equals a local pool's."""
    scenario = find("shop_support")
    local = LocalPool()
    async with served([scenario]) as (_, url), RemotePool(url) as pool:
        for task in scenario.tasks[:8]:
            async with pool.lease(scenario, task) as env, local.lease(scenario, task) as same:
                assert tuple(env.tools) == tuple(same.tools)
                for number, call in enumerate(task.oracle):
                    request = (call.name, call.arguments, f"c{number}-0")
                    assert await env.call(*request) == await same.call(*request)
                assert env.state() == same.state()
    local.close()


@pytest.mark.parametrize("seed", range(4))
async def test_worlds_stay_exact_despite_faults(scenario: Scenario, seed: int) -> None:
    """Calls, forks and resets in any order end as in a local pool, also when the server forgets
    worlds in between or another client calls them."""
    rng = random.Random(seed)
    local = LocalPool()
    async with (
        served([scenario]) as (leases, url),
        RemotePool(url) as pool,
        AsyncExitStack() as stack,
    ):
        pairs: list[tuple[Env, Env]] = []
        for _ in range(3):
            env = await stack.enter_async_context(pool.lease(scenario, None))
            pairs.append((env, await stack.enter_async_context(local.lease(scenario, None))))
        for turn in range(80):
            env, same = rng.choice(pairs)
            match rng.randrange(10):
                case 0:
                    env.reset()
                    same.reset()
                case 1 if len(pairs) < 8:
                    pairs.append((env.fork(), same.fork()))
                case 2:
                    await leases.release(rng.choice(leases.all()))
                case 3:
                    shared = rng.choice(leases.all())
                    await shared.call("book", msgspec.Raw(msgspec.json.encode(BOOK)), None)
                case _:
                    name, arguments = rng.choice(
                        [
                            ("book", {"account_id": rng.randint(1, 3), "amount": turn}),
                            ("grow", {"num": 2, "size": 900}),
                            ("close_account", {"account_id": 1}),
                            ("broken", {}),
                            ("wipe", {}),
                        ]
                    )
                    request = (name, arguments, f"c{turn}-0")
                    assert await env.call(*request) == await same.call(*request)
        assert [env.state() for env, _ in pairs] == [same.state() for _, same in pairs]
    local.close()


async def test_the_server_holds_a_world_for_each_lease(scenario: Scenario) -> None:
    """The server counts the client's worlds and their tasks while they live; forks share one more
    world; all are released."""
    async with served([scenario]) as (leases, url):
        async with RemotePool(url) as pool:
            async with pool.lease(scenario, scenario.task("open")) as env:
                await env.call("book", BOOK, "c0-0")
                assert [(each.new.task, each.num_calls) for each in leases.all()] == [("open", 1)]
                for fork in (env.fork(), env.fork()):
                    await fork.call("book", BOOK, "c0-0")
                assert leases.num_live == 2
                counts = {"worlds": 1, "live": 1, "max_live": 1, "leases": 3, "calls": 3}
                assert pool.statistics() == counts
                assert repr(pool) == f"<RemotePool {url} [1 live of 3 leased]>"
            assert leases.num_live == 1
        assert leases.num_live == 0


async def test_a_state_is_sent_only_where_it_is_missing(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state is sent with a world's first call, and again only where the server lacks it."""
    sent: list[bool] = []
    real = RemotePool._call

    async def recording(self: RemotePool, *args: Any, send_state: bool) -> Any:
        sent.append(send_state)
        return await real(self, *args, send_state=send_state)

    monkeypatch.setattr(RemotePool, "_call", recording)
    async with (
        served([scenario]) as (leases, url),
        RemotePool(url) as pool,
        pool.lease(scenario, None) as env,
    ):
        for turn in range(3):
            await env.call("grow", GROW, f"c{turn}-0")
        assert sent == [True, False, False]
        await leases.all()[0].reset()
        await env.call("book", BOOK, "c3-0")
        assert sent[3:] == [False, True]
        env.reset()
        await env.call("book", BOOK, "c4-0")
        assert sent[5:] == [True]


class CuttingProxy:
    """A proxy that forwards requests, and closes the connection before some answers."""

    def __init__(self, url: str, cuts: Callable[[int], bool]) -> None:
        self._port = int(url.rpartition(":")[2])
        self._cuts = cuts  # number of the answer -> whether to close the connection
        self.num_answers = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while head := await _head(reader):
                upstream[1].write(head + await reader.readexactly(_length(head)))
                answer = await _head(upstream[0])
                answer += await upstream[0].readexactly(_length(answer))
                self.num_answers += 1
                if self._cuts(self.num_answers):
                    break
                writer.write(answer)
        finally:
            for each in (writer, upstream[1]):
                each.close()
                await each.wait_closed()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _length(head: bytes) -> int:
    start = head.lower().find(b"content-length:")
    return int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0


@asynccontextmanager
async def cutting(url: str, cuts: Callable[[int], bool]) -> AsyncIterator[tuple[CuttingProxy, str]]:
    proxy = CuttingProxy(url, cuts)
    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    try:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.usefixtures("no_pauses")
async def test_a_lost_answer_is_requested_again(scenario: Scenario) -> None:
    """A call whose answer was lost is executed once, and the client gets the answer."""
    local = LocalPool()
    async with (
        served([scenario]) as (leases, url),
        cutting(url, lambda number: number in (4, 7, 8)) as (proxy, front),
        RemotePool(front) as pool,
        local.lease(scenario, None) as same,
    ):
        async with pool.lease(scenario, None) as env:  # three answers
            for turn in range(3):  # the first answer is lost, and the third twice
                request = ("book", BOOK, f"c{turn}-0")
                if turn == 2:
                    with pytest.raises(WorldError, match="does not answer"):
                        await env.call(*request)
                else:
                    assert await env.call(*request) == await same.call(*request)
            assert leases.all()[0].num_calls == 3
        assert proxy.num_answers == 9
    local.close()


@pytest.mark.usefixtures("no_pauses")
async def test_an_unreachable_server(scenario: Scenario) -> None:
    """A server that stops during an episode breaks its worlds, and an unreachable one leases none;
    both errors name it."""
    async with AsyncExitStack() as stack:
        _, url = await stack.enter_async_context(served([scenario]))
        async with RemotePool(url) as pool, pool.lease(scenario, None) as env:
            await env.call("book", BOOK, "c0-0")
            await stack.aclose()
            for _ in range(2):
                with pytest.raises(WorldError, match=f"{url} does not answer: "):
                    await env.call("book", BOOK, "c1-0")
            with pytest.raises(PoolError, match=f"^{url} does not answer: "):
                async with pool.lease(scenario, None):
                    pass
            assert pool.statistics()["live"] == 1
        assert pool.statistics()["live"] == 0


async def test_another_package_of_the_same_name(scenario: Scenario, tmp_path: Path) -> None:
    """A server with a different package of the same name, or without one, is an error."""
    other = ledger(tmp_path / "other", policy_md="Be kind.")
    async with served([other]) as (leases, url), RemotePool(url) as pool:
        differs = f"^scenario 'ledger' differs on {url}: its package has digest "
        with pytest.raises(PoolError, match=differs):
            async with pool.lease(scenario, None):
                pass
        del leases.scenarios["ledger"]
        with pytest.raises(PoolError, match=f"^{url}: there is no scenario 'ledger' here"):
            await pool.host(scenario)
        with pytest.raises(PoolError, match=f"was not hosted on {url} yet"):
            pool.hosted(scenario)


async def test_a_token_is_sent(scenario: Scenario) -> None:
    """The pool sends its token; with a wrong one it cannot lease."""
    settings = WorldServerSettings(port=0, token="sesame")
    async with served([scenario], settings) as (_, url):
        async with RemotePool(url, token="sesame") as pool, pool.lease(scenario, None) as env:
            assert (await env.call("book", BOOK, "c0-0")).error is None
        async with RemotePool(url, token="wrong") as pool:
            with pytest.raises(PoolError, match="a bearer token is required"):
                await pool.host(scenario)


async def test_another_kind_of_server(scenario: Scenario) -> None:
    """A server that is not a rehearsal server is an error that names the fault."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with RemotePool(url) as pool:
        with pytest.raises(PoolError, match=f"^{url} is not a rehearsal server: "):
            await pool.host(scenario)
    server.close()
    await server.wait_closed()


async def test_a_full_server_is_waited_for(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that a full server refuses is requested again, until there is room."""
    waits: list[float] = []

    async with served([scenario], WorldServerSettings(port=0, max_worlds=1)) as (leases, url):

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            for lease in leases.all():
                await leases.release(lease)

        async with RemotePool(url) as pool, pool.lease(scenario, None):
            monkeypatch.setattr("rehearsal_room.envpool.client.http.anyio.sleep", sleep)
            async with pool.lease(scenario, None) as env:
                assert (await env.call("book", BOOK, "c0-0")).text == '{"entry":2}'
            monkeypatch.undo()
    assert waits == [1.0]


# A server whose own worlds are remotely executed, like those of workers
# ----------------------------------


class CountingPool(LocalPool):
    """A pool of remotely executed worlds whose executor keeps a count in their module state."""

    def __init__(self) -> None:
        super().__init__()
        self._remote_env: dict[str, RemoteExecutionScenario] = {}

    async def host(self, scenario: Scenario) -> RemoteExecutionScenario:
        if scenario.digest not in self._remote_env:
            world = self.world(scenario)
            self._remote_env[scenario.digest] = RemoteExecutionScenario(
                scenario, world.template.image, world.tools, module_state=b"0"
            )
        return self._remote_env[scenario.digest]

    @asynccontextmanager
    async def _lease(self, scenario: Scenario) -> AsyncIterator[RemoteExecutionEnv]:
        yield (await self.host(scenario)).lease(self)

    def lease(self, scenario: Scenario, task: Any = None) -> Any:
        return self._lease(scenario)

    async def execute(self, env: RemoteExecutionEnv, name: str, arguments: Any) -> CallOutcome:
        before, overlay = env.overlay.pages, env.overlay.copy()
        result = self.world(env.world.scenario).call(overlay, name, arguments)
        pages = {n: page for n, page in overlay.pages.items() if before.get(n) is not page}
        count = str(int(env.module_state) + 1)
        return CallOutcome(
            id=0,
            text=f"{result.text} #{count}, call {env.num_calls}",
            error=result.error,
            changes=result.changes,
            digest=result.digest,
            pages=pages,
            num_pages=overlay.num_pages,
            module_state=count.encode(),
        )

    def report_violation(self, env: RemoteExecutionEnv, why: str) -> None:
        raise AssertionError(why)

    def close(self) -> None:
        for world in self._remote_env.values():
            world.close()
        super().close()


async def test_module_memory_and_counts_are_sent(scenario: Scenario) -> None:
    """Module state and the number of calls belong to a world's state: its answers contain them,
    and they are sent with the state."""
    server = CountingPool()
    async with (
        Leases(server, [scenario], WorldServerSettings(port=0)) as leases,
        serving(leases) as url,
        RemotePool(url) as pool,
        pool.lease(scenario, None) as env,
    ):
        assert (await env.call("book", BOOK, "c0-0")).text == '{"entry":2} #1, call 0'
        fork = env.fork()
        assert (await env.call("book", BOOK, "c1-0")).text == '{"entry":3} #2, call 1'
        assert (await fork.call("book", BOOK, "c0-0")).text == '{"entry":3} #2, call 1'
        await leases.release(leases.all()[0])
        assert (await env.call("book", BOOK, "c2-0")).text == '{"entry":4} #3, call 2'
        env.reset()
        assert (await env.call("book", BOOK, "c0-0")).text == '{"entry":2} #1, call 0'
        assert (await fork.call("wipe", {}, "c1-0")).text.endswith(" #3, call 2")
    server.close()


@pytest.mark.parametrize("pool", [LocalPool, CountingPool])
@pytest.mark.parametrize(
    "snapshot",
    [
        Snapshot({}, 0, "0" * 32),
        Snapshot({}, 10**9, "0" * 32),
        Snapshot({0: b"short"}, 20, "0" * 32),
        Snapshot({20: b"\0" * 1024}, 20, "0" * 32),
        Snapshot({-1: b"\0" * 1024}, 20, "0" * 32),
        Snapshot({}, 20, "0"),
        Snapshot({}, 20, "x" * 32),
        Snapshot({}, 20, "0" * 32, module_state=b"0" * (4 * 2**20 + 1)),
    ],
)
async def test_invalid_states(scenario: Scenario, pool: Any, snapshot: Snapshot) -> None:
    """A state that a client sends is checked before a world uses it; the world is unchanged."""
    opened = pool()
    await opened.host(scenario)
    async with opened.lease(scenario, None) as env:
        await env.call("book", BOOK, "c0-0")
        before = env.state()
        transfer = transfer_of(env)
        assert transfer is not None
        with pytest.raises(PoolError, match="state"):
            transfer.restore(snapshot)
        assert env.state() == before
    opened.close()


async def test_a_call_that_is_cancelled_has_not_happened(scenario: Scenario) -> None:
    """After a cancellation the world continues from its state before, whatever the server did."""
    local = LocalPool()
    async with (
        served([scenario]) as (leases, url),
        RemotePool(url) as pool,
        pool.lease(scenario, None) as env,
        local.lease(scenario, None) as same,
    ):
        await env.call("book", BOOK, "c0-0")
        await same.call("book", BOOK, "c0-0")
        lease = leases.all()[0]
        async with lease._lock, anyio.create_task_group() as group:  # the server cannot answer
            group.start_soon(env.call, "wipe", {}, "c1-0")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert env.digest == same.digest
        assert await env.call("book", BOOK, "c1-0") == await same.call("book", BOOK, "c1-0")
        assert env.state() == same.state()
    local.close()

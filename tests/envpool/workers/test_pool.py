"""The pool of workers: states held here, tools that run in workers which hang, die and lie."""

import asyncio
import json
import math
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_room.envpool.core.errors import (
    PoolError,
    SeedError,
    StateError,
    ToolsetError,
    WorldError,
)
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Verified
from rehearsal_room.envpool.core.types import Env, ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionEnv
from rehearsal_room.envpool.store import guarded_vfs
from rehearsal_room.envpool.store.digest import hex_digest, sum_after_change
from rehearsal_room.envpool.store.overlay import PAGE
from rehearsal_room.envpool.workers.dispatch import Dispatcher
from rehearsal_room.envpool.workers.fork_client import KILLED
from rehearsal_room.envpool.workers.messages.connection import WorkerConnection
from rehearsal_room.envpool.workers.messages.jobs import Job
from rehearsal_room.envpool.workers.messages.wire import (
    Forget,
    HostingRefused,
    Load,
    Replay,
    Stale,
    WorkerCall,
    WorkerFailed,
    WorkerReady,
    WorkerReply,
    WorkerRequest,
)
from rehearsal_room.envpool.workers.pool import WorkerPool, WorkerSettings, _json
from rehearsal_room.envpool.workers.supervisor import Problem, Rules, Supervisor
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Scenario
from tests.support.budgets import examples
from tests.support.fake_worker import Dies, FakeWorker, FakeWorkers, Script, fake_pool, obedient
from tests.support.ledger_world import ledger

BOOK = {"account_id": 1, "amount": 5}
RULES = Rules(
    tick_seconds=0.05,
    workers=1,
    spare=1,
    empties=1,
    deadline=100,
    start=100,
    too_long="it ran too long",
    resident=2**30,
    too_full=2**31,
)
SOON = {"slow_after": 0.01, "call_deadline": 30.0}


@pytest.fixture(scope="module")
def ledger_package(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    return ledger(tmp_path_factory.mktemp("package"))


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return ledger(tmp_path / "ledger")


async def book(env: Env, amount: int = 5) -> ToolResult:
    return await env.call("book", {"account_id": 1, "amount": amount}, "")


def is_call(request: WorkerRequest, name: str) -> bool:
    return isinstance(request, WorkerCall) and request.name == name


def endless_image() -> bytes:
    """A database with an empty table that takes forever to read."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        f"PRAGMA page_size={PAGE}; CREATE VIEW endless AS WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, '' AS word FROM n WHERE i < 0;"
        "CREATE VIRTUAL TABLE words USING fts5(word, content='endless', content_rowid='id')"
    )
    image: bytes = connection.serialize()
    connection.close()
    return image


async def ended(worker: FakeWorker, scope: anyio.CancelScope) -> None:
    """Wait for the end of one worker, then cancel the other waits."""
    await worker.wait()
    scope.cancel()


class Holding:
    """A script that holds calls of one tool until `release` is set."""

    def __init__(self, name: str = "wipe") -> None:
        self.held = anyio.Event()  # such a call is in flight
        self.release = anyio.Event()
        self.worker: FakeWorker | None = None  # the first that executed one
        self._name = name

    async def __call__(self, worker: FakeWorker, request: WorkerRequest) -> None:
        if is_call(request, self._name) and (self.worker is None or worker is self.worker):
            self.worker = worker
            self.held.set()
            await self.release.wait()


class Lying:
    """A script with prepared replies to calls of one tool, each used once."""

    def __init__(
        self, *replies: Callable[[WorkerCall], WorkerReply | bytes], name: str = "wipe"
    ) -> None:
        self._replies = list(replies)
        self._name = name

    async def __call__(
        self, worker: FakeWorker, request: WorkerRequest
    ) -> WorkerReply | bytes | None:
        if isinstance(request, WorkerCall) and request.name == self._name and self._replies:
            return self._replies.pop(0)(request)
        return None


def outcome(request: WorkerCall, **changed: Any) -> CallOutcome:
    """A well-formed outcome that changes nothing."""
    digest = request.state.digest if request.state is not None else "0" * 32
    valid = CallOutcome(request.id, "ok", None, (), digest)
    return msgspec.structs.replace(valid, **changed)


# Slow calls ----------------------------------------------------------------------


async def test_no_call_waits_behind_a_hanging_call(scenario: Scenario) -> None:
    """While one call hangs, every request behind it is answered by another worker, which receives
    the states and replaces the first."""
    script = Holding()
    async with fake_pool(script, workers=1, **SOON) as (pool, workers), AsyncExitStack() as stack:
        envs = [await stack.enter_async_context(pool.lease(scenario)) for _ in range(12)]
        before = [(await book(env)).digest for env in envs]
        async with anyio.create_task_group() as group:
            group.start_soon(envs[0].call, "wipe", {}, "")
            await script.held.wait()
            results: list[ToolResult] = []

            async def continue_with(env: Env) -> None:
                results.append(await book(env))

            async with anyio.create_task_group() as others:
                for env in envs[1:]:
                    others.start_soon(continue_with, env)
            assert not script.release.is_set()
            assert {result.text for result in results} == {'{"entry":3}'}
            assert [worker.executed for worker in workers.used] == [["book"] * 12, ["book"] * 11]
            assert workers.used[1].num_states == 11
            assert envs[0].digest == before[0]
            script.release.set()
        assert envs[0].digest != before[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": 1, "b": "é\u2028\0", "c": True, "d": None},
        {"a": 2**100, "b": -(2**64)},
        {"a": "\ud800"},
        {"\udfff": 1},
        {"a": 1e300, "b": [1, {"c": 0.1}]},
        {"a": math.inf},
        {None: 1},
        ["no object"],
        "text",
    ],
)
def test_arguments_arrive_as_pythons_json_writes_them(arguments: Any) -> None:
    """Whichever writer was used, a worker reads the same values."""
    assert json.loads(_json(arguments)) == json.loads(json.dumps(arguments))


async def test_a_slow_worker_comes_back(scenario: Scenario) -> None:
    """A call that ends in time has its normal result; then one worker is surplus and ends."""
    script = Holding()
    async with (
        fake_pool(script, workers=1, **SOON) as (pool, workers),
        pool.lease(scenario) as slow,
        pool.lease(scenario) as other,
    ):
        results: list[ToolResult] = []

        async def wipe() -> None:
            results.append(await slow.call("wipe", {}, "c0-0"))

        async with anyio.create_task_group() as group:
            group.start_soon(wipe)
            await script.held.wait()
            await book(other)  # by a second worker
            script.release.set()
        assert [result.text for result in results] == ["1"]
        async with anyio.create_task_group() as group:
            for worker in workers.used:
                group.start_soon(ended, worker, group.cancel_scope)
        assert pool.statistics()["workers"] == 2  # one that hosts the scenario, one empty
        assert (await book(slow)).text == (await book(other)).text.replace("3", "2")
        assert slow.state().digest == slow.digest


async def test_a_late_answer_is_dropped(scenario: Scenario) -> None:
    """A request that was moved is applied once, although its first worker executes it too."""
    script = Holding()
    async with (
        fake_pool(script, workers=1, **SOON) as (pool, workers),
        pool.lease(scenario) as slow,
        pool.lease(scenario) as other,
    ):
        await book(other)
        async with anyio.create_task_group() as group:
            group.start_soon(slow.call, "wipe", {}, "")
            await script.held.wait()
            assert (await book(other)).text == '{"entry":3}'
            first = workers.used[0]
            executed = list(first.executed)
            script.release.set()
        await slow.call("get_account", {"account_id": 1}, "")
        assert (await book(other)).text == '{"entry":4}'
        assert executed == ["book"]
        assert other.state().digest == other.digest
        assert pool.statistics()["requests_moved"] == 1


async def test_a_call_ends_at_its_deadline(scenario: Scenario) -> None:
    """A call that runs longer than the deadline ends its world, with a message, and its worker."""
    script = Holding()
    quick = {"slow_after": 0.01, "call_deadline": 0.03}
    async with fake_pool(script, **quick) as (pool, _), pool.lease(scenario) as env:
        sentence = (
            "the world of scenario 'ledger' is broken: "
            "wipe ended its worker: it ran longer than 0.03 s"
        )
        with pytest.raises(WorldError) as caught:
            await env.call("wipe", {}, "")
        assert str(caught.value) == sentence
        assert script.worker is not None
        assert await script.worker.wait() == "it was killed by the pool"
        for later in (env.state, env.fork, env.reset):
            with pytest.raises(WorldError) as caught:
                later()
            assert str(caught.value) == sentence
        with pytest.raises(WorldError, match="longer than"):
            await book(env)
        async with pool.lease(scenario) as another:
            assert (await book(another)).text == '{"entry":2}'
        assert pool.statistics()["workers_replaced"] >= 1


@pytest.mark.parametrize(("share", "ticks"), [(1.0, 3), (0.6, 3), (0.4, 30), (0.0, 30)])
async def test_a_worker_without_cpu_gets_more_time(share: float, ticks: int) -> None:
    """A worker that uses much of a core is slow soon; other processes may keep one that uses little
    from running, so it is slow after ten times as long."""

    class Process(FakeWorker):
        def cpu_s(self) -> float:
            return 7.0 + share * num_ticks * RULES.tick_seconds

    class Quick(Job):
        slow_factor = 1

    num_ticks = 0
    supervisor = Supervisor(RULES, start=lambda: None)
    supervisor.is_open = True
    dispatcher = Dispatcher(RULES, WorkerPool())
    process = Process(1, obedient)
    worker = WorkerConnection(process, dispatcher, window=2)
    supervisor.add(worker)
    supervisor.set_ready(worker, "none")
    worker.put(Quick("p", Replay(0, "p", ())))
    worker.pump()
    found: list[tuple[WorkerConnection, Problem]] = []
    while not found:
        num_ticks += 1
        found = supervisor.tick()
    assert (num_ticks, found) == (ticks, [(worker, "slow")])
    worker.end()
    process.socket.close()
    process._theirs.close()


@pytest.mark.slow
async def test_suspects_are_bounded(scenario: Scenario) -> None:
    """Where every call hangs, only the allowed number of workers executes at a time."""
    num_broken = most = executing = 0

    async def hang(worker: FakeWorker, request: WorkerRequest) -> None:
        nonlocal executing, most
        if isinstance(request, WorkerCall):
            executing += 1
            most = max(most, executing)
            try:
                await anyio.sleep_forever()
            finally:
                executing -= 1

    quick = {"slow_after": 0.01, "call_deadline": 0.2, "spare": 1}
    async with fake_pool(hang, **quick) as (pool, _):

        async def play() -> None:
            nonlocal num_broken
            async with pool.lease(scenario) as env:
                with pytest.raises(WorldError):
                    await book(env)
            num_broken += 1

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(play)
    assert num_broken == 8
    assert most <= 3


# Cancellation ------------------------------------------------------------------------------------


async def test_a_cancelled_call_has_not_happened(scenario: Scenario) -> None:
    """Cancelled in flight or while it waits, a call changes nothing and the world continues."""
    script = Holding()
    async with (
        fake_pool(script, workers=1, **SOON) as (pool, _),
        pool.lease(scenario) as env,
        pool.lease(scenario) as behind,
    ):
        before = (await book(env)).digest
        async with anyio.create_task_group() as group:
            group.start_soon(env.call, "wipe", {}, "c0-0")
            await script.held.wait()
            group.start_soon(behind.call, "wipe", {}, "c0-0")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        assert (env.digest, behind.digest) == (before, behind.start_digest)
        assert (await book(env)).text == '{"entry":3}'
        assert (await book(behind)).text == '{"entry":2}'
        for world in (env, behind):
            assert world.state().digest == world.digest


async def test_an_abandoned_worker_is_replaced(scenario: Scenario) -> None:
    """A hanging call that was cancelled soon ends its worker, and affects no other call."""
    script = Holding()
    async with fake_pool(script, workers=1, **SOON) as (pool, _), pool.lease(scenario) as env:
        async with anyio.create_task_group() as group:
            group.start_soon(env.call, "wipe", {}, "")
            await script.held.wait()
            group.cancel_scope.cancel()
        assert script.worker is not None
        assert await script.worker.wait() == "it was killed by the pool"
        assert (await book(env)).text == '{"entry":2}'


async def test_one_call_of_a_world_at_a_time(scenario: Scenario) -> None:
    """Calls of one world made at once are executed in order, and the same id once."""
    async with fake_pool() as (pool, workers), pool.lease(scenario) as env:
        texts: list[str] = []

        async def call(call_id: str) -> None:
            texts.append((await env.call("book", BOOK, call_id)).text)

        async with anyio.create_task_group() as group:
            for call_id in ("a", "b", "a"):
                group.start_soon(call, call_id)
        assert texts == ['{"entry":2}', '{"entry":3}', '{"entry":2}']
        assert [len(worker.executed) for worker in workers.used] == [2]


async def test_a_reset_ends_a_call(scenario: Scenario) -> None:
    """A call whose world is reset while it runs fails, and leaves no trace."""
    script = Holding()
    async with fake_pool(script, **SOON) as (pool, _), pool.lease(scenario) as env:
        await book(env)

        async def wipe() -> None:
            with pytest.raises(WorldError, match="was reset"):
                await env.call("wipe", {}, "")

        async with anyio.create_task_group() as group:
            group.start_soon(wipe)
            await script.held.wait()
            env.reset()
            script.release.set()
        assert env.digest == env.start_digest
        assert (await book(env)).text == '{"entry":2}'


# Death -------------------------------------------------------------------------------------------


async def test_death_takes_one_call(scenario: Scenario) -> None:
    """When a worker dies, the call in flight ends its world, with the exit reason; the calls behind
    it are executed elsewhere, from their states."""
    held, die = anyio.Event(), anyio.Event()

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if is_call(request, "wipe"):
            held.set()
            await die.wait()
            raise Dies("it ran out of memory")

    async with fake_pool(script, workers=1) as (pool, workers), AsyncExitStack() as stack:
        envs = [await stack.enter_async_context(pool.lease(scenario)) for _ in range(6)]
        for env in envs:
            await book(env)
        texts: list[str] = []

        async def wipe() -> None:
            with pytest.raises(WorldError, match=r"wipe ended its worker: it ran out of memory$"):
                await envs[0].call("wipe", {}, "")

        async def continue_with(env: Env) -> None:
            texts.append((await book(env)).text)

        async with anyio.create_task_group() as group:
            group.start_soon(wipe)
            await held.wait()
            for env in envs[1:]:
                group.start_soon(continue_with, env)
            await anyio.wait_all_tasks_blocked()
            die.set()
        assert texts == ['{"entry":3}'] * 5
        assert [len(worker.executed) for worker in workers.used] == [6, 5]
        assert int(pool.cpu_s()) == 3  # one that is gone, one that lives, one empty
        for env in envs[1:]:
            assert env.state().digest == env.digest


async def test_a_request_that_is_made_again_does_not_die_with_another(scenario: Scenario) -> None:
    """A call whose worker was killed from outside is made again on a worker that receives nothing
    else meanwhile, so it is not lost however often other calls have their workers killed."""

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if is_call(request, "wipe"):
            await anyio.wait_all_tasks_blocked()
            shared = wiped.last_worker
            assert isinstance(shared, WorkerConnection)
            if len(shared.sent) > 1:
                raise Dies(next(iter(KILLED)))

    async def continue_with(env: Env) -> None:
        while not done.is_set():
            await book(env)

    done = anyio.Event()
    async with fake_pool(script, workers=1) as (pool, _), AsyncExitStack() as stack:
        wiped, *others = [await stack.enter_async_context(pool.lease(scenario)) for _ in range(4)]
        assert isinstance(wiped, RemoteExecutionEnv)
        async with anyio.create_task_group() as group:
            for env in others:
                group.start_soon(continue_with, env)
            assert not (await wiped.call("wipe", {}, "")).is_error
            done.set()
        assert pool.statistics()["requests_repeated"] == 1


async def test_the_last_answers_of_a_worker_count(scenario: Scenario) -> None:
    """The answers that a worker sent before it ended count, also when a request to it fails in the
    meantime: only the call in flight is lost."""

    def violate(request: WorkerCall) -> CallOutcome:
        return outcome(request, violation="it opened a socket")

    async def write() -> None:  # before the pool has read the answer
        texts.append((await book(other)).text)

    texts: list[str] = []
    async with (
        fake_pool(Lying(violate), workers=1) as (pool, workers),
        pool.lease(scenario) as env,
        pool.lease(scenario) as other,
        anyio.create_task_group() as group,
    ):
        await book(other)
        workers.used[0].at_end = lambda: group.start_soon(write)
        with pytest.raises(WorldError, match=r"is broken: it opened a socket$"):
            await env.call("wipe", {}, "")
    assert texts == ['{"entry":3}']


async def test_workers_that_never_start_are_an_error(scenario: Scenario) -> None:
    """A pool whose workers die at their start, or cannot be started, reports it and gives up."""

    class Failing(FakeWorker):
        async def serve(self) -> None:
            self.exit_reason = "the sandbox could not be entered"
            self._theirs.close()
            self._ended.set()

    class FailingWorkers(FakeWorkers):
        worker = Failing

    failing, unavailable = FailingWorkers(obedient), FakeWorkers(obedient)
    unavailable.fault = "the fork server has ended"
    cases = ((failing, "the sandbox could not be entered"), (unavailable, unavailable.fault))
    for workers, why in cases:
        with pytest.raises(
            PoolError, match=f"no worker could be started, 3 times; the last: {why}"
        ):
            async with WorkerPool(WorkerSettings(workers=1), open_spawner=workers.open):
                pass
    assert len(failing.started) == 3


async def test_workers_that_are_never_ready_are_an_error() -> None:
    """A worker that does not report in time that it is ready counts as one that died."""

    class Silent(FakeWorker):
        async def _serve(self) -> None:
            await anyio.sleep_forever()

    class SilentWorkers(FakeWorkers):
        worker = Silent

    silent = SilentWorkers(obedient)
    settings = WorkerSettings(workers=1, slow_after=0.01, start_deadline=0.02)
    with pytest.raises(PoolError, match="3 times; the last: it took too long to start"):
        async with WorkerPool(settings, open_spawner=silent.open):
            pass
    assert [worker.exit_reason for worker in silent.started] == ["it was killed by the pool"] * 3


async def test_a_world_that_hangs_its_host_is_an_error(scenario: Scenario) -> None:
    """Hosting a scenario has the deadline of a call."""

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if isinstance(request, Load):
            await anyio.sleep_forever()

    async with fake_pool(script, slow_after=0.01, call_deadline=0.03) as (pool, _):
        with pytest.raises(
            PoolError, match=r"hosting it ended its worker: it ran longer than 0.03 s"
        ):
            await pool.host(scenario)


async def test_a_pool_without_workers_fails_its_calls(scenario: Scenario) -> None:
    """When the last worker has ended and none can be started, calls fail with that message; until
    then the workers that are ready take over."""

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if is_call(request, "wipe"):
            raise Dies("it crashed")

    async with (
        fake_pool(script, workers=1) as (pool, workers),
        pool.lease(scenario) as first,
        pool.lease(scenario) as second,
    ):
        workers.fault = "the fork server has ended"
        with pytest.raises(WorldError, match="it crashed"):
            await first.call("wipe", {}, "")
        assert (await book(second)).text == '{"entry":2}'
        with pytest.raises(WorldError, match="it crashed"):
            await second.call("wipe", {}, "")
        async with pool.lease(scenario) as third:
            with pytest.raises(PoolError, match="the fork server has ended"):
                await book(third)


async def test_a_world_that_kills_its_host_is_an_error(scenario: Scenario) -> None:
    """A scenario whose hosting ends the worker fails at the lease, and the pool continues."""
    num_loads = 0

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        nonlocal num_loads
        if isinstance(request, Load):
            num_loads += 1
            if num_loads == 1:
                raise Dies("it was killed by the sandbox")

    async with fake_pool(script) as (pool, _):
        with pytest.raises(PoolError, match=r"hosting it ended its worker: it was killed by the s"):
            async with pool.lease(scenario):
                pass
        async with pool.lease(scenario) as env:
            assert (await book(env)).text == '{"entry":2}'
    assert num_loads == 2


async def test_a_world_that_can_no_longer_be_hosted_ends(scenario: Scenario) -> None:
    """Where hosting a scenario again keeps failing, its worlds end; it is not tried forever."""
    num_loads = 0

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        nonlocal num_loads
        if isinstance(request, Load):
            num_loads += 1
        if is_call(request, "wipe") or (isinstance(request, Load) and num_loads > 1):
            raise Dies("it crashed")

    async with (
        fake_pool(script, workers=1) as (pool, _),
        pool.lease(scenario) as first,
        pool.lease(scenario) as second,
    ):
        with pytest.raises(WorldError, match="wipe ended its worker: it crashed"):
            await first.call("wipe", {}, "")
        with pytest.raises(WorldError, match="can no longer be hosted: it crashed"):
            await book(second)
    assert num_loads == 3


# False outcomes ---------------------------------------------------------------------------------

NOTE = RowChange("journal", (9,), None, {"what": "invented"})


def consistent(request: WorkerCall) -> CallOutcome:
    """An invented row, with the digest that it would lead to, and no page that contains it."""
    assert request.state is not None and NOTE.after is not None
    total = sum_after_change(
        int(request.state.digest, 16), NOTE.table, None, tuple(NOTE.after.values())
    )
    return outcome(request, changes=(NOTE,), digest=hex_digest(total))


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        (lambda r: outcome(r, id=r.id + 1), "it answered request 3, which was not in flight"),
        (lambda r: Verified(r.id), "it answered with Verified"),
        (lambda r: WorkerReady(1, "none", 0), "it reported twice that it was ready"),
        (lambda r: b"\0\0\0\1\xc1", "a frame from a worker is not a reply"),
        (lambda r: b"\xff\xff\xff\xff", "a frame of 4294967295 bytes is too long"),
        (lambda r: WorkerFailed(r.id, "KeyError: 7"), "wipe ended its worker: KeyError: 7"),
        (lambda r: outcome(r, violation="it opened /etc/passwd"), "it opened /etc/passwd"),
        (lambda r: outcome(r, digest="12"), "the reported digest '12' is not 32 hex"),
        (lambda r: outcome(r, digest="+" + "1" * 31), "the reported digest '"),
        (lambda r: outcome(r, pages={0: b""}, num_pages=9), "page 0 of 0 bytes among 9 pages"),
        (lambda r: outcome(r, pages={9: b"x" * PAGE}, num_pages=9), "page 9 of 1024 bytes"),
        (lambda r: outcome(r, pages={-1: b"x" * PAGE}, num_pages=9), "page -1 of 1024 bytes"),
        (lambda r: outcome(r, pages={1: b"x" * PAGE}, num_pages=2**31), "has 2147483648 pages"),
        (lambda r: outcome(r, module_state=b"x" * 2**23), "its module state has 8388608 bytes"),
        (lambda r: outcome(r, digest="1" * 32), "do not lead to the reported digest"),
        (lambda r: outcome(r, changes=(NOTE,)), "do not lead to the reported digest"),
    ],
)
async def test_an_impossible_answer_ends_the_world(
    scenario: Scenario, lie: Callable[[WorkerCall], WorkerReply | bytes], sentence: str
) -> None:
    """An answer that is impossible, or reports a violation, ends its world with a message; the
    worker is replaced, and the other worlds that it served continue elsewhere."""
    async with fake_pool(Lying(lie), workers=1) as (pool, workers):
        async with pool.lease(scenario) as env, pool.lease(scenario) as neighbour:
            with pytest.raises(WorldError) as caught:
                await env.call("wipe", {}, "")
            assert str(caught.value).startswith("the world of scenario 'ledger' is broken: ")
            assert sentence in str(caught.value)
            assert await workers.used[0].wait() == "it was killed by the pool"
            assert (await book(neighbour)).text == '{"entry":2}'
            assert neighbour.state().digest == neighbour.digest
        assert len(workers.used) == 2


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        (consistent, "was reported: the tool's code interfered"),
        (
            lambda r: outcome(r, pages={0: b"x" * PAGE}, num_pages=20),
            "its pages cannot be read (.*): the tool's code interfered",
        ),
    ],
)
async def test_a_misreported_state_is_not_returned(
    scenario: Scenario, lie: Callable[[WorkerCall], WorkerReply | bytes], sentence: str
) -> None:
    """A state is returned only with the digest of its pages: code that lies about its effect ends
    its episode, and its worker."""
    async with fake_pool(Lying(lie), workers=1) as (pool, workers), pool.lease(scenario) as env:
        assert (await env.call("wipe", {}, "")).text == "ok"
        with pytest.raises(WorldError, match=sentence.replace("(.*)", r"\(.*\)")):
            env.state()
        assert await workers.used[0].wait() == "it was killed by the pool"
        with pytest.raises(WorldError, match="interfered"):
            await book(env)


async def test_reading_a_state_has_a_time_limit(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema that takes forever to read does not block this process, in a state or in the start
    state that a worker returns."""
    monkeypatch.setattr(guarded_vfs, "SECONDS", 0.05)
    image = endless_image()
    pages = {n: image[n * PAGE : (n + 1) * PAGE] for n in range(len(image) // PAGE)}
    lie = Lying(lambda r: outcome(r, pages=pages, num_pages=len(pages)))
    async with fake_pool(lie) as (pool, _), pool.lease(scenario) as env:
        await env.call("wipe", {}, "")
        with pytest.raises(WorldError, match=r"cannot be read \(.*nterrupt.* interfered"):
            env.state()

    async def script(worker: FakeWorker, request: WorkerRequest) -> WorkerReply | None:
        return Loaded(request.id, image, ()) if isinstance(request, Load) else None

    async with fake_pool(script) as (pool, _):
        with pytest.raises(SeedError, match=r"its database cannot be read: .*nterrupt"):
            await pool.host(scenario)


async def test_a_forgotten_state_is_sent_again(scenario: Scenario) -> None:
    """A worker that no longer has a world's state receives it; one that denies it twice is
    replaced."""
    stale = lambda r: Stale(r.id)  # noqa: E731
    async with fake_pool(Lying(stale), workers=1) as (pool, workers), pool.lease(scenario) as env:
        await book(env)
        assert (await env.call("wipe", {}, "")).text == "2"
        assert workers.used[0].num_states == 2
    async with fake_pool(Lying(stale, stale), workers=1) as (pool, _), pool.lease(scenario) as env:
        await book(env)
        with pytest.raises(WorldError, match="it answered with Stale"):
            await env.call("wipe", {}, "")


# Hosting of scenarios ----------------------------------------------------------------------------


async def test_scenarios_spread(tmp_path: Path) -> None:
    """Each scenario has a worker of its own; a world's calls stay where its state is."""
    async with fake_pool() as (pool, workers):
        scenarios = [ledger(tmp_path / str(n), policy_md=str(n)) for n in range(4)]
        for scenario in scenarios:
            async with pool.lease(scenario) as env:
                for _ in range(3):
                    await book(env)
        assert [len(worker.loaded) for worker in workers.used] == [1, 1, 1, 1]
        assert [worker.num_states for worker in workers.used] == [1, 1, 1, 1]
        assert pool.hosted(scenarios[0]).scenario is scenarios[0]
        with pytest.raises(PoolError, match="was not hosted in a worker yet"):
            pool.hosted(ledger(tmp_path / "other", policy_md="other"))


async def test_a_busy_scenario_gets_a_second_worker(scenario: Scenario) -> None:
    """When too many requests wait for a scenario's worker, another worker hosts it too."""
    shared = anyio.Event()

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if isinstance(request, Load) and worker is not workers.used[0]:
            shared.set()
        elif is_call(request, "get_account"):
            await shared.wait()

    async with fake_pool(script, slow_after=30.0) as (pool, workers):

        async def play() -> None:
            async with pool.lease(scenario) as env:
                await env.call("get_account", {"account_id": 1}, "")

        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(play)
        assert [worker.loaded for worker in workers.used] == [["ledger"], ["ledger"]]
        done = [len(worker.executed) for worker in workers.used]
        assert sum(done) == 40
        assert min(done) > 0


async def test_idle_workers_end_where_memory_is_short(tmp_path: Path) -> None:
    """Above the memory limit the least recently used worker without work ends; its worlds continue
    where their scenario is loaded again, from their states."""
    a, b, c = (ledger(tmp_path / name, policy_md=name) for name in "abc")
    async with fake_pool(workers=1, resident_mb=10) as (pool, workers):
        async with pool.lease(a) as env, pool.lease(b) as other:
            await book(other)
            await book(env)
            for worker in workers.used:
                worker.num_bytes = 4 * 2**20
            assert (await book(other)).text == '{"entry":3}'
            assert (await book(env)).text == '{"entry":3}'
            await pool.host(c)
            workers.used[2].num_bytes = 4 * 2**20
            async with pool.lease(c) as third:
                await book(third)
                await pool.host(ledger(tmp_path / "d", policy_md="d"))
            ended = [worker.exit_reason for worker in workers.used]
            assert ended == ["", "it was killed by the pool", "", ""]
            assert (await book(other)).text == '{"entry":4}'
            assert other.state().digest == other.digest
        assert [worker.loaded for worker in workers.used] == [["ledger"]] * 5
        assert pool.statistics()["workers_evicted"] == 1


async def test_few_workers_execute_at_a_time(tmp_path: Path) -> None:
    """However many scenarios have calls and verdicts, no more workers execute than `workers`; every
    scenario has its turn, also one with few worlds beside one with many."""
    executing = most = 0
    leased: list[Env] = []
    everyone = anyio.Event()
    finished: list[str] = []

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        nonlocal executing, most
        if isinstance(request, Forget):
            return
        executing += 1
        most = max(most, executing)
        await anyio.lowlevel.checkpoint()
        executing -= 1

    many, few = (ledger(tmp_path / name, policy_md=name) for name in ("many", "few"))
    async with fake_pool(script, workers=1, slow_after=5.0) as (pool, _):

        async def play(scenario: Scenario) -> None:
            async with pool.lease(scenario) as env:
                leased.append(env)
                if len(leased) == 61:
                    everyone.set()
                await everyone.wait()  # so that hosting a scenario slowly changes no order
                await book(env)
                await pool.verify(scenario, scenario.tasks[0], env.state(), "")
            finished.append(scenario.rules)

        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(play, many)
            group.start_soon(play, few)
    assert most == 1
    assert finished.index("few") < 50


async def test_ended_worlds_are_forgotten(scenario: Scenario) -> None:
    """The workers learn which worlds have ended."""
    async with fake_pool(workers=1) as (pool, workers):
        for _ in range(130):
            async with pool.lease(scenario) as env:
                await env.call("newest", {}, "")
        await pool.host(scenario)
        assert len(set(workers.used[0].forgotten)) == 128


async def test_refused_scenarios(tmp_path: Path) -> None:
    """A refusal has the kind that the worker reported, and a changed package is not hosted."""
    async with fake_pool() as (pool, _):
        with pytest.raises(SeedError, match="line 1"):
            await pool.host(ledger(tmp_path / "a", data_sql="nonsense;"))
        with pytest.raises(ToolsetError, match="nonsense"):
            await pool.host(ledger(tmp_path / "b", tools_py="nonsense"))
        changed = ledger(tmp_path / "c")
        (changed.path / "tools.py").write_text("x = 1")
        with pytest.raises(ToolsetError, match="has changed since it was read"):
            await pool.host(changed)
        (changed.path / "tools.py").unlink()
        with pytest.raises(ToolsetError, match="the file is missing"):
            await pool.host(changed)


async def test_a_refusal_by_a_tainted_worker(scenario: Scenario, tmp_path: Path) -> None:
    """A scenario whose hosting does something forbidden is refused; no other scenario's worker is
    touched."""

    async def script(worker: FakeWorker, request: WorkerRequest) -> WorkerReply | None:
        if isinstance(request, Load) and request.scenario.path.name == "bad":
            return HostingRefused(
                request.id, "tools.py opened a socket", violation="it opened a socket"
            )
        return None

    async with fake_pool(script, workers=1) as (pool, workers), pool.lease(scenario) as env:
        await book(env)
        with pytest.raises(ToolsetError, match=r"tools.py opened a socket"):
            await pool.host(ledger(tmp_path / "bad", policy_md="bad"))
        assert (await book(env)).text == '{"entry":3}'
        assert [worker.executed for worker in workers.used] == [["book", "book"], []]
        assert await workers.used[1].wait() == "it was killed by the pool"


async def test_a_worker_that_nears_its_limit_is_replaced(scenario: Scenario) -> None:
    """A worker near its memory limit is replaced before code in it runs out of memory."""
    async with (
        fake_pool(workers=1, slow_after=0.002) as (pool, workers),
        pool.lease(scenario) as env,
    ):
        await book(env)
        workers.used[0].num_bytes = 1600 * 2**20
        assert await workers.used[0].wait() == "it was killed by the pool"
        assert (await book(env)).text == '{"entry":3}'


# The rest ----------------------------------------------------------------------------------------


async def test_verifiers_run_in_workers(scenario: Scenario, tmp_path: Path) -> None:
    """A verifier receives the state and the answer; one that ends its worker is a fault."""
    task = scenario.task("open")
    async with fake_pool(workers=1) as (pool, _), pool.lease(scenario) as env:
        await book(env)
        verified = await pool.verify(scenario, task, env.state(), "done \ud800", "sql")
        assert (verified.label, verified.detail) == ("open", ["done ?", "sql"])
        assert verified.fault == ""
        other = ledger(tmp_path / "other", data_sql="")
        with pytest.raises(StateError):
            await pool.verify(other, task, env.state(), "")

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if not isinstance(request, Load | WorkerCall):
            raise Dies("it crashed")

    async with fake_pool(script, workers=1) as (pool, _), pool.lease(scenario) as env:
        verified = await pool.verify(scenario, task, env.state(), "")
        assert verified.fault == "it ended its worker: it crashed"
        with pytest.raises(PoolError, match="could not be replayed: it crashed"):
            await pool.replay_cpu_s(scenario, [[("book", BOOK)]])


async def test_replays_are_measured_in_a_worker(scenario: Scenario) -> None:
    """Calls made back to back are measured in the worker that makes them."""
    async with fake_pool() as (pool, _):
        seconds = await pool.replay_cpu_s(scenario, [[("book", BOOK)] * 3, [("wipe", {})]])
        assert seconds == 4.0  # the fake worker reports the number of calls


async def test_values_that_json_lacks_reach_the_tool(scenario: Scenario) -> None:
    """The world, not the pool, refuses names and arguments that are not valid text or numbers."""
    async with fake_pool() as (pool, _), pool.lease(scenario) as env:
        assert (await env.call("\ud800", {}, "")).error == "unknown_tool"
        odd = {"name": "\ud800", "value": math.nan, "extra": 2**70}
        assert (await env.call("set_value", odd, "")).error == "arguments"
        assert env.digest == env.start_digest


async def test_leaving_the_pool_ends_its_calls(scenario: Scenario) -> None:
    """Calls in flight when the pool is left end with a message; so do later ones."""
    script = Holding()
    pool: WorkerPool
    async with anyio.create_task_group() as group:
        async with fake_pool(script) as (pool, workers):
            env = (await pool.host(scenario)).lease(pool)
            other = (await pool.host(scenario)).lease(pool)

            async def wipe() -> None:
                with pytest.raises(WorldError, match="the pool was closed"):
                    await env.call("wipe", {}, "")

            group.start_soon(wipe)
            await script.held.wait()
        for worker in workers.used:
            assert worker.exit_reason
    with pytest.raises(PoolError, match="the pool is not open"):
        await book(other)
    assert int(pool.cpu_s()) == 3


async def test_leaving_the_pool_while_a_worker_is_started(scenario: Scenario) -> None:
    """A worker that starts while the pool is left is ended, and its sockets are closed."""

    class Slow(FakeWorkers):
        requested, forked = anyio.Event(), anyio.Event()

        async def spawn(self) -> FakeWorker:
            if self.started:
                self.requested.set()
                await self.forked.wait()
            return await super().spawn()

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if is_call(request, "wipe"):
            raise Dies("it crashed")

    async def fork() -> None:
        await anyio.wait_all_tasks_blocked()
        workers.forked.set()

    workers = Slow(script)
    async with (
        anyio.create_task_group() as group,
        WorkerPool(WorkerSettings(workers=1), open_spawner=workers.open) as pool,
    ):
        async with pool.lease(scenario) as env:
            with pytest.raises(WorldError, match="it crashed"):
                await env.call("wipe", {}, "")
        await workers.requested.wait()
        group.start_soon(fork)
    assert [worker.socket.fileno() for worker in workers.started] == [-1, -1]
    assert workers.started[1].exit_reason == "it was killed by the pool"


async def test_an_exception_of_the_block_is_raised_unchanged() -> None:
    """The pool's own tasks put no exception group around an exception of the block."""
    with pytest.raises(KeyError):
        async with fake_pool():
            raise KeyError


async def test_repr_and_statistics(scenario: Scenario) -> None:
    """`repr`, `statistics`, `level` and `rss` describe the pool."""
    async with fake_pool() as (pool, workers):
        assert (pool.level, pool.rss()) == ("stand-in", 0)
        async with pool.lease(scenario) as env:
            await book(env)
            fresh = env.digest[:8]
            assert repr(env).endswith(f"changed pages, digest {fresh}]>")
            assert repr(pool) == (
                "<WorkerPool [1 live of 1 leased | 1 worlds, 1 calls | 3 workers]>"
            )
        assert pool.statistics() == {
            "worlds": 1,
            "live": 0,
            "max_live": 1,
            "leases": 1,
            "calls": 1,
            "workers": 3,
            "workers_started": 3,
            "workers_replaced": 0,
            "workers_evicted": 0,
            "requests_moved": 0,
            "requests_repeated": 0,
            "replies_dropped": 0,
        }
        assert len(workers.used) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"workers": -1}, {"spare": -1}, {"window": 0}, {"slow_after": 0.0}, {"call_deadline": -1.0}],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    """An invalid setting is an error that names it."""
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        msgspec.convert(wrong, WorkerSettings)


def test_trio_is_refused() -> None:
    """On another event loop than asyncio the pool raises PoolError."""
    trio = pytest.importorskip("trio")

    async def enter() -> None:
        async with WorkerPool():
            pass

    with pytest.raises(PoolError, match="asyncio"):
        trio.run(enter)


# Exactness ---------------------------------------------------------------------------------------

OPERATIONS: Sequence[tuple[str, dict[str, Any]]] = [
    ("book", BOOK),
    ("book", {"account_id": 9, "amount": 1}),
    ("wipe", {}),
    ("grow", {"num": 3, "size": 3000}),
    ("shrink", {"keep": 2}),
    ("broken", {}),
    ("get_account", {"account_id": 1}),
    ("nothing", {}),
]
operations = st.lists(
    st.one_of(st.sampled_from(OPERATIONS), st.sampled_from(["fork", "reset", "state"])),
    max_size=8,
)
fates = st.lists(st.sampled_from(["", "", "", "", "stale", "slow", "die"]), max_size=30)


def fated(fates: list[str]) -> Script:
    """A script that gives the n-th executed call the n-th fate."""
    left = list(reversed(fates))

    async def script(worker: FakeWorker, request: WorkerRequest) -> WorkerReply | None:
        fate = left.pop() if left and isinstance(request, WorkerCall) else ""
        if fate == "slow":
            await anyio.sleep(0.02)  # longer than slow_after
        elif fate == "die":
            raise Dies("it died")
        elif fate == "stale" and isinstance(request, WorkerCall) and request.state is None:
            return Stale(request.id)
        return None

    return script


async def play(env: Env, local: Env, steps: Sequence[Any], broken: list[int]) -> None:
    """Take the same steps on both worlds, which are equal until the worker of the first dies."""
    try:
        for number, step in enumerate(steps):
            if step == "fork":
                async with anyio.create_task_group() as group:
                    group.start_soon(play, env.fork(), local.fork(), steps[number + 1 :], broken)
            elif step == "reset":
                env.reset()
                local.reset()
            elif step == "state":
                assert env.state() == local.state()
            else:
                name, arguments = step
                result = await env.call(name, arguments, f"c{number}")
                assert result == await local.call(name, arguments, f"c{number}")
            assert env.digest == local.digest
        assert env.state() == local.state()
    except WorldError as exc:
        assert "it died" in str(exc)
        broken.append(1)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.lists(operations, min_size=1, max_size=6), fates, st.integers(1, 3), st.integers(1, 3))
def test_worlds_are_exact_despite_faults(
    ledger_package: Scenario,
    worlds: list[list[Any]],
    fates: list[str],
    num_workers: int,
    window: int,
) -> None:
    """However calls, forks and resets interleave with deaths, slow calls and lost states, a world
    equals one in this process, or it is broken because its own call was in flight at a worker that
    died."""

    async def compare() -> None:
        local, broken = LocalPool(), list[int]()
        quick = {"slow_after": 0.01, "workers": num_workers, "window": window}
        async with fake_pool(fated(fates), **quick) as (pool, _), AsyncExitStack() as stack:
            pairs = [
                [
                    await stack.enter_async_context(each.lease(ledger_package))
                    for each in (pool, local)
                ]
                for _ in worlds
            ]
            async with anyio.create_task_group() as group:
                for (env, same), steps in zip(pairs, worlds, strict=True):
                    group.start_soon(play, env, same, steps, broken)
        local.close()
        assert len(broken) <= fates.count("die")

    asyncio.run(compare())

"""Threads that outlive their call: the pool counts them from outside after each answer."""

import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from rehearsal_room.envpool.core.errors import WorldError
from rehearsal_room.envpool.core.types import Env
from rehearsal_room.envpool.kernel.thread_count import ThreadCount
from rehearsal_room.envpool.workers.messages.wire import WorkerCall, WorkerRequest
from rehearsal_room.envpool.workers.pool import WorkerPool
from tests.support import ledger_world
from tests.support.fake_worker import FakeWorker, fake_pool

pytestmark = pytest.mark.anyio
BOOKING = {"account_id": 1, "amount": 5}


STARTS_A_THREAD = """\
import threading
print(1, flush=True)
input()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(2, flush=True)
input()
"""


def test_it_counts_as_the_kernel_does() -> None:
    """A thread is counted from outside while it lives, and an ended process has none."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", STARTS_A_THREAD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        count = ThreadCount(process.pid)
        for number in (1, 2):
            assert int(process.stdout.readline()) == number
            assert count() == number
            process.stdin.write(b"\n")
            process.stdin.flush()
    assert count() <= 0
    count.close()
    assert count() == 0
    assert ThreadCount(process.pid)() == 0


class LeavesThreads:
    """A script: the call `book` leaves two threads."""

    def __init__(self) -> None:
        self.left = anyio.Event()

    async def __call__(self, worker: FakeWorker, request: WorkerRequest) -> None:
        if isinstance(request, WorkerCall) and request.name == "book":
            worker.threads = 3
            self.left.set()


async def test_a_thread_that_outlives_its_call_ends_the_world(tmp_path: Path) -> None:
    """The answer is not given out, the world is broken with a sentence, the worker is replaced, and
    other worlds go on."""
    book = ledger_world.ledger(tmp_path / "ledger")
    async with fake_pool(LeavesThreads(), workers=1) as (pool, workers):
        async with pool.lease(book) as env, pool.lease(book) as other:
            with pytest.raises(WorldError) as caught:
                await env.call("book", BOOKING, "1")
            assert str(caught.value) == (
                "the world of scenario 'ledger' is broken: book ended its worker: "
                "the code left 2 threads running that outlived its call"
            )
            with pytest.raises(WorldError):
                await env.call("get_account", {"account_id": 1}, "2")
            assert not (await other.call("get_account", {"account_id": 1}, "1")).is_error
        assert len(workers.used) == 2
        assert pool.statistics()["workers_replaced"] == 1


async def test_threads_that_end_late_are_waited_for(tmp_path: Path) -> None:
    """A thread that ends after its call's answer delays the answer and breaks nothing; until then
    its worker receives nothing."""
    book = ledger_world.ledger(tmp_path / "ledger")
    results, script = [], LeavesThreads()
    async with fake_pool(script, workers=1) as (pool, workers):
        async with pool.lease(book) as env, pool.lease(book) as other:
            await other.call("get_account", {"account_id": 1}, "0")
            worker = workers.used[0]

            async def call(each: Env, name: str, arguments: dict[str, int]) -> None:
                results.append((await each.call(name, arguments, "1")).is_error)

            async with anyio.create_task_group() as group:
                group.start_soon(call, env, "book", BOOKING)
                await script.left.wait()
                group.start_soon(call, other, "get_account", {"account_id": 1})
                await anyio.sleep(0.05)
                assert (results, worker.executed) == ([], ["get_account", "book"])
                worker.threads = 1
        assert results == [False, False]
        assert worker.executed == ["get_account", "book", "get_account"]
        assert (len(workers.used), pool.statistics()["workers_replaced"]) == (1, 0)


async def test_a_later_call_may_use_threads(tmp_path: Path) -> None:
    """While the worker executes a request that it received before, its threads may be that one's:
    they are waited for as long as it runs."""
    book = ledger_world.ledger(tmp_path / "ledger")
    go = anyio.Event()

    async def script(worker: FakeWorker, request: WorkerRequest) -> None:
        if isinstance(request, WorkerCall):
            if len(worker.executed) == 1:  # the second call
                await go.wait()
                worker.threads = 1
            else:
                worker.threads = 2

    async with fake_pool(script, workers=1, slow_after=30.0) as (pool, _):
        async with (
            pool.lease(book) as env,
            pool.lease(book) as other,
            anyio.create_task_group() as group,
        ):
            group.start_soon(env.call, "get_account", {"account_id": 1}, "1")
            group.start_soon(other.call, "get_account", {"account_id": 1}, "1")
            await anyio.sleep(0.7)  # longer than an idle worker has
            go.set()
        assert pool.statistics()["workers_replaced"] == 0


async def test_a_pool_that_is_closed_answers(tmp_path: Path) -> None:
    """A task that waits for a worker's threads learns that the pool was closed."""
    book = ledger_world.ledger(tmp_path / "ledger")
    why, script = [], LeavesThreads()

    async def call(pool: WorkerPool) -> None:
        async with pool.lease(book) as env:
            try:
                await env.call("book", BOOKING, "1")
            except WorldError as exc:
                why.append(str(exc))

    async with anyio.create_task_group() as group, fake_pool(script, workers=1) as (pool, _):
        group.start_soon(call, pool)
        await script.left.wait()
        await anyio.sleep(0.02)  # the answer came, and its threads are waited for
    assert why == ["the world of scenario 'ledger' is broken: the pool was closed"]


@pytest.mark.slow
async def test_only_the_world_whose_call_left_a_thread_is_broken(tmp_path: Path) -> None:
    """Where a worker had several requests, they are made again, each alone, and tell apart."""
    book = ledger_world.ledger(tmp_path / "ledger")
    outcomes: list[str] = []
    async with fake_pool(LeavesThreads(), workers=1, slow_after=30.0) as (pool, _workers):
        async with pool.lease(book) as env, pool.lease(book) as other:

            async def call(each: Env, name: str, arguments: dict[str, int]) -> None:
                try:
                    outcomes.append(f"{name} {(await each.call(name, arguments, '1')).error}")
                except WorldError:
                    outcomes.append(f"{name} broke its world")

            async with anyio.create_task_group() as group:
                group.start_soon(call, env, "book", BOOKING)
                group.start_soon(call, other, "get_account", {"account_id": 1})
        assert sorted(outcomes) == ["book broke its world", "get_account None"]

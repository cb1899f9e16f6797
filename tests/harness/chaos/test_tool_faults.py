"""Faults of tool calls: a lost reply writes once, an error writes nothing, a delay changes none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.chaos.course import CURRENT
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.tools import FaultyEnv, FaultyPool
from rehearsal_room.harness.chaos.workers import FaultyWorkers
from rehearsal_room.harness.core.events import FaultInjected
from tests.support.chaos import chaos_of, injecting
from tests.support.run_context import library

_PAY = {"member_id": 2, "amount_cents": 100, "method": "card"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def leased(
    fault: str, **settings: Any
) -> AsyncIterator[tuple[FaultyEnv, LocalPool, list[FaultInjected]]]:
    """A world in an episode, its pool, and the faults."""
    injector = Injector(chaos_of({"tools": {fault: {"share": 1.0, **settings}}}))
    inner = LocalPool()
    pool = FaultyPool(inner, injector, FaultyWorkers(injector))
    async with injecting(injector) as faults, pool.lease(library()) as env:
        course = CURRENT.get()
        assert isinstance(env, FaultyEnv) and course is not None
        course.episode, course.attempt = "e5", 1
        yield env, inner, faults


async def undisturbed() -> tuple[ToolResult, str]:
    async with LocalPool().lease(library()) as env:
        return await env.call("pay_fine", _PAY, "c3-0"), env.digest


async def test_a_lost_reply_writes_once() -> None:
    """The tool was executed and its reply is lost; made again, the call gives the same result, and
    the world has changed once."""
    async with leased("lost_reply") as (env, pool, faults):
        result = await env.call("pay_fine", _PAY, "c3-0")
        assert (result, env.digest) == await undisturbed()
        assert [change.table for change in result.changes] != []
        assert pool.statistics()["calls"] == 1
    call = ("e5", 1, 3, "c3-0")
    assert faults == [FaultInjected("tools.lost_reply", True, True, *call)]


async def test_an_error_replaces_the_tool() -> None:
    """The agent reads an internal error; no tool was executed and nothing has changed."""
    async with leased("error") as (env, pool, faults):
        result = await env.call("pay_fine", _PAY, "c3-0")
        assert (result.error, result.injected, result.changes) == ("internal", True, ())
        assert result.digest == env.digest == env.start_digest
        assert pool.statistics()["calls"] == 0
    assert [(fault.fault, fault.turn, fault.retried) for fault in faults] == [
        ("tools.error", 3, False)
    ]


async def test_a_delay_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call waits before it is made, and is the undisturbed one then."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with leased("delay", seconds=4.0) as (env, _, faults):
        monkeypatch.setattr("rehearsal_room.harness.chaos.tools.anyio.sleep", sleep)
        assert (await env.call("pay_fine", _PAY, "c3-0"), env.digest) == await undisturbed()
        monkeypatch.undo()
    assert waits == [4.0]
    assert [(fault.fault, fault.seconds) for fault in faults] == [("tools.delay", 4.0)]


async def test_kept_turns_are_made_again_undisturbed() -> None:
    """Calls before the agent takes over hit no fault: the episode has not begun."""
    async with leased("error") as (env, _, faults):
        course = CURRENT.get()
        assert course is not None
        course.episode = ""
        assert (await env.call("pay_fine", _PAY, "c3-0")).error is None
    assert faults == []


async def test_a_call_without_a_worker_cannot_hit_one() -> None:
    """The fault was to come, and did not land."""
    injector = Injector(chaos_of({"workers": {"kill": {"share": 1.0}}}))
    pool = FaultyPool(LocalPool(), injector, FaultyWorkers(injector))
    async with injecting(injector) as faults, pool.lease(library()) as env:
        course = CURRENT.get()
        assert course is not None
        course.episode, course.attempt = "e5", 1
        assert (await env.call("pay_fine", _PAY, "c0-0")).error is None
    assert [(fault.fault, fault.landed) for fault in faults] == [("workers.kill", False)]

"""Faults beside calls that a world takes together: what the log has can be made again."""

from collections.abc import Sequence
from typing import Any

import pytest

from rehearsal_room.envpool.core.types import SentCall, TakesTogether, ToolResult
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.harness.chaos.course import Course
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.tools import FaultyEnv
from rehearsal_room.harness.chaos.workers import FaultyWorkers
from tests.support.chaos import chaos_of, injecting
from tests.support.run_context import library

_PAY = {"member_id": 2, "amount_cents": 100, "method": "card"}
CALLS = [SentCall("pay_fine", _PAY, f"c3-{at}") for at in range(40)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Together:
    """A world that remembers which calls come together."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.announced: list[str] = []
        self.made: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def announce(self, calls: Sequence[SentCall]) -> None:
        self.announced = [one.call_id for one in calls]

    async def call(self, name: str, arguments: Any, call_id: str) -> ToolResult:
        self.made.append(call_id)
        found: ToolResult = await self._inner.call(name, arguments, call_id)
        return found


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_the_world_knows_which_calls_it_makes(share: float) -> None:
    """A call that an error replaces is not among those that the world makes together: in a replay
    it is not either, so both give one state."""
    injector = Injector(chaos_of({"tools": {"error": {"share": share or 1e-9}}}))
    async with injecting(injector) as faults, LocalPool().lease(library()) as inner:
        world = _Together(inner)
        course = Course()
        course.episode, course.attempt = "e5", 1
        env = FaultyEnv(world, course, injector, FaultyWorkers(injector))
        assert isinstance(env, TakesTogether)
        env.announce(CALLS)
        results = [await env.call(one.name, one.arguments, one.call_id) for one in CALLS]
        made = [one.call_id for one, got in zip(CALLS, results, strict=True) if not got.injected]
    assert world.announced == world.made == made
    assert len(faults) == len(CALLS) - len(made)
    assert {0.0: len(made) == 40, 0.5: 0 < len(made) < 40, 1.0: not made}[share]


async def test_a_world_that_takes_calls_one_by_one_gets_no_list() -> None:
    """Most worlds do."""
    injector = Injector(chaos_of({"tools": {"error": {"share": 1.0}}}))
    async with LocalPool().lease(library()) as inner:
        env = FaultyEnv(inner, Course(), injector, FaultyWorkers(injector))
        env.announce(CALLS)
        assert (await env.call("pay_fine", _PAY, "c3-0")).error is None

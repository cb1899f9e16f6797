"""Judging a run: live, as a subscriber of the bus, or from its log; both give the same verdicts."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel

from harness.bus.local import Subscription
from harness.core.events import EpisodeEnded, EpisodeStarted, Judged, StepTaken
from harness.core.trajectory import Assembly, Trajectory
from harness.rollout.session import sole_exception

_SLICE = 0.005  # seconds of judging between two turns of the loop; one verdict a turn would leave
# the judge ever further behind a thousand episodes that all take a step in each turn
AT_ONCE = 64  # verdicts that are waited for
BACKLOG = 4096  # episodes that may wait for a verdict


Later = Callable[[], Awaitable[Judged]]  # a verdict that takes time: call it and wait


class Judge(Protocol):
    """Says what an episode is worth."""

    def judge(self, trajectory: Trajectory) -> Judged | Later:
        """The verdict on an episode that is over; one that takes time is waited for beside
        others."""


async def serve(
    subscription: Subscription,
    judge: Judge,
    record: Callable[[str, int, Judged], Awaitable[None]],
    *,
    at_once: int = AT_ONCE,
    backlog: int = BACKLOG,
) -> None:
    """Judge every episode at its end, until the bus is closed.

    `record` is given the episode, its attempt and the verdict. The loop gets its turn every few
    milliseconds. Of verdicts that take time, `at_once` are waited for, and `backlog` episodes may
    wait for theirs; then nothing more is received, until the episodes themselves wait (see
    harness.log.recorder). On cancellation, episodes that ended and were not judged yet stay
    unjudged; the log has all that is needed to judge them later.

    Raises ValueError for an episode whose beginning was missed.
    """
    try:
        await _serve(subscription, judge, record, at_once, backlog)
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from None


async def _serve(
    subscription: Subscription,
    judge: Judge,
    record: Callable[[str, int, Judged], Awaitable[None]],
    at_once: int,
    backlog: int,
) -> None:
    live: dict[tuple[str, int], Assembly] = {}
    desks = anyio.CapacityLimiter(at_once)
    chairs = anyio.CapacityLimiter(backlog)

    async def wait(key: tuple[str, int], verdict: Later) -> None:
        try:
            async with desks:
                await record(*key, await verdict())
        finally:
            chairs.release_on_behalf_of(key)

    async with anyio.create_task_group() as waiting:
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            slice_ends = time.perf_counter() + _SLICE
            for news in records:
                event = news.event
                key = (news.episode, news.attempt)
                if isinstance(event, StepTaken) and (assembly := live.get(key)) is not None:
                    assembly.steps.append(event)
                elif isinstance(event, EpisodeStarted | StepTaken):
                    live[key] = Assembly(news)
                elif isinstance(event, EpisodeEnded):
                    assembly = live.pop(key, None) or Assembly(news)
                    assembly.add(news)
                    verdict = judge.judge(assembly.trajectory())
                    if isinstance(verdict, Judged):
                        await record(*key, verdict)
                    else:
                        await chairs.acquire_on_behalf_of(key)
                        waiting.start_soon(wait, key, verdict)
                    if time.perf_counter() > slice_ends:
                        await anyio.lowlevel.checkpoint()
                        slice_ends = time.perf_counter() + _SLICE

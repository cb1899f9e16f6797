"""Judging episodes during the run, as a subscriber of the bus."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.core.events import EpisodeEnded, EpisodeStarted, Judged, StepTaken
from rehearsal_room.harness.core.trajectory import Assembly, Trajectory
from rehearsal_room.harness.rollout.session import sole_exception

# Seconds of judging between two turns of the event loop. With one verdict a turn the judge would
# fall ever further behind a thousand episodes that all take a step in each turn.
_SLICE = 0.005
CONCURRENCY = 64  # verdicts that are waited for at once
BACKLOG = 4096  # episodes that may wait for a verdict

RecordJudged = Callable[[str, int, Judged], Awaitable[None]]  # episode, attempt, verdict


class EpisodeJudge(Protocol):
    """Gives verdicts on episodes that are over."""

    def suspends(self, trajectory: Trajectory) -> bool:
        """Whether the verdict may have to wait for something. Then it is made in a task of its own,
        beside others; else in the caller's, which saves a task and a hop for each verdict."""

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on an episode that is over; ValueError when it is not."""


async def serve(
    subscription: Subscription,
    judge: EpisodeJudge,
    record: RecordJudged,
    *,
    concurrency: int = CONCURRENCY,
    backlog: int = BACKLOG,
) -> None:
    """Judge every episode at its end, until the bus is closed.

    `record` is called with the episode, its attempt and the verdict. The event loop runs other
    tasks every few milliseconds. At most `concurrency` verdicts are waited for at once, and
    `backlog` episodes may wait for theirs; beyond that nothing more is received, until the episodes
    themselves wait (see harness.log.recorder). On cancellation, episodes that ended and were not
    judged yet stay unjudged; the log has all that is needed to judge them later.

    Raises ValueError for an episode whose beginning was missed.
    """
    try:
        await _serve(subscription, judge, record, concurrency, backlog)
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from None


async def _serve(
    subscription: Subscription,
    judge: EpisodeJudge,
    record: RecordJudged,
    concurrency: int,
    backlog: int,
) -> None:
    live: dict[tuple[str, int], Assembly] = {}
    in_progress = anyio.CapacityLimiter(concurrency)
    waiting = anyio.CapacityLimiter(backlog)

    async def judge_later(key: tuple[str, int], trajectory: Trajectory) -> None:
        try:
            async with in_progress:
                await record(*key, await judge.verdict(trajectory))
        finally:
            waiting.release_on_behalf_of(key)

    async with anyio.create_task_group() as tasks:
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            slice_ends = time.perf_counter() + _SLICE
            for received in records:
                event = received.event
                key = (received.episode, received.attempt)
                if isinstance(event, StepTaken) and (assembly := live.get(key)) is not None:
                    assembly.steps.append(event)
                elif isinstance(event, EpisodeStarted | StepTaken):
                    live[key] = Assembly(received)
                elif isinstance(event, EpisodeEnded):
                    assembly = live.pop(key, None) or Assembly(received)
                    assembly.add(received)
                    trajectory = assembly.trajectory()
                    if judge.suspends(trajectory):
                        await waiting.acquire_on_behalf_of(key)
                        tasks.start_soon(judge_later, key, trajectory)
                    else:
                        await record(*key, await judge.verdict(trajectory))
                    if time.perf_counter() > slice_ends:
                        await anyio.lowlevel.checkpoint()
                        slice_ends = time.perf_counter() + _SLICE

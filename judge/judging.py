"""Judging a run: live, as a subscriber of the bus, or from its log; both give the same verdicts."""

import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel
import msgspec
from rich.console import Console

from harness.bus import Subscription
from harness.events import EpisodeEnded, EpisodeStarted, Judged, Label, StepTaken
from harness.session import only
from harness.trajectory import Assembly, Trajectory

_SLICE = 0.005  # seconds of judging between two turns of the loop; one verdict a turn would leave
# the judge ever further behind a thousand episodes that all take a step in each turn
_AT_ONCE = 64  # verdicts that are waited for


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
) -> None:
    """Judge every episode at its end, until the bus is closed.

    `record` is given the episode, its attempt and the verdict. The loop gets its turn every few
    milliseconds. On cancellation, episodes that ended and were not judged yet stay unjudged; the
    log has all that is needed to judge them later.

    Raises ValueError for an episode whose beginning was missed.
    """
    try:
        await _serve(subscription, judge, record)
    except BaseExceptionGroup as group:
        failure = only(group)
        if failure is group:
            raise
        raise failure from None


async def _serve(
    subscription: Subscription,
    judge: Judge,
    record: Callable[[str, int, Judged], Awaitable[None]],
) -> None:
    live: dict[tuple[str, int], Assembly] = {}
    room = anyio.CapacityLimiter(_AT_ONCE)

    async def wait(key: tuple[str, int], verdict: Later) -> None:
        async with room:
            await record(*key, await verdict())

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
                        waiting.start_soon(wait, key, verdict)
                    if time.perf_counter() > slice_ends:
                        await anyio.lowlevel.checkpoint()
                        slice_ends = time.perf_counter() + _SLICE


class Unjudged(msgspec.Struct, frozen=True):
    """An episode without a verdict, and why."""

    episode: str
    why: str


class Summary(msgspec.Struct, frozen=True):
    """What `rehearse judge --json` says of a run."""

    episodes: int
    labels: dict[Label, int]  # every label, those that were not given too
    unjudged: int
    disagreements: int  # episodes to which an earlier verdict gave another label
    model_calls: int
    cost_usd: float
    mean_reward: float | None  # of the judged episodes; None: there is none
    unjudged_episodes: tuple[Unjudged, ...] = ()


class Tally:
    """Counts verdicts, one at a time."""

    def __init__(self) -> None:
        self._labels = dict.fromkeys(Label, 0)
        self._unjudged: list[Unjudged] = []
        self._disagreements = 0
        self._cost_usd = 0.0
        self._rewards = 0.0
        self._num_judged = 0

    def add(self, trajectory: Trajectory, judged: Judged) -> None:
        """Count a verdict; the trajectory's own verdicts are the earlier ones."""
        self._cost_usd += judged.cost_usd
        if judged.label is None:
            why = judged.unjudged or "no reason was given"
            self._unjudged.append(Unjudged(trajectory.episode, why))
            return
        self._num_judged += 1
        self._labels[judged.label] += 1
        self._rewards += judged.reward or 0.0
        earlier = {verdict.label for verdict in trajectory.judged if verdict.label is not None}
        self._disagreements += bool(earlier - {judged.label})

    def summary(self, *, model_calls: int = 0) -> Summary:
        """What has been counted; a judge that asks a model tells how often it did."""
        return Summary(
            episodes=self._num_judged + len(self._unjudged),
            labels=dict(self._labels),
            unjudged=len(self._unjudged),
            disagreements=self._disagreements,
            model_calls=model_calls,
            cost_usd=self._cost_usd,
            mean_reward=self._rewards / self._num_judged if self._num_judged else None,
            unjudged_episodes=tuple(self._unjudged),
        )


def render(summary: Summary, console: Console) -> None:
    """The summary for a terminal."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    reward = "none" if summary.mean_reward is None else f"{summary.mean_reward:.3f}"
    say(f"{summary.episodes} episodes judged, mean reward {reward}")
    for label, count in summary.labels.items():
        say(f"  {label:<20} {count:,}")
    for left in summary.unjudged_episodes:
        say(f"  unjudged {left.episode}: {left.why}")

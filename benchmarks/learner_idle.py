"""How long the trainer waits for rollouts that are as fast as it is, and how long rollouts wait.

    python -m benchmarks.learner_idle --steps 20 --runs 3

The loop, session, log and judge are real. The policy waits for a random time before each reply,
and the learner's update is a sleep in its thread. The duration of a batch's episodes is measured
first, with an instant learner; then each update takes that long. A figure is the share of the
trainer's time in which it waited for groups; its time includes publishing and saving.
"""

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import anyio
import click
import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.options import benchmark, count_option, runs_option
from rehearsal_room.harness.core.messages import AgentCall, Reply, Window
from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.learner.config.settings import (
    DataSettings,
    LoopSettings,
    SaveSettings,
    TrainSettings,
)
from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.loop.loop import Loop, LoopCallbacks
from rehearsal_room.learner.loop.progress_state import (
    TrainProgress,
    trainer_idle_share,
    waiting_side,
)
from rehearsal_room.learner.loop.rollout_session import open_rollouts
from rehearsal_room.learner.loop.run import run_with_rollouts
from rehearsal_room.learner.trainer.trainer import StepReport
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher

GROUPS, SIZE = 8, 8  # groups per batch, episodes per group
REPLIES = 5  # per episode
_TOKENS = encode_ids(range(200))
_LOGPROBS = encode_logprobs([-1.0] * 200)
_FIRST_REPLY = Reply(
    calls=(AgentCall("list_orders", {}, "look"),),
    finish="tool_calls",
    prompt_ids=encode_ids(range(2_000)),
    token_ids=_TOKENS,
    logprobs=_LOGPROBS,
)
_END = msgspec.structs.replace(_FIRST_REPLY, text="That is all.", calls=(), finish="stop")


class Thinker:
    """Waits for `low` to `high` seconds before each reply; makes the same call again and again,
    then ends."""

    name = "thinker"

    def __init__(self, low: float, high: float) -> None:
        self.bounds = low, high
        self.version = "v0"

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that marks its replies with the version with which it started."""
        return _Thinking(self, Random(assignment.seed))

    def statistics(self) -> dict[str, float]:
        """No counts."""
        return {}

    async def take(self, version: str, folder: Path) -> None:
        """Mark the replies of the next agents with this version."""
        self.version = version

    async def __aenter__(self) -> "Thinker":
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass


class _Thinking:
    def __init__(self, policy: Thinker, rng: Random) -> None:
        self._bounds = policy.bounds
        self._version = policy.version
        self._rng = rng
        self._left = REPLIES

    async def reply(self, window: Window) -> Reply:
        await anyio.sleep(self._rng.uniform(*self._bounds))
        self._left -= 1
        reply = _FIRST_REPLY if self._left else _END
        return msgspec.structs.replace(reply, weights=self._version)


class Sleeper:
    """A learner whose update is a sleep; it saves nothing and publishes only a model card."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._num_steps = 0

    def step(self, groups: Sequence[Group], also: GroupSize = NO_GROUPS) -> StepReport:
        """Sleep."""
        start = time.perf_counter()
        time.sleep(self._seconds)
        spent = time.perf_counter() - start
        self._num_steps += 1
        num = sum(len(one.samples) for group in groups for one in group.rollouts) * 200
        return StepReport(self._num_steps, 0.0, 0.0, 0.0, 1, {}, num, num, num, spent)

    def save(self, progress: TrainProgress, *, keep_all: bool = False) -> None:
        """Save nothing."""

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write a model card."""
        folder.mkdir(parents=True)
        write_card(folder, card)


async def train(
    folder: Path, *, steps: int, staleness: int, seconds: float, think: tuple[float, float]
) -> TrainProgress:
    """Run the loop with updates that take `seconds`; returns its progress."""
    train_settings = TrainSettings(
        model=str(folder),
        steps=steps,
        data=DataSettings(groups=GROUPS, keep_equal=True),
        loop=LoopSettings(staleness=staleness),
        save=SaveSettings(every=steps),
    )
    settings = Settings(
        scenarios=("shop_support",),
        episodes=steps * GROUPS * SIZE,
        group_size=SIZE,
        concurrency=GROUPS * SIZE,
    )
    policy, learner = Thinker(*think), Sleeper(seconds)
    publisher = WeightPublisher(
        folder / "versions",
        start=folder,
        card=PolicyCard("", "full", "full", "native"),
        write=learner.publish,
        policies=(policy,),
    )
    live = open_rollouts(
        train_settings,
        settings,
        folder / "rollouts",
        policy,
        open_judge=judge_opener(settings),
        grouping=Grouping(train_settings.data),
        publisher=publisher,
        progress=TrainProgress(),
    )
    async with live as rollouts:
        callbacks = LoopCallbacks(
            report=lambda step, values: None,
            version_in_use=rollouts.gating.set_version,
            throttled_s=rollouts.gating.throttled_s,
        )
        loop = Loop(
            train_settings,
            learner=learner,
            source=rollouts.feed,
            publisher=publisher,
            callbacks=callbacks,
        )
        await run_with_rollouts(loop, rollouts)
    return loop.progress


def run_of(
    *, steps: int, staleness: int, seconds: float, think: tuple[float, float]
) -> TrainProgress:
    """The same, in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        work = partial(
            train, Path(folder), steps=steps, staleness=staleness, seconds=seconds, think=think
        )
        return anyio.run(work)


@benchmark(__doc__)
@count_option("--steps", 20, "Batches of each run.")
@runs_option(3)
@click.option(
    "--think",
    type=click.FloatRange(min=0.0),
    default=0.2,
    help="Mean time before each reply, in seconds.",
)
def main(steps: int, runs: int, think: float) -> list[Figure]:
    """The command line."""
    bounds = 0.6 * think, 1.4 * think
    idle: dict[int, list[float]] = {0: [], 1: []}
    throttled: dict[int, list[float]] = {0: [], 1: []}
    batch: list[float] = []
    for _ in range(runs):
        instant = run_of(steps=steps, staleness=0, seconds=0.0, think=bounds)
        batch.append(instant.seconds["waiting"] / instant.batches)
        for staleness in idle:
            progress = run_of(steps=steps, staleness=staleness, seconds=batch[-1], think=bounds)
            total = sum(value for name, value in progress.seconds.items() if name != "throttled")
            idle[staleness].append(100 * trainer_idle_share(progress.seconds))
            throttled[staleness].append(100 * progress.seconds["throttled"] / total)
            side = waiting_side(progress.seconds) or "neither side"
            click.echo(f"staleness {staleness}, waiting: {side}", err=True)
    return [
        figure("rollouts of a batch, and its update", "s", batch),
        figure("trainer idle, staleness 1", "%", idle[1], reach=15),
        figure("trainer idle, staleness 0", "%", idle[0]),
        figure("rollouts throttled, staleness 1", "%", throttled[1]),
        figure("rollouts throttled, staleness 0", "%", throttled[0]),
    ]


if __name__ == "__main__":
    main()

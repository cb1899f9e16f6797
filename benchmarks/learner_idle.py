"""How long the trainer waits for rollouts that are as fast as it is, and the other way round.

    python -m benchmarks.learner_idle --steps 20 --runs 3

The real loop, session, log and judge; a policy that thinks for a drawn time before each reply, and
a learner whose update is a sleep in its thread. How long a batch's episodes take is measured first,
with an instant learner: the update takes just as long. A figure is the share of the trainer's time
in which it waited for groups, publishing and saving included in its time.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random

import anyio
import msgspec

from benchmarks.figures import Figure, figure, quiet, tell
from harness.cli import COMMAND_CONTEXT
from harness.core.messages import AgentCall, Reply, Window
from harness.core.policy_card import PolicyCard, write_card
from harness.core.token_bytes import encode_ids, encode_logprobs
from harness.policies.base import Agent, Assignment
from harness.settings.run import Settings
from learner.config.settings import DataSettings, LoopSettings, SaveSettings, TrainSettings
from learner.core.samples import Group
from learner.data.grouping import Grouping
from learner.loop.loop import Around, Loop
from learner.loop.progress_state import Place, idle_share, who_waits
from learner.loop.rollout_session import open_rollouts
from learner.loop.run import beside
from learner.trainer.trainer import StepReport
from learner.trainer.weight_publisher import Publisher

GROUPS, SIZE = 8, 8  # groups of a batch, episodes of a group
REPLIES = 5  # of an episode
_TOKENS = encode_ids(range(200))
_LOGPROBS = encode_logprobs([-1.0] * 200)
_LOOK = Reply(
    calls=(AgentCall("list_orders", {}, "look"),),
    finish="tool_calls",
    prompt_ids=encode_ids(range(2_000)),
    token_ids=_TOKENS,
    logprobs=_LOGPROBS,
)
_END = msgspec.structs.replace(_LOOK, text="That is all.", calls=(), finish="stop")


class Thinker:
    """Thinks for `low` to `high` seconds before each reply, looks around and ends."""

    name = "thinker"

    def __init__(self, low: float, high: float) -> None:
        self.bounds = low, high
        self.version = "v0"

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that stamps its replies with the version with which it began."""
        return _Thinking(self, Random(assignment.seed))

    def statistics(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    async def take(self, version: str, folder: Path) -> None:
        """Stamp the replies of the next agents with this version."""
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
        reply = _LOOK if self._left else _END
        return msgspec.structs.replace(reply, weights=self._version)


class Sleeper:
    """Its update is a sleep; what it saves and publishes is next to nothing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._num_steps = 0

    def step(self, groups: Sequence[Group]) -> StepReport:
        """Sleep."""
        began = time.perf_counter()
        time.sleep(self._seconds)
        spent = time.perf_counter() - began
        self._num_steps += 1
        num = sum(len(one.samples) for group in groups for one in group.rollouts) * 200
        return StepReport(self._num_steps, 0.0, 0.0, 0.0, 1, {}, num, num, num, spent)

    def save(self, place: Place, *, keep_all: bool = False) -> None:
        """Keep nothing."""

    def publish(self, folder: Path, card: PolicyCard) -> None:
        """Write a card."""
        folder.mkdir(parents=True)
        write_card(folder, card)


async def trained(
    folder: Path, *, steps: int, staleness: int, seconds: float, think: tuple[float, float]
) -> Place:
    """Where a run of the loop ends whose updates take so many seconds."""
    train = TrainSettings(
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
    publisher = Publisher(
        folder / "versions",
        start=folder,
        card=PolicyCard("", "full", "full", "native"),
        write=learner.publish,
        takers=(policy,),
    )
    live = open_rollouts(
        train,
        settings,
        folder / "rollouts",
        policy,
        open_judge=COMMAND_CONTEXT.judge_opener(settings),
        grouping=Grouping(train.data),
        publisher=publisher,
        place=Place(),
    )
    async with live as rollouts:
        around = Around(
            tell=lambda step, values: None,
            taken=rollouts.admission.take,
            held_s=rollouts.admission.held_s,
        )
        loop = Loop(
            train, learner=learner, source=rollouts.feed, publisher=publisher, around=around
        )
        await beside(loop, rollouts)
    return loop.place


def run_of(*, steps: int, staleness: int, seconds: float, think: tuple[float, float]) -> Place:
    """The same, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = partial(
            trained, Path(folder), steps=steps, staleness=staleness, seconds=seconds, think=think
        )
        return anyio.run(work)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20, help="batches of each run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--think", type=float, default=0.2, help="mean seconds before a reply")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    quiet()
    think = 0.6 * options.think, 1.4 * options.think
    idle: dict[int, list[float]] = {0: [], 1: []}
    held: dict[int, list[float]] = {0: [], 1: []}
    batch: list[float] = []
    for _ in range(options.runs):
        instant = run_of(steps=options.steps, staleness=0, seconds=0.0, think=think)
        batch.append(instant.seconds["waiting"] / instant.batches)
        for staleness in idle:
            place = run_of(steps=options.steps, staleness=staleness, seconds=batch[-1], think=think)
            total = sum(value for name, value in place.seconds.items() if name != "held")
            idle[staleness].append(100 * idle_share(place.seconds))
            held[staleness].append(100 * place.seconds["held"] / total)
            print(f"staleness {staleness}, waiting: {who_waits(place.seconds) or 'neither side'}")
    found: list[Figure] = [
        figure("rollouts of a batch, and its update", "s", batch),
        figure("trainer idle, staleness 1", "%", idle[1], reach=15),
        figure("trainer idle, staleness 0", "%", idle[0]),
        figure("rollouts held, staleness 1", "%", held[1]),
        figure("rollouts held, staleness 0", "%", held[0]),
    ]
    tell(found, options.json)


if __name__ == "__main__":
    main()

"""Fakes for the tests of the loop: a policy whose weights are only a version name, and a learner
that only records its calls."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.core.policy_card import PolicyCard, write_card
from rehearsal_room.harness.core.token_bytes import encode_ids, encode_logprobs
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.oracle import OraclePolicy
from rehearsal_room.harness.settings.run import Settings, resolve_table
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.loop.loop import Loop, LoopCallbacks
from rehearsal_room.learner.loop.metrics import MetricValue
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.loop.rollout_session import Rollouts, open_rollouts
from rehearsal_room.learner.trainer.trainer import StepReport
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher
from tests.support.paths import LIBRARY

CARD = PolicyCard("", "full", "full", "native")


class TokenOracle:
    """Acts as the oracle in the members for which `is_good` is true, and gives up at once in the
    others. A reply has made-up tokens and the version of the weights with which its agent
    started."""

    name = "token-oracle"

    def __init__(
        self,
        *,
        is_good: Callable[[Assignment], bool] = lambda assignment: assignment.member == 0,
        before: Callable[[Assignment], Awaitable[None]] | None = None,
    ) -> None:
        self.version = ""
        self.taken: list[str] = []
        self._is_good = is_good
        self._before = before
        self._oracle = OraclePolicy(Native())

    def agent(self, assignment: Assignment) -> Agent:
        inner = self._oracle.agent(assignment) if self._is_good(assignment) else None
        return _TokenAgent(inner, self.version, assignment, self._before)

    def statistics(self) -> dict[str, float]:
        return {}

    async def take(self, version: str, folder: Path) -> None:
        self.taken.append(version)
        self.version = version

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass


class _TokenAgent:
    def __init__(self, inner: Agent | None, version: str, assignment: Assignment, before: Any):
        self._inner = inner
        self._version = version
        self._assignment = assignment
        self._before = before

    async def reply(self, window: Window) -> Reply:
        if self._before is not None:
            await self._before(self._assignment)
        reply = Reply("I give up.") if self._inner is None else await self._inner.reply(window)
        return msgspec.structs.replace(
            reply,
            prompt_ids=encode_ids([1, 2, 3]),
            prompt_shared=0,
            token_ids=encode_ids([4, 5]),
            logprobs=encode_logprobs([-1.0, -2.0]),
            weights=self._version,
        )


class RecordingLearner:
    """Records the batches and the saved progress. `before` is called in the learner's thread, with
    the number of batches so far."""

    def __init__(self, before: Callable[[int], None] = lambda batch: None) -> None:
        self.batches: list[list[str]] = []  # the names of their groups
        self.versions: list[tuple[str, ...]] = []  # of the weights that sampled each batch
        self.saved: list[TrainProgress] = []
        self.keep_all: list[bool] = []  # of each save
        self.threads: set[int] = set()
        self._before = before

    def step(self, groups: Sequence[Group], also: GroupSize = NO_GROUPS) -> StepReport:
        self.threads.add(threading.get_ident())
        self._before(len(self.batches))
        self.batches.append([group.group for group in groups])
        names = {version for group in groups for version in group.versions}
        self.versions.append(tuple(sorted(names)))
        return StepReport(
            step=len(self.batches),
            loss=0.5,
            grad_norm=1.0,
            lr=0.1,
            updates=1,
            measures={"entropy": 2.0},
            num_trained=10,
            num_tokens=50,
            num_row_tokens=100,
            seconds=1.0,
        )

    def save(self, progress: TrainProgress, *, keep_all: bool = False) -> None:
        self.saved.append(progress)
        self.keep_all.append(keep_all)

    def publish(self, folder: Path, card: PolicyCard) -> None:
        folder.mkdir(parents=True)
        write_card(folder, card)


class RecordedMetrics:
    """Records the metrics of each batch."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, MetricValue]] = {}

    def __call__(self, step: int, values: dict[str, MetricValue]) -> None:
        self.steps[step] = values


def train_settings(**changes: Any) -> TrainSettings:
    """Settings for three batches of two groups; `changes` are as in a training file."""
    table: dict[str, Any] = {
        "model": "start",
        "steps": 3,
        "data": {"groups": 2},
        "save": {"every": 1},
    }
    for name, value in changes.items():
        table[name] = table.get(name, {}) | value if isinstance(value, dict) else value
    return msgspec.convert(table, TrainSettings)


def rollout_settings(train: TrainSettings, **changes: Any) -> Settings:
    size = changes.pop("group_size", 2)
    num_episodes = train.steps * train.data.groups * size
    table = {"scenarios": [f"{LIBRARY}:pay-fine"], "group_size": size, "episodes": num_episodes}
    return resolve_table(table | {"concurrency": 4, "max_steps": 6} | changes, {})


def publisher_of(
    folder: Path, learner: RecordingLearner, *policies: Any, keep: int = 2
) -> WeightPublisher:
    return WeightPublisher(
        folder / "versions",
        start=folder / "start",
        card=CARD,
        write=learner.publish,
        policies=policies,
        keep=keep,
    )


@asynccontextmanager
async def open_loop(
    folder: Path,
    train: TrainSettings,
    policy: TokenOracle,
    learner: RecordingLearner,
    *,
    progress: TrainProgress | None = None,
    metrics: RecordedMetrics | None = None,
    evaluate: Any = None,
    **changes: Any,
) -> AsyncIterator[tuple[Loop, Rollouts]]:
    """A loop and its rollouts, assembled as in learner.loop.run."""
    settings = rollout_settings(train, **changes)
    publisher = publisher_of(folder, learner, policy)
    progress = progress or TrainProgress()
    live = open_rollouts(
        train,
        settings,
        folder / "rollouts",
        policy,
        open_judge=judge_opener(settings),
        grouping=Grouping(train.data, loss=train.loss),
        publisher=publisher,
        progress=progress,
    )
    async with live as rollouts:
        callbacks = LoopCallbacks(
            report=metrics or RecordedMetrics(),
            evaluate=evaluate,
            version_in_use=rollouts.gating.set_version,
            throttled_s=rollouts.gating.throttled_s,
        )
        yield (
            Loop(
                train,
                learner=learner,
                source=rollouts.feed,
                publisher=publisher,
                callbacks=callbacks,
                progress=progress,
            ),
            rollouts,
        )

"""The loop: rollouts and training at the same time.

    rollouts   `run_session` runs the plan's episodes; each waits until its group is admitted
               (learner.data.gating), and samples with the newest weights of its policy
    feed       complete groups arrive over the bus (learner.data.rollout_feed) in the batch queue
    training   in this module, batch by batch: take the groups and update in a thread, while the
               event loop leases the next worlds and runs the next episodes; then publish, evaluate,
               report, save

A kill at any moment loses nothing. The log has every episode that ended; the newest checkpoint has
weights, optimiser and the TrainProgress: how many batches were trained, and which group comes next.
A resumed run finds the later groups in the log, and they form the same batches as before, because
the order of the plan alone determines which groups a batch has.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import inf
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec
import structlog

from rehearsal_room.harness.core.events import Ending
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import LearnerError, TimeIsUpError
from rehearsal_room.learner.core.samples import NO_GROUPS, Group, GroupSize
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.grouping import FAILURES
from rehearsal_room.learner.data.remedies import format_counts, remedy
from rehearsal_room.learner.loop.alarms import CollapseAlarm
from rehearsal_room.learner.loop.metrics import MetricValue
from rehearsal_room.learner.loop.progress_state import (
    ProgressValues,
    TrainProgress,
    after_batch,
    best_evaluation,
    metrics_of_batch,
    metrics_of_update,
    seconds_since,
    waiting_side,
)
from rehearsal_room.learner.trainer.trainer import StepReport
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher

_T = TypeVar("_T")
_log = structlog.get_logger(__name__)


class Learner(Protocol):
    """The model that learns. Called in a thread, one call at a time."""

    def step(self, groups: Sequence[Group], also: GroupSize = NO_GROUPS) -> StepReport:
        """Make one batch's updates. `also` is the size of groups that are not trained and count in
        the loss's denominators. Raises TrainingError."""

    def save(self, progress: TrainProgress, *, keep_all: bool = False) -> None:
        """Write a checkpoint. With `keep_all` no older one is removed: when something is wrong, the
        user may want to return to one of them. Raises CheckpointError; the previous checkpoint then
        stays."""


class BatchSource(Protocol):
    """A source of batches."""

    async def take(self, version: int) -> TakenBatch | None:
        """The next batch, for weights of this version or newer ones; None: there are no more
        batches."""


class LoopCallbacks(msgspec.Struct, frozen=True):
    """What the loop calls besides learner, source and publisher."""

    # Receives the number of batches so far and the metrics of the last one.
    report: Callable[[int, dict[str, MetricValue]], None]
    # Runs the evaluation after this many batches and returns its metrics; None: no evaluations.
    evaluate: Callable[[int], Awaitable[ProgressValues]] | None = None
    # Called when the policies have started to sample with this version.
    version_in_use: Callable[[int], None] = lambda version: None
    # Seconds in which all rollouts waited for new weights.
    throttled_s: Callable[[], float] = lambda: 0.0


class Loop:
    """Trains batch after batch."""

    def __init__(
        self,
        settings: TrainSettings,
        *,
        learner: Learner,
        source: BatchSource,
        publisher: WeightPublisher,
        callbacks: LoopCallbacks,
        progress: TrainProgress | None = None,
        clock: Callable[[], float] = time.perf_counter,
        deadline: float = inf,
    ) -> None:
        """`progress` is that of the checkpoint from which the run resumes; None: it starts. By
        `deadline`, on the clock, the run ends with a checkpoint."""
        self.progress = progress or TrainProgress()
        self._settings = settings
        self._learner = learner
        self._source = source
        self._publisher = publisher
        self._callbacks = callbacks
        self._clock = clock
        self._deadline = deadline
        self._longest: dict[str, float] = {}  # seconds of one update, one checkpoint, …
        self._seconds = dict(self.progress.seconds)
        self._throttled_before = self._seconds.get("throttled", 0.0)
        self._saved = self._save_key
        self._alarm = CollapseAlarm()
        self._has_warned = False  # of a batch without groups

    async def begin(self) -> None:
        """Load the weights with which the run starts or resumes into the policies; to be called
        before any rollouts. Raises CheckpointError."""
        version = self._version
        if self.progress.batches >= self._settings.steps:
            version = self._last_version
        await self._publisher.begin(version, self.progress.batches)
        self._callbacks.version_in_use(self._publisher.version)

    async def run(self) -> TrainProgress:
        """Train until the last batch, or until the source has no more; returns the progress.

        When cancelled, it writes a checkpoint and re-raises the cancellation. Raises LearnerError;
        TimeIsUpError, with a checkpoint, where the next batch would pass the deadline.
        """
        steps, every = self._settings.steps, self._settings.save.every
        if self.progress.batches >= steps and not self.progress.unreported:
            return self.progress
        try:
            if self.progress.batches == 0 or self.progress.unreported:
                await self._close_batch()
                await self._save()
            while self.progress.batches < steps and await self._batch():
                if self.progress.batches % every == 0:
                    await self._save()
            await self._finish()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._save()
            raise
        return self.progress

    @property
    def _save_key(self) -> tuple[int, bool]:
        """Two checkpoints with the same key would be equal."""
        return self.progress.batches, bool(self.progress.unreported)

    @property
    def _version(self) -> int:
        """The newest version that was published for the batches so far."""
        return self.progress.batches // self._settings.loop.publish_every

    @property
    def _last_version(self) -> int:
        """The version that includes all batches so far."""
        return -(-self.progress.batches // self._settings.loop.publish_every)

    async def _batch(self) -> bool:
        """Train one batch; False: there are no more."""
        try:
            batch = await self._timed("waiting", self._next_batch())
        except LearnerError:
            await self._save()
            raise
        if batch is None:
            return False
        values: dict[str, MetricValue] = {
            **metrics_of_batch(batch),
            **_composition_of(batch, self._version),
        }
        report = None
        if batch.groups:
            step = anyio.to_thread.run_sync(self._learner.step, batch.groups, batch.equal_size)
            report = await self._timed("training", step)
            values |= metrics_of_update(report)
        progress = after_batch(self.progress, batch, report)
        self.progress = msgspec.structs.replace(progress, unreported=values)
        if _has_failed(batch):
            await self._save(keep_all=True)
            raise LearnerError(
                f"batch {self.progress.batches}: none of its groups can be used"
                f" ({format_counts(batch.dropped)}): {remedy(batch.dropped)}; --resume continues"
                " with the next batch and the same weights (to return to older weights, remove the"
                " newest checkpoints)"
            )
        if not batch.groups:
            self._warn_once(batch)
        is_last = self.progress.batches == self._settings.steps
        if is_last or self.progress.batches % self._settings.loop.publish_every == 0:
            await self._publish(self._last_version)
        await self._close_batch()
        return True

    async def _next_batch(self) -> TakenBatch | None:
        """The next batch from the source. Raises TimeIsUpError where there is no time to train it:
        as much as the longest update, publication, evaluation and checkpoint took so far."""
        needed = 1.5 * sum(self._longest.values())
        # A scope whose time is over lets pass what does not wait: a batch that is ready.
        if (left := self._deadline - needed - self._clock()) > 0:
            with anyio.move_on_after(left):
                return await self._source.take(self._version)
        batches, steps = self.progress.batches, self._settings.steps
        raise TimeIsUpError(
            "save.must_save_by: there is no time for another batch; "
            + (
                f"the checkpoint after batch {batches} of {steps} is saved"
                if batches
                else f"none of {steps} was trained, so there is no checkpoint"
            )
        )

    async def _close_batch(self) -> None:
        """Evaluate after the last batch, if an evaluation is due, and report its metrics. A resumed
        run does this first for a batch whose evaluation was interrupted."""
        is_last = self.progress.batches == self._settings.steps
        self._report(self.progress.unreported | await self._evaluation(is_last=is_last))
        self.progress = msgspec.structs.replace(self.progress, unreported={})

    async def _finish(self) -> None:
        """Publish, evaluate and save after the last batch, as far as that was not done."""
        if self._publisher.version < self._last_version:
            await self._publish(self._last_version)
        if self.progress.batches not in self.progress.evaluations:
            await self._evaluation(is_last=True)
        await self._save()

    async def _publish(self, version: int) -> None:
        await self._timed("publishing", self._publisher.publish(version, self.progress.batches))
        self._callbacks.version_in_use(version)

    async def _evaluation(self, *, is_last: bool = False) -> dict[str, MetricValue]:
        """The metrics of an evaluation, if one is due."""
        every, batch = self._settings.loop.evaluate_every, self.progress.batches
        if self._callbacks.evaluate is None or not every or (batch % every and not is_last):
            return {}
        found = await self._timed("evaluating", self._callbacks.evaluate(batch))
        evaluations = self.progress.evaluations | {batch: found}
        self.progress = msgspec.structs.replace(self.progress, evaluations=evaluations)
        if best_evaluation(evaluations) == batch:
            await anyio.to_thread.run_sync(self._publisher.keep_best)
        return {f"evaluation/{name}": value for name, value in found.items()}

    async def _save(self, *, keep_all: bool = False) -> None:
        """Write a checkpoint, unless the newest one is equal; see `Learner.save`."""
        if self._saved == self._save_key:
            return
        self._update_seconds()
        saving = anyio.to_thread.run_sync(
            partial(self._learner.save, self.progress, keep_all=keep_all)
        )
        await self._timed("saving", saving)
        self._saved = self._save_key
        self._update_seconds()

    def _report(self, values: dict[str, MetricValue]) -> None:
        """Report the metrics of a batch and how its time was spent."""
        before = self.progress.seconds
        self._update_seconds()
        spent = seconds_since(self.progress.seconds, before)
        for name, seconds in spent.items():
            values[f"seconds/{name}"] = seconds
        values["waits"] = waiting_side(spent) or None
        self._alarm.watch(self.progress.batches, values)
        self._callbacks.report(self.progress.batches, values)

    def _warn_once(self, batch: TakenBatch) -> None:
        """Warn of the first batch in which nothing could be trained."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "batch_not_trained",
                batch=self.progress.batches,
                groups_dropped=batch.dropped,
                remedy=remedy(batch.dropped),
            )

    def _update_seconds(self) -> None:
        throttled = self._throttled_before + self._callbacks.throttled_s()
        seconds = self._seconds | ({"throttled": throttled} if throttled else {})
        self.progress = msgspec.structs.replace(self.progress, seconds=seconds)

    async def _timed(self, name: str, work: Awaitable[_T]) -> _T:
        start = self._clock()
        try:
            return await work
        finally:
            spent = self._clock() - start
            if name != "waiting":
                self._longest[name] = max(spent, self._longest.get(name, 0.0))
            self._seconds[name] = self._seconds.get(name, 0.0) + spent


def _has_failed(batch: TakenBatch) -> bool:
    """Whether a whole batch failed for reasons other than the agent's performance: the model or the
    judge is unavailable, or worlds and limits left too few episodes. The next batches would pass as
    quickly, and nothing would be learned."""
    return not batch.groups and 0 < sum(batch.dropped.values()) == sum(
        batch.dropped.get(reason, 0) for reason in (*FAILURES, "few")
    )


def episode_metrics(batch: TakenBatch) -> dict[str, MetricValue]:
    """What the trained episodes are like: means and shares; empty where there are none."""
    rollouts = [rollout for group in batch.groups for rollout in group.rollouts]
    if not rollouts:
        return {}
    number, tokens = len(rollouts), sum(rollout.num_tokens for rollout in rollouts)
    malformed = sum(rollout.ending == Ending.FORMAT_ERROR for rollout in rollouts)
    summaries = sum(one.is_summary for rollout in rollouts for one in rollout.samples)
    folds = sum(rollout.folds for rollout in rollouts)
    return {
        **({"summaries": summaries / number} if summaries else {}),
        **({"folds": folds / number} if folds else {}),
        "turns": sum(rollout.num_turns for rollout in rollouts) / number,
        "tokens": tokens / number,
        "truncated": sum(rollout.is_truncated for rollout in rollouts) / number,
        "format_errors": malformed / number,
        "control_tokens": sum(rollout.control_tokens for rollout in rollouts) / max(1, tokens),
    }


def _composition_of(batch: TakenBatch, version: int) -> dict[str, MetricValue]:
    """Metrics of the groups of a batch that is trained on the weights of `version` or newer
    ones."""
    versions = [name for group in batch.groups for name in group.versions]
    numbers = [int(name[1:]) for name in versions if name[1:].isdecimal()]
    too_long = sum(rollout.too_long for group in batch.groups for rollout in group.rollouts)
    return {
        "groups": len(batch.groups),
        "episodes": sum(len(group.rollouts) for group in batch.groups),
        **({"replies_too_long": too_long} if too_long else {}),
        **episode_metrics(batch),
        "staleness_max": version - min(numbers, default=version),
        "groups_dropped": sum(batch.dropped.values()),
        **({"groups_skipped": batch.num_skipped} if batch.pools else {}),
        **{f"tasks/{pool}": count for pool, count in batch.pools.items()},
        **{f"dropped/{reason}": count for reason, count in batch.dropped.items()},
    }

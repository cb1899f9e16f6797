"""The loop: rollouts and training side by side.

    rollouts   `run_session` plays the plan's episodes; each waits until its group is admitted
               (learner.data.admission), and samples with the newest weights that its policy has
               taken
    feed       groups that are whole come over the bus (learner.data.rollout_feed) into the line-up
    training   here, batch by batch: take the groups, update in a thread, while the event loop
               leases the next worlds and plays the next episodes; publish, evaluate, tell, save

Nothing is lost when it is killed, wherever that is. The log has every episode that ended; the last
checkpoint has weights, optimiser and the Place: how many batches were trained, and which group
comes next. Whoever goes on finds the groups behind the Place in the log, and they make the same
batches as before: which groups a batch has follows from the order of the plan alone.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread
import msgspec

from learner.config.settings import TrainSettings
from learner.core.errors import LearnerError
from learner.core.samples import Group
from learner.data.batch_queue import Taken
from learner.data.grouping import FAILED
from learner.loop.metrics import Value
from learner.loop.progress_state import (
    Place,
    Values,
    after_batch,
    since,
    told_by,
    told_of,
    who_waits,
)
from learner.trainer.trainer import StepReport
from learner.trainer.weight_publisher import Publisher

_T = TypeVar("_T")


class Learner(Protocol):
    """Who learns. Called in a thread, one call at a time."""

    def step(self, groups: Sequence[Group]) -> StepReport:
        """Make one batch's updates. Raises TrainingError."""

    def save(self, place: Place, *, keep_all: bool = False) -> None:
        """Write a checkpoint. With `keep_all` no older one is removed for it: where something is
        wrong, they may be what one goes back to. Raises CheckpointError; the one before stays."""


class Source(Protocol):
    """Where batches come from."""

    async def take(self, version: int) -> Taken | None:
        """The groups of the next batch, which is trained on the weights of this version, or newer
        ones; None: there is no more to train on."""


class Around(msgspec.Struct, frozen=True):
    """Who else has to do with a run."""

    tell: Callable[[int, dict[str, Value]], None]  # the figures after so many batches
    evaluate: Callable[[int], Awaitable[Values]] | None = None  # plays what is not learned from
    taken: Callable[[int], None] = lambda version: None  # the policies sample with this version
    held_s: Callable[[], float] = lambda: 0.0  # seconds in which all rollouts waited for weights


class Loop:
    """Trains batch after batch."""

    def __init__(
        self,
        settings: TrainSettings,
        *,
        learner: Learner,
        source: Source,
        publisher: Publisher,
        around: Around,
        place: Place | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`place` is where the run goes on; None: it begins."""
        self.place = place or Place()
        self._settings = settings
        self._learner = learner
        self._source = source
        self._publisher = publisher
        self._around = around
        self._clock = clock
        self._seconds = dict(self.place.seconds)
        self._held_before = self._seconds.get("held", 0.0)
        self._saved = self._stage

    async def begin(self) -> None:
        """Have the policies take the weights with which the run begins or goes on; before any
        rollouts. Raises CheckpointError."""
        version = self._version
        if self.place.batches >= self._settings.steps:
            version = self._last_version
        await self._publisher.begin(version, self.place.batches)
        self._around.taken(self._publisher.version)

    async def run(self) -> Place:
        """Train until the last batch, or until the source has no more; gives where it ended.

        Cancelled it saves where it is, and passes that on. Raises LearnerError.
        """
        steps, every = self._settings.steps, self._settings.save.every
        if self.place.batches >= steps and not self.place.untold:
            return self.place
        try:
            if self.place.batches == 0 or self.place.untold:
                await self._close()
                await self._save()
            while self.place.batches < steps and await self._batch():
                if self.place.batches % every == 0:
                    await self._save()
            await self._finish()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._save()
            raise
        return self.place

    @property
    def _stage(self) -> tuple[int, bool]:
        """What checkpoints are told apart by."""
        return self.place.batches, bool(self.place.untold)

    @property
    def _version(self) -> int:
        """The newest version that was published of the weights so far."""
        return self.place.batches // self._settings.loop.publish_every

    @property
    def _last_version(self) -> int:
        """The version in which all that was trained is published."""
        return -(-self.place.batches // self._settings.loop.publish_every)

    async def _batch(self) -> bool:
        """Train one batch; False: there was none."""
        try:
            taken = await self._timed("waiting", self._source.take(self._version))
        except LearnerError:
            await self._save()
            raise
        if taken is None:
            return False
        values: dict[str, Value] = {**told_of(taken), **_made_of(taken, self._version)}
        report = None
        if taken.groups:
            step = anyio.to_thread.run_sync(self._learner.step, taken.groups)
            report = await self._timed("training", step)
            values |= told_by(report)
        place = after_batch(self.place, taken, report)
        self.place = msgspec.structs.replace(place, untold=values)
        if _is_broken(taken):
            await self._save(keep_all=True)
            reasons = ", ".join(f"{name} {count}" for name, count in taken.set_aside.items())
            raise LearnerError(
                f"batch {self.place.batches}: none of its groups can be used ({reasons}): `rehearse"
                " show` of the rollouts says why; --resume goes on behind it, with the same weights"
                " (to go back to older ones, remove the newest checkpoints)"
            )
        is_last = self.place.batches == self._settings.steps
        if is_last or self.place.batches % self._settings.loop.publish_every == 0:
            await self._publish(self._last_version)
        await self._close()
        return True

    async def _close(self) -> None:
        """Evaluate what the last batch gave, where that is due, and tell its figures; of a run that
        goes on, those of a batch in whose evaluation it was interrupted."""
        is_last = self.place.batches == self._settings.steps
        self._tell(self.place.untold | await self._evaluation(is_last=is_last))
        self.place = msgspec.structs.replace(self.place, untold={})

    async def _finish(self) -> None:
        """Publish, evaluate and save what the last batches gave, if no more came."""
        if self._publisher.version < self._last_version:
            await self._publish(self._last_version)
        if self.place.batches not in self.place.evaluations:
            await self._evaluation(is_last=True)
        await self._save()

    async def _publish(self, version: int) -> None:
        await self._timed("publishing", self._publisher.publish(version, self.place.batches))
        self._around.taken(version)

    async def _evaluation(self, *, is_last: bool = False) -> dict[str, Value]:
        """The figures of an evaluation, where one is due."""
        every, batch = self._settings.loop.evaluate_every, self.place.batches
        if self._around.evaluate is None or not every or (batch % every and not is_last):
            return {}
        found = await self._timed("evaluating", self._around.evaluate(batch))
        evaluations = self.place.evaluations | {batch: found}
        self.place = msgspec.structs.replace(self.place, evaluations=evaluations)
        return {f"evaluation/{name}": value for name, value in found.items()}

    async def _save(self, *, keep_all: bool = False) -> None:
        """Save where the run is, if that is not saved yet; see `Learner.save`."""
        if self._saved == self._stage:
            return
        self._keep_seconds()
        saving = anyio.to_thread.run_sync(
            partial(self._learner.save, self.place, keep_all=keep_all)
        )
        await self._timed("saving", saving)
        self._saved = self._stage
        self._keep_seconds()

    def _tell(self, values: dict[str, Value]) -> None:
        """Tell the figures of a batch, with what its time went into."""
        before = self.place.seconds
        self._keep_seconds()
        spent = since(self.place.seconds, before)
        for name, seconds in spent.items():
            values[f"seconds/{name}"] = seconds
        values["waits"] = who_waits(spent) or None
        self._around.tell(self.place.batches, values)

    def _keep_seconds(self) -> None:
        held = self._held_before + self._around.held_s()
        seconds = self._seconds | ({"held": held} if held else {})
        self.place = msgspec.structs.replace(self.place, seconds=seconds)

    async def _timed(self, name: str, work: Awaitable[_T]) -> _T:
        began = self._clock()
        try:
            return await work
        finally:
            spent = self._clock() - began
            self._seconds[name] = self._seconds.get(name, 0.0) + spent


def _is_broken(taken: Taken) -> bool:
    """Whether a whole batch failed for reasons that are not how well the agent did: its model or
    the judge cannot be had, worlds or limits leave nothing of the episodes. The next batches would
    pass as quickly, with nothing learned."""
    return not taken.groups and 0 < sum(taken.set_aside.values()) == sum(
        taken.set_aside.get(reason, 0) for reason in (*FAILED, "few")
    )


def _made_of(taken: Taken, version: int) -> dict[str, Value]:
    """What a batch is made of, which is trained on the weights of `version` or newer ones."""
    versions = [name for group in taken.groups for name in group.versions]
    numbers = [int(name[1:]) for name in versions if name[1:].isdecimal()]
    return {
        "groups": len(taken.groups),
        "episodes": sum(len(group.rollouts) for group in taken.groups),
        "staleness_max": version - min(numbers, default=version),
        "groups_set_aside": sum(taken.set_aside.values()),
        **{f"set_aside/{reason}": count for reason, count in taken.set_aside.items()},
    }

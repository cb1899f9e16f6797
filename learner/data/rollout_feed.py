"""Live rollouts as a source of batches: from the run's bus into the batch queue.

The feed listens to the session (harness.rollout.session), assembles complete groups
(learner.data.group_feed), reports ended episodes and dropped groups to the gating, and hands out
the batches. When a run is resumed, it first reads the logged groups that no batch has taken.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.continuation.branches import REFUSED
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeEnded,
    EpisodeStarted,
    Judged,
    Label,
    Record,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME, ScenarioSnapshot
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.running import RecordRunEvent
from rehearsal_room.learner.core.samples import Group
from rehearsal_room.learner.data.batch_queue import BatchQueue, SkippedGroup, TakenBatch
from rehearsal_room.learner.data.gating import Gating
from rehearsal_room.learner.data.group_feed import (
    KINDS,
    GroupResult,
    LiveFeed,
    group_results_of_log,
)
from rehearsal_room.learner.data.grouping import FAILURES, DroppedGroup, Grouping
from rehearsal_room.learner.data.task_pools import TaskPools
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher


def group_numbers(plans: Sequence[EpisodePlan]) -> dict[str, int]:
    """The number of each group of a plan, by name, in the plan's order."""
    names = dict.fromkeys(plan.group for plan in plans)
    return {name: number for number, name in enumerate(names)}


class RolloutFeed:
    """Returns the groups of a live run in batches. A listener of the run's session."""

    kinds = KINDS

    def __init__(
        self,
        folder: Path,
        *,
        numbers: Mapping[str, int],
        grouping: Grouping,
        queue: BatchQueue,
        gating: Gating,
        publisher: WeightPublisher,
        staleness: int,
        pools: TaskPools,
    ) -> None:
        """`folder` is the run's folder, `numbers` has its groups' numbers by name."""
        self._folder = folder
        self._numbers = numbers
        self._grouping = grouping
        self._queue = queue
        self._gating = gating
        self._publisher = publisher
        self._staleness = staleness
        self._pools = pools
        self._skipped: set[int] = set()  # groups
        self._first = 0  # the first group that no batch has taken
        self._live = LiveFeed(
            grouping, self._put, where=str(folder), load_trajectory=self._load_trajectory
        )
        self._groups: dict[str, int] = {}  # group numbers of episodes that wait for their verdict
        self._refused: set[str] = set()  # branches that their group's budget did not allow
        self._has_scenarios = False
        self._num_unjudged = 0  # episodes that the log had without a verdict
        self._num_judged = 0  # verdicts received
        self._is_busy = False  # processing records that it has received
        self._is_over = False  # every episode has ended

    def restore(self, first: int) -> None:
        """Read the logged groups from `first` on; to be called before the session starts."""
        self._first = first
        if not (self._folder / LOG_NAME).exists():
            return
        others: set[str] = set()  # taken by earlier batches, or beyond the end of a shortened plan
        with open_reader(self._folder) as reader:
            for row in reader.episodes():
                number = self._numbers.get(row.group, -1)
                if number < first:
                    others.add(row.group)
                if number < 0 or row.ending in (None, Ending.CANCELLED):
                    continue
                is_refused = row.error == REFUSED
                is_about_agent = row.label is not Label.ENVIRONMENT_ERROR and not is_refused
                if row.label is not None and is_about_agent:
                    self._pools.judged(number, completed=row.label is Label.COMPLETED)
                if number < first:
                    self._pools.finish(number)
                if row.judge is None:
                    self._groups[row.episode] = number
                    self._num_unjudged += 1
                    if is_refused:
                        self._refused.add(row.episode)
                elif row.label is not None and number >= first and not is_refused:
                    self._score(number, row.label, row.reward)
        for result in group_results_of_log(
            self._folder, self._grouping, pending=True, without=others
        ):
            self._put(result)

    async def admit(self, plan: EpisodePlan) -> bool | None:
        """Wait until the episode may start. False: no more episodes are needed; None: this group's
        turn is skipped."""
        number = self._numbers[plan.group]
        # A turn that was skipped before a resumed run's first group is missing in its log, too.
        if self._pools.is_active and (number < self._first or await self._is_skipped(number)):
            return None
        return await self._gating.admit(number)

    async def _is_skipped(self, number: int) -> bool:
        """Whether a group's turn is skipped; it waits for the earlier ones of its task, as long as
        episodes are needed."""
        is_played: bool | None = None
        async with anyio.create_task_group() as tasks:

            async def give_up() -> None:
                await self._gating.wait_closed()
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up)
            is_played = await self._pools.is_played(number)
            tasks.cancel_scope.cancel()
        if is_played is not False:
            return False
        if number not in self._skipped:
            self._skipped.add(number)
            self._gating.drop(number)
            self._queue.put(number, SkippedGroup())
        return True

    async def serve(self, subscription: Subscription, report: RecordRunEvent) -> None:
        """Process the session's records, and report published weights to it. Raises SampleError."""
        with self._publisher.reporting_to(report):
            await self._live.serve(_TappedSubscription(subscription, self))

    async def wait_until_done(self) -> None:
        """Keep the session open until the last published weights are in its log."""
        self._is_over = True
        self._close_when_done()
        await self._gating.wait_closed()

    async def take(self, version: int) -> TakenBatch:
        """The next batch, for weights of this version. Raises LearnerError when there are not
        enough groups left."""

        def is_stale(group: Group) -> bool:
            return self._grouping.is_stale(group, current=version, staleness=self._staleness)

        batch = await self._queue.take(is_stale, self._gating.drop)
        self._gating.batch_taken(batch.end)
        if not self._pools.is_active:
            return batch
        pools = {str(pool): count for pool, count in self._pools.counts(batch.end).items()}
        return msgspec.structs.replace(batch, pools=pools)

    async def receive(self, subscription: Subscription) -> Sequence[Record]:
        """The next records, after this feed has processed them."""
        self._is_busy = False
        self._close_when_done()
        records = await subscription.receive()
        self._is_busy = True
        await self._process(records)
        return records

    def _close_when_done(self) -> None:
        """Close the queue when every group that can still arrive has arrived."""
        expected = self._num_unjudged + self._gating.num_admitted
        if self._is_over and not self._is_busy and self._num_judged == expected:
            self._queue.close()

    async def _process(self, records: Sequence[Record]) -> None:
        if not self._has_scenarios:
            self._has_scenarios = True
            # The log stores a scenario before any record of its episodes.
            self._grouping.use_scenarios(await anyio.to_thread.run_sync(_scenarios, self._folder))
        for record in records:
            event = record.event
            if isinstance(event, EpisodeStarted):
                self._groups[record.episode] = self._numbers[event.group]
            elif isinstance(event, EpisodeEnded):
                self._gating.episode_ended()
                if event.error == REFUSED:
                    self._refused.add(record.episode)
            elif isinstance(event, Judged):
                self._num_judged += 1
                number = self._groups.pop(record.episode)
                is_refused = record.episode in self._refused
                self._refused.discard(record.episode)
                if event.label is not None and not is_refused:
                    if event.label is not Label.ENVIRONMENT_ERROR:
                        self._pools.judged(number, completed=event.label is Label.COMPLETED)
                    self._score(number, event.label, event.reward)

    def _score(self, number: int, label: Label, reward: float | None) -> None:
        if label is Label.ENVIRONMENT_ERROR:  # it says nothing about the agent
            return
        completed = label is Label.COMPLETED
        self._queue.score(number, completed=completed, reward=reward or 0.0)

    def _put(self, result: GroupResult) -> None:
        number = self._numbers[result.group]
        self._pools.finish(number)
        # If the model or the judge is unavailable, a replacement group would fail as quickly. It
        # starts only when a batch has skipped this one, or one update could use up the whole plan.
        if isinstance(result, DroppedGroup) and result.reason not in FAILURES:
            self._gating.drop(number)
        self._queue.put(number, result)

    def _load_trajectory(self, episode: str) -> Trajectory:
        with open_reader(self._folder) as reader:
            return reader.trajectory(episode)


class _TappedSubscription:
    """A subscription whose records pass through the feed first."""

    def __init__(self, subscription: Subscription, feed: RolloutFeed) -> None:
        self._subscription = subscription
        self._feed = feed

    async def receive(self) -> Sequence[Record]:
        return await self._feed.receive(self._subscription)


def _scenarios(folder: Path) -> dict[str, ScenarioSnapshot]:
    with open_reader(folder) as reader:
        return reader.scenarios()

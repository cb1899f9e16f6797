"""Rollouts that run now, as a source of batches: from the run's bus into the line-up.

It listens to the session (harness.rollout.session), puts whole groups together
(learner.data.group_feed), tells the
admission what has ended and what was set aside, and gives the batches. Of a run that goes on it
first reads what the log has of groups that no batch has taken.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from harness.bus.local import Subscription
from harness.core.events import Ending, EpisodeEnded, EpisodeStarted, Judged, Label, Record
from harness.core.trajectory import Trajectory
from harness.log.reader import open_reader
from harness.log.schema import LOG_NAME, ScenarioSnapshot
from harness.rollout.plan import EpisodePlan
from harness.rollout.session import Tell
from learner.core.samples import Group
from learner.data.admission import Admission
from learner.data.batch_queue import Lineup, Taken
from learner.data.group_feed import KINDS, LiveFeed, Outcome, outcomes_of_log
from learner.data.grouping import FAILED, Grouping, SetAside
from learner.trainer.weight_publisher import Publisher


def numbers_of(plans: Sequence[EpisodePlan]) -> dict[str, int]:
    """The groups of a plan by name, numbered in its order."""
    names = dict.fromkeys(plan.group for plan in plans)
    return {name: number for number, name in enumerate(names)}


class RolloutFeed:
    """Gives the groups of a run while it goes on. A listener of its session."""

    kinds = KINDS

    def __init__(
        self,
        folder: Path,
        *,
        numbers: Mapping[str, int],
        grouping: Grouping,
        lineup: Lineup,
        admission: Admission,
        publisher: Publisher,
        staleness: int,
    ) -> None:
        """`folder` is the run's, `numbers` has its groups by name."""
        self._folder = folder
        self._numbers = numbers
        self._grouping = grouping
        self._lineup = lineup
        self._admission = admission
        self._publisher = publisher
        self._staleness = staleness
        self._live = LiveFeed(grouping, self._give, where=str(folder), recall=self._recall)
        self._groups: dict[str, int] = {}  # of episodes that wait for their verdict
        self._knows_worlds = False
        self._num_left = 0  # episodes that the log had without a verdict
        self._num_judged = 0  # heard of
        self._is_busy = False  # with records that it has received
        self._is_over = False  # every episode is finished

    def restore(self, first: int) -> None:
        """Read what the log has of the groups from `first` on; before the session begins."""
        if not (self._folder / LOG_NAME).exists():
            return
        others: set[str] = set()  # in batches already, or behind the end of a plan cut shorter
        with open_reader(self._folder) as reader:
            for row in reader.episodes():
                number = self._numbers.get(row.group, -1)
                if number < first:
                    others.add(row.group)
                if number < 0 or row.ending in (None, Ending.CANCELLED):
                    continue
                if row.judge is None:
                    self._groups[row.episode] = number
                    self._num_left += 1
                elif row.label is not None and number >= first:
                    self._score(number, row.label, row.reward)
        for outcome in outcomes_of_log(self._folder, self._grouping, pending=True, without=others):
            self._give(outcome)

    async def admit(self, plan: EpisodePlan) -> bool:
        """Wait until the episode may begin. False: it is not wanted any more."""
        return await self._admission.admit(self._numbers[plan.group])

    async def serve(self, subscription: Subscription, tell: Tell) -> None:
        """Hear the session. Raises SampleError."""
        with self._publisher.told_to(tell):
            await self._live.serve(_Overheard(subscription, self))

    async def over(self) -> None:
        """Keep the session open until the last weights are told of."""
        self._is_over = True
        self._settle()
        await self._admission.wait_closed()

    async def take(self, version: int) -> Taken:
        """The next batch. Raises LearnerError when there cannot be one."""

        def is_stale(group: Group) -> bool:
            return self._grouping.is_stale(group, present=version, staleness=self._staleness)

        taken = await self._lineup.take(is_stale, self._admission.set_aside)
        self._admission.took(taken.end)
        return taken

    async def receive(self, subscription: Subscription) -> Sequence[Record]:
        """The next records, after noting what they say."""
        self._is_busy = False
        self._settle()
        records = await subscription.receive()
        self._is_busy = True
        await self._hear(records)
        return records

    def _settle(self) -> None:
        """When all that can come has become groups, say so to whoever waits for more."""
        expected = self._num_left + self._admission.num_admitted
        if self._is_over and not self._is_busy and self._num_judged == expected:
            self._lineup.close()

    async def _hear(self, records: Sequence[Record]) -> None:
        if not self._knows_worlds:
            self._knows_worlds = True
            # The log has the worlds before any record of their episodes.
            self._grouping.know(await anyio.to_thread.run_sync(_worlds, self._folder))
        for record in records:
            event = record.event
            if isinstance(event, EpisodeStarted):
                self._groups[record.episode] = self._numbers[event.group]
            elif isinstance(event, EpisodeEnded):
                self._admission.ended()
            elif isinstance(event, Judged):
                self._num_judged += 1
                number = self._groups.pop(record.episode)
                if event.label is not None:
                    self._score(number, event.label, event.reward)

    def _score(self, number: int, label: Label, reward: float | None) -> None:
        completed = label is Label.COMPLETED
        self._lineup.score(number, completed=completed, reward=reward or 0.0)

    def _give(self, outcome: Outcome) -> None:
        number = self._numbers[outcome.group]
        # Where the model or the judge cannot be had, another group would fail as quickly: it begins
        # only when a batch has passed this one over, or one update could use up the whole plan.
        if isinstance(outcome, SetAside) and outcome.reason not in FAILED:
            self._admission.set_aside(number)
        self._lineup.put(number, outcome)

    def _recall(self, episode: str) -> Trajectory:
        with open_reader(self._folder) as reader:
            return reader.trajectory(episode)


class _Overheard:
    """A subscription of which the feed hears each batch first."""

    def __init__(self, subscription: Subscription, feed: RolloutFeed) -> None:
        self._subscription = subscription
        self._feed = feed

    async def receive(self) -> Sequence[Record]:
        return await self._feed.receive(self._subscription)


def _worlds(folder: Path) -> dict[str, ScenarioSnapshot]:
    with open_reader(folder) as reader:
        return reader.scenarios()

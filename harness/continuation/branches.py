"""Groups whose episodes branch: the first members begin at the start, the others after some turns
of one of these, in the state that the turns left.

A branch is an ordinary episode of the run: its log has the turns that it keeps, and of which member
they are (`EpisodeStarted.forked_from`, without a run). It waits, without a slot, for the members on
which the choice of its state depends. The world is brought into the state as that of
a fork is (harness.continuation.beginning); where that fails, and where no member before it has a
turn to branch at, the episode begins at the start like the others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from rehearsal_room.harness.bus.local import Subscription
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.branch_points import (
    Choice,
    Root,
    first_points,
    points_by_spread,
)
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import (
    Ending,
    EpisodeStarted,
    EventKind,
    ForkedFrom,
    HistorySummarized,
    Judged,
    Record,
)
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.core.token_bytes import ID_BYTES, decode_logprobs
from rehearsal_room.harness.core.trajectory import Assembly, Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.settings.branch import BranchSettings

_KINDS: tuple[EventKind, ...] = ("started", "step", "summary", "ended", "judged")
REFUSED = "the group's budget of sampled tokens is used up (branch_tokens)"


class _Member(NamedTuple):
    group: str
    number: int


class Branches:
    """How the episodes of a run's groups begin. A listener of the run's session."""

    kinds = _KINDS

    def __init__(self, settings: BranchSettings, folder: Path, *, group_size: int) -> None:
        """`folder` is the run's, whose log has the members of groups that a resumed run began."""
        self._settings = settings
        self._folder = folder
        self._group_size = group_size
        self._logged: dict[_Member, str] = {}  # names of episodes that are not played again
        self._live: dict[str, Assembly] = {}
        self._ended: dict[_Member, Trajectory] = {}
        self._num_begun: dict[str, int] = {}  # branches, by group
        self._changed = anyio.Event()

    def is_branch(self, member: int) -> bool:
        """Whether this member of a group branches."""
        return member >= self._settings.roots

    def expect(self, missing: Sequence[str]) -> None:
        """Take all episodes but these, which will be played, from the log. Raises LogError."""
        self._logged = {}
        if not (self._folder / LOG_NAME).exists():
            return
        played = set(missing)
        with open_reader(self._folder) as reader:
            for row in reader.episodes():
                if row.episode not in played:
                    self._logged[_Member(row.group, row.member)] = row.episode

    async def beginning(self, group: str, member: int) -> Beginning | None:
        """How a branch begins, when the members before it have ended; None: at the start. Raises
        LogError, and SettingsError where the replies lack what the choice goes by."""
        settings = self._settings
        state, _ = divmod(member - settings.roots, settings.width)
        is_by_spread = settings.by == "spread"
        needed = settings.roots + (state * settings.width if is_by_spread else 0)
        members = [await self._member(_Member(group, number)) for number in range(needed)]
        roots = members[: settings.roots]
        choice = self._choice(roots, members[settings.roots :], state)
        self._forget(group)
        if choice.is_refused:
            return Beginning((), roots[0].started.start_digest, refused=REFUSED)
        root, turn = choice.point
        return _after(roots[root], turn) if turn else None

    async def serve(self, subscription: Subscription, record: object) -> None:
        """Collect the episodes until the bus is closed."""
        while True:
            try:
                records = await subscription.receive()
            except anyio.EndOfStream:
                return
            for one in records:
                self._add(one)
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    async def wait_until_done(self) -> None:
        """It has nothing to finish."""

    def _add(self, record: Record) -> None:
        event = record.event
        if isinstance(event, EpisodeStarted):
            if self._needs_verdict or not self.is_branch(event.member):
                self._live[record.episode] = Assembly(record)
            return
        assembly = self._live.get(record.episode)
        if assembly is None or assembly.attempt != record.attempt:
            return
        assembly.add(record)
        if assembly.ended is None or (self._needs_verdict and not isinstance(event, Judged)):
            return
        del self._live[record.episode]
        trajectory = assembly.trajectory()
        started = trajectory.started
        if trajectory.ended and trajectory.ended.ending is not Ending.CANCELLED:
            self._ended[_Member(started.group, started.member)] = trajectory

    @property
    def _needs_verdict(self) -> bool:
        return self._settings.by == "spread"

    async def _member(self, member: _Member) -> Trajectory:
        """An earlier member of the group, when it has ended."""
        while member not in self._ended:
            changed = self._changed  # what is logged from now on wakes this task
            if (name := self._logged.get(member)) is not None:
                read = await anyio.to_thread.run_sync(self._read, name)
                if read.judged or not self._needs_verdict:
                    self._ended[member] = read
                    break
            await changed.wait()
        return self._ended[member]

    def _read(self, episode: str) -> Trajectory:
        with open_reader(self._folder) as reader:
            return reader.trajectory(episode)

    def _choice(
        self, members: Sequence[Trajectory], branches: Sequence[Trajectory], state: int
    ) -> Choice:
        settings = self._settings
        roots = [self._root(one) for one in members]
        if settings.by != "spread":
            states = (self._group_size - settings.roots) // settings.width
            return first_points(roots, settings, states)[state]
        rewards = [_reward(one) for one in branches]
        width = settings.width
        by_state = [rewards[first : first + width] for first in range(0, len(rewards), width)]
        return points_by_spread(roots, by_state, settings)[-1]

    def _root(self, trajectory: Trajectory) -> Root:
        assert trajectory.ended is not None
        if trajectory.ended.ending.lacks_reply or not trajectory.started.start_digest:
            return Root((), ())
        replies = [step.reply for step in trajectory.steps]
        surprise = [0.0] * len(replies)
        if self._settings.by == "entropy":
            if replies and not any(reply.logprobs for reply in replies):
                raise SettingsError(
                    "branch_by: 'entropy' goes by the log-probabilities of the replies, and those "
                    f"of policy {trajectory.started.policy} have none; choose 'even'"
                )
            surprise = [-sum(decode_logprobs(reply.logprobs)) for reply in replies]
        tokens = list(map(_num_sampled, replies))
        for summary in trajectory.summaries:
            if summary.turn < len(tokens):
                tokens[summary.turn] += _num_sampled(summary.reply)
        if self._settings.tokens and replies and not any(tokens):
            raise SettingsError(
                "branch_tokens: the replies of policy "
                f"{trajectory.started.policy} do not say how many tokens were sampled"
            )
        return Root(tokens, surprise, _reward(trajectory))

    def _forget(self, group: str) -> None:
        """Drop the episodes of a group whose last branch has begun."""
        self._num_begun[group] = begun = self._num_begun.get(group, 0) + 1
        if begun < self._group_size - self._settings.roots:
            return
        del self._num_begun[group]
        for member in [one for one in self._ended if one.group == group]:
            del self._ended[member]


def _num_sampled(reply: Reply) -> int:
    return len(reply.token_ids) // ID_BYTES or reply.usage.completion_tokens


def _reward(trajectory: Trajectory) -> float:
    """The reward of an episode as far as it is known; 0 where it ended without an answer."""
    rewards = [one.reward for one in trajectory.judged if one.reward is not None]
    is_answered = trajectory.ended is not None and trajectory.ended.ending is Ending.ANSWERED
    return rewards[-1] if rewards and is_answered else 0.0


def _after(source: Trajectory, turn: int) -> Beginning:
    """A beginning with the first turns of an episode of the group."""
    replies = source.replies()
    summaries = sum(isinstance(one, HistorySummarized) and one.turn < turn for one in replies)
    kept = tuple(
        one for one in replies if not isinstance(one, HistorySummarized) or one.turn < turn
    )
    forked_from = ForkedFrom("", source.episode, turn)
    started = source.started
    return Beginning(
        kept[: turn + summaries],
        started.start_digest,
        forked_from,
        origin=started.origin,
        rules=started.rules,
    )

"""Which process has which episode, and what is left of the plan. No I/O, no clock.

Invariant: an episode of the plan is waiting, assigned to one process, or finished. An episode whose
process died waits again: as the next attempt where records of this attempt came, only to be judged
where it had ended. It goes before episodes that nobody has begun.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from rehearsal_room.harness.fleet.messages import EpisodeAssignment
from rehearsal_room.harness.log.schema import EncodedRecord
from rehearsal_room.harness.rollout.plan import EpisodePlan


class UnjudgedEpisode(msgspec.Struct, frozen=True):
    """An episode in the log that has ended and has no verdict."""

    episode: str
    attempt: int
    next_seq: int  # sequence number of its next record


class _Assigned(msgspec.Struct):
    """An episode that a process has."""

    worker: int
    index: int
    attempt: int
    next_seq: int = 0  # 0: no record of this attempt came yet
    has_ended: bool = False


class AssignmentBook:
    """Keeps the assignments of one run. `judged`: the processes judge, so an episode is finished
    with its verdict; else with its end."""

    def __init__(
        self,
        plans: Sequence[EpisodePlan],
        missing: Sequence[EpisodePlan],
        unjudged: Sequence[UnjudgedEpisode],
        *,
        judged: bool,
    ) -> None:
        self._plans = plans
        self._judged = judged
        attempts = ((plan.episode, plan.attempt, None) for plan in missing)
        verdicts = [(one.episode, one.attempt, one.next_seq) for one in unjudged if judged]
        self._new = _indexed(plans, attempts)
        self._again = deque(_indexed(plans, verdicts))
        self._assigned: dict[str, _Assigned] = {}
        self._num_live: Counter[int] = Counter()  # worker -> episodes that have not ended
        self._num_assigned: Counter[int] = Counter()  # worker -> episodes that are not finished
        self.num_left = len(missing) + len(verdicts)  # not finished
        self.num_finished = 0  # since the book was opened

    def take(self, worker: int, num: int) -> list[EpisodeAssignment]:
        """Assign up to `num` waiting episodes to a process."""
        assignments = [self._again.popleft() for _ in range(min(num, len(self._again)))]
        assignments += islice(self._new, max(0, num - len(assignments)))
        for assignment in assignments:
            ended, seq = assignment.judge_from is not None, assignment.judge_from or 0
            episode = self._plans[assignment.index].episode
            self._assigned[episode] = _Assigned(
                worker, assignment.index, assignment.attempt, seq, ended
            )
            self._num_live[worker] += not ended
            self._num_assigned[worker] += 1
        return assignments

    def count_leased(self, worker: int) -> int:
        """Episodes that a process has and that have not ended."""
        return self._num_live[worker]

    @property
    def num_waiting(self) -> int:
        """Episodes that no process has."""
        return self.num_left - len(self._assigned)

    def has_work(self, worker: int) -> bool:
        """Whether a process has episodes to play or to judge."""
        return self._num_assigned[worker] > 0

    def note(self, records: Iterable[EncodedRecord]) -> None:
        """Take notice of records that go into the log."""
        for episode, _, seq, kind, *_ in records:
            if kind == "fault":  # it belongs to no episode
                continue
            assigned = self._assigned[episode]
            assigned.next_seq = seq + 1
            if kind == "ended":
                assigned.has_ended = True
                self._num_live[assigned.worker] -= 1
            if kind == ("judged" if self._judged else "ended"):
                del self._assigned[episode]
                self._num_assigned[assigned.worker] -= 1
                self.num_left -= 1
                self.num_finished += 1

    def lose(self, worker: int) -> int:
        """A process died: let what it had wait again. Returns the number of episodes."""
        lost = [(name, each) for name, each in self._assigned.items() if each.worker == worker]
        del self._num_live[worker], self._num_assigned[worker]
        for episode, each in reversed(lost):
            del self._assigned[episode]
            if each.has_ended:
                again = EpisodeAssignment(each.index, each.attempt, each.next_seq)
            else:
                again = EpisodeAssignment(each.index, each.attempt + (each.next_seq > 0))
            self._again.appendleft(again)
        return len(lost)


def _indexed(
    plans: Sequence[EpisodePlan], wanted: Iterable[tuple[str, int, int | None]]
) -> Iterator[EpisodeAssignment]:
    """The assignments of episodes that are in the order of the plan."""
    indexed = enumerate(plans)
    for episode, attempt, judge_from in wanted:
        index = next(index for index, plan in indexed if plan.episode == episode)
        yield EpisodeAssignment(index, attempt, judge_from)

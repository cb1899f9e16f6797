"""What an episode says about its agent: the one rule of every rate.

    completed                                              1
    any other label of the agent                           0
    its own program failed (ending `agent_failed`)         0, whatever a judge says of it
    the world failed (label `environment_error`)           nothing
    no label: the model could not answer, the run was
    cancelled, the judge could not judge, nobody judged    nothing

The share of an episode's task says the same in parts: it is the verdict's, and 1 or 0 as above
where the task is all or nothing.

An episode that says nothing has no verdict. It is left out of the rate, and counts in the rate's
bounds: once as failed and once as completed. So a rate can be believed as far as its bounds are
near each other, and above MOST_WITHOUT_VERDICT nothing is decided on it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.log.schema import EpisodeRow

MOST_WITHOUT_VERDICT = 0.02  # the largest share of episodes that leaves a decision to the others
# The same rule in SQL, over columns `ending` and `label`.
SCORE_SQL = (
    "CASE WHEN label = 'environment_error' THEN NULL WHEN ending = 'agent_failed' THEN 0"
    " WHEN label IS NOT NULL THEN label = 'completed' END"
)

# The same of the share of the task, over a column `share` beside them.
SHARE_SQL = (
    f"CASE WHEN share IS NULL OR ending = 'agent_failed' OR ({SCORE_SQL}) IS NULL"
    f" THEN ({SCORE_SQL}) ELSE share END"
)


def score_of(ending: Ending | None, label: str | None) -> float | None:
    """The score of an episode that is over; None: it has no verdict.

    Example: answered, "completed" -> 1.0; step_limit, "partially_completed" -> 0.0; agent_failed,
    None -> 0.0; answered, "environment_error" -> None; policy_error, None -> None
    """
    if label == Label.ENVIRONMENT_ERROR:
        return None
    if ending is Ending.AGENT_FAILED:
        return 0.0
    return None if label is None else float(label == Label.COMPLETED)


def share_of(ending: Ending | None, label: str | None, share: float | None) -> float | None:
    """How much of its task an episode that is over did, 0 to 1; None: it has no verdict. `share`
    is the verdict's; None: the task is all or nothing.

    Example: answered, "partially_completed", 0.5 -> 0.5; answered, "completed", None -> 1.0
    """
    score = score_of(ending, label)
    if score is None or share is None or ending is Ending.AGENT_FAILED:
        return score
    return share


class Tally(msgspec.Struct, frozen=True):
    """A count of episodes that are over."""

    episodes: int
    scored: int  # with a verdict
    completed: int

    @property
    def rate(self) -> float | None:
        """The share of completed among those with a verdict; None: none has one."""
        return self.completed / self.scored if self.scored else None

    @property
    def without(self) -> int:
        """How many have no verdict."""
        return self.episodes - self.scored

    @property
    def bounds(self) -> tuple[float, float]:
        """What the share of all episodes can be, whatever those without a verdict had been."""
        if not self.episodes:
            return 0.0, 1.0
        return self.completed / self.episodes, (self.completed + self.without) / self.episodes


def tally(rows: Iterable[EpisodeRow]) -> Tally:
    """The count of the episodes that are over and have a score."""
    over = (row for row in rows if row.ending is not None and row.has_score)
    scores = [score_of(row.ending, row.label) for row in over]
    known = [score for score in scores if score is not None]
    return Tally(len(scores), len(known), int(sum(known)))


def tally_of_labels(labels: Mapping[str, int], episodes: int) -> Tally:
    """The same from the counts of labels alone, where rows are not at hand: each own program that
    failed must have its label."""
    scored = sum(labels.values()) - labels.get(Label.ENVIRONMENT_ERROR, 0)
    return Tally(max(episodes, scored), scored, labels.get(Label.COMPLETED, 0))

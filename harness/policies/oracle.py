"""The oracle: solves each task as its author would."""

from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import (
    FixedRepliesAgent,
    num_moves_in,
    solution_replies,
)


class OraclePolicy:
    """Makes the task's oracle calls, one a turn, says what it says, and gives its answer."""

    name = "oracle"

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._replies: dict[tuple[str, str], tuple[Reply, ...]] = {}  # shared by a task's episodes

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays the task's oracle."""
        task = assignment.task
        key = (assignment.scenario.digest, task.id)
        replies = self._replies.get(key)
        if replies is None:
            replies = self._replies[key] = solution_replies(
                self._dialect, task, task.oracle, task.answer, task.utterances
            )
        return FixedRepliesAgent(replies, num_moves_in(assignment))

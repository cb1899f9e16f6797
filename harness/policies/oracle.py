"""The oracle: solves each task as its author would."""

from harness.core.messages import Reply
from harness.dialects.base import Dialect
from harness.policies.base import Agent, Assignment
from harness.policies.fixed_replies import FixedRepliesAgent, num_calls_in, replies_of


class OraclePolicy:
    """Makes the task's oracle calls, one a turn, and gives its answer."""

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
            replies = self._replies[key] = replies_of(self._dialect, task.oracle, task.answer)
        return FixedRepliesAgent(replies, num_calls_in(assignment.kept))

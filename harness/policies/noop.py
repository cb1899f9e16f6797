"""The policy that does nothing. A task that it completes does not need an agent."""

from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FixedRepliesAgent


class NoopPolicy:
    """Ends each episode at once, with an empty answer."""

    name = "noop"

    def __init__(self, dialect: Dialect) -> None:
        self._replies = (dialect.write((), "", turn=0),)

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that ends at once."""
        return FixedRepliesAgent(self._replies)

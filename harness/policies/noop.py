"""The policy that does nothing: what it completes needs no agent."""

from harness.dialects.base import Dialect
from harness.policies.base import Agent, Assignment
from harness.policies.known_calls import Player


class NoopPolicy:
    """Ends at once and says nothing."""

    name = "noop"

    def __init__(self, dialect: Dialect) -> None:
        self._replies = (dialect.write((), "", turn=0),)

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that ends at once."""
        return Player(self._replies)

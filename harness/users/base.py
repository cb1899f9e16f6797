"""The Protocol of a user: the person with whom the agent talks in a dialogue.

In a dialogue a reply of the agent without a call is said to the user and ends nothing. The user
answers, and may act in the world before that, with tools of its own. The talk ends when the user
ends it, or at the step limit.

A user is a function of what it hears and of what its own calls return. So an episode that goes on
after an interruption, and a fork, make their user again: `keep` repeats the logged turns to it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.messages import UserAct, UserTurn
from rehearsal_room.scenarios.format import Scenario, Task


class UserWorld(Protocol):
    """The world as the user acts in it."""

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a call of the user's own and log it. Raises WorldError."""

    def is_over(self, acts: Sequence[UserAct]) -> bool:
        """Whether a limit of the whole talk is reached after these messages with calls: then the
        user says no more."""


class EpisodeUser(Protocol):
    """The user of one episode."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """Tools of the world that the agent does not have at the start: those that are withheld
        from it, and the user's own."""

    def keep(self, text: str, turn: UserTurn) -> None:
        """Hear what the agent said in a turn that is in the log already, and what followed."""

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """What the user says to the agent's words; `calls` and `results` stay empty: `world`
        has recorded them. Raises WorldError where the user cannot answer: that is not the agent's
        fault."""


class UserSource(Protocol):
    """What makes the users of a run."""

    def user(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec], *, seed: int
    ) -> EpisodeUser | None:
        """The user of an episode; None: its task is not a dialogue. `tools` are all of the
        world's."""

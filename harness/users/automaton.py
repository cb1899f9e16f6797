"""The user of a task that describes it as an automaton (see scenarios.core.automaton)."""

from rehearsal_room.harness.core.messages import UserTurn
from rehearsal_room.harness.users.base import UserWorld
from rehearsal_room.scenarios.core.automaton import START, answer_to
from rehearsal_room.scenarios.core.dialogue import UserAutomaton


class AutomatonUser:
    """Answers what it is asked. What it says depends on the agent's words alone."""

    hidden: tuple[str, ...] = ()

    def __init__(self, user: UserAutomaton) -> None:
        self._user = user
        self._state = START

    def __repr__(self) -> str:
        return f"<AutomatonUser [{len(self._state.used)} of {len(self._user.lines)} lines]>"

    def keep(self, text: str, turn: UserTurn) -> None:
        """Go on after a turn that is logged already."""
        self._state, _ = answer_to(self._user, self._state, text)

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Make the calls of the lines that are due, and return them."""
        self._state, heard = answer_to(self._user, self._state, text)
        for call in heard.calls:
            await world.call(call.name, call.arguments)
        return UserTurn(heard.text, heard.ended)

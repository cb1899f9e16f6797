"""Users whose turns the task itself contains."""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import UserTurn
from rehearsal_room.harness.users.automaton import AutomatonUser
from rehearsal_room.harness.users.base import EpisodeUser, UserWorld
from rehearsal_room.scenarios.core.dialogue import ModelUser, UserAutomaton, UserScript
from rehearsal_room.scenarios.format import Scenario, Task


class ScriptedUser:
    """Says the texts of a script, one for each reply of the agent, and then ends the talk."""

    def __init__(self, script: UserScript, tools: Sequence[ToolSpec]) -> None:
        self._turns = script.turns
        self._specs = {tool.name: tool for tool in tools}
        self._num_turns = 0
        self.hidden = script.withheld

    def __repr__(self) -> str:
        return f"<ScriptedUser [{self._num_turns} of {len(self._turns)} turns said]>"

    def keep(self, text: str, turn: UserTurn) -> None:
        """Go on after a turn that is logged already."""
        self._num_turns += 1

    async def reply(self, text: str, world: UserWorld) -> UserTurn:
        """Make the calls of the next turn and return its text, with the tools that the agent gets
        with it."""
        if self._num_turns == len(self._turns):
            return UserTurn("", ended=True)
        turn = self._turns[self._num_turns]
        self._num_turns += 1
        for call in turn.calls:
            await world.call(call.name, call.arguments)
        return UserTurn(turn.text, tools=tuple([self._specs[name] for name in turn.tools]))


class TaskUsers:
    """Makes the users that tasks describe without a model (harness.users.base.UserSource).

    Where a task's user is a model's part, its turns of the reference solution are played
    (`plays_solutions`), or it answers the opening, if there is one, and then ends the talk.
    """

    def __init__(self, *, plays_solutions: bool = True) -> None:
        self._plays_solutions = plays_solutions

    def user(
        self, scenario: Scenario, task: Task, tools: Sequence[ToolSpec], *, seed: int
    ) -> EpisodeUser | None:
        """The user that the task describes; None: it is not a dialogue."""
        match task.user:
            case UserScript() as script:
                return ScriptedUser(script, tools)
            case UserAutomaton() as automaton:
                return AutomatonUser(automaton)
            case ModelUser() as user:
                num_turns = None if self._plays_solutions else int(bool(user.opening))
                turns = user.solution[:num_turns]
                return ScriptedUser(UserScript(turns, withheld=user.tools), tools)
        return None

"""`rehearse`, whose requests, the user's too, name their scenario in the field `user`; it plays no
floor.

Many scenarios begin with the same messages, so these alone do not tell the fake models which one
they play. They take the field off before bodies are compared.
"""

import sys

import msgspec

from rehearsal_room.cli.main import main
from rehearsal_room.cli.play import suites
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.policies.openai import OpenAIPolicy
from rehearsal_room.harness.users.simulated import SimulatedUsers, UserWithTool
from rehearsal_room.judge.suites.scores import SuiteScores
from rehearsal_room.scenarios.format import Scenario, Task
from tests.suites.parity.marked_eval import _marked

_user = SimulatedUsers.user


class _MarkedModel:
    def __init__(self, model: OpenAIPolicy, entry: str) -> None:
        self._model, self._entry = model, entry

    async def reply_to(self, window: Window, seed: int | None) -> Reply:
        marked = msgspec.structs.replace(window, fields={"user": self._entry})
        return await self._model.reply_to(marked, seed)


def _marked_user(
    users: SimulatedUsers, scenario: Scenario, task: Task, tools: list[ToolSpec], *, seed: int
) -> object:
    made = _user(users, scenario, task, tools, seed=seed)
    if isinstance(made, UserWithTool):
        made._model = _MarkedModel(made._model, scenario.name)  # type: ignore[assignment]
    return made


if __name__ == "__main__":
    OpenAIPolicy.agent = _marked  # type: ignore[assignment, method-assign]
    SimulatedUsers.user = _marked_user  # type: ignore[assignment, method-assign]
    suites._bound = lambda *given: SuiteScores(scores={}, overall=None)
    sys.exit(main())

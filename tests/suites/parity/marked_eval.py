"""`rehearse`, whose requests name their entry in the field `user`; it plays neither the floor nor
the ceiling of a score.

Many entries of AgentDojo begin with the same messages, so the messages alone do not tell the fake
model which one it plays. It takes the field off before bodies are compared.
"""

import sys

import msgspec

from rehearsal_room.cli.main import main
from rehearsal_room.cli.play import suites
from rehearsal_room.harness.core.messages import Reply, Window
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.openai import OpenAIPolicy
from rehearsal_room.judge.suites.scores import SuiteScores

_agent = OpenAIPolicy.agent


class _Marked:
    def __init__(self, agent: Agent, entry: str) -> None:
        self._agent, self._entry = agent, entry

    async def reply(self, window: Window) -> Reply:
        return await self._agent.reply(
            msgspec.structs.replace(window, fields={"user": self._entry})
        )


def _marked(policy: OpenAIPolicy, assignment: Assignment) -> _Marked:
    return _Marked(_agent(policy, assignment), assignment.scenario.name)


if __name__ == "__main__":
    OpenAIPolicy.agent = _marked  # type: ignore[assignment, method-assign]
    suites._bound = lambda *given: SuiteScores(scores={}, overall=None)
    sys.exit(main())

"""The tool `talk_to_user`, with which a client of a server talks with the user of a dialogue.

Only a world that a server leased for a dialogue whose user is an automaton has the tool. The talk
is not in the world's state: a fork goes on with it, and a reset begins it again.
"""

from typing import Any

from rehearsal_room.envpool.core.types import Env, ToolResult, ToolSpec
from rehearsal_room.scenarios.core.automaton import START, TalkState, answer_to
from rehearsal_room.scenarios.core.dialogue import UserAutomaton
from rehearsal_room.scenarios.format import Task

TALK = ToolSpec(
    "talk_to_user",
    "Say something to the user whose request you work on; returns what the user answers. Ask for "
    "what only the user knows, and tell the user at the end what you did.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "what you say"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
ENDED = "(The user has ended the talk.)"


def is_served(task: Task) -> bool:
    """Whether a client of a server can play the task: it has no user, or one who is an automaton.
    A server has neither the prepared turns of a UserScript nor the model of a ModelUser."""
    return task.user is None or isinstance(task.user, UserAutomaton)


class LeasedTalk:
    """The talk of one leased world with its user."""

    def __init__(self, user: UserAutomaton, state: TalkState = START) -> None:
        self._user = user
        self._state = state

    def __repr__(self) -> str:
        return f"<LeasedTalk [{len(self._state.used)} of {len(self._user.lines)} lines]>"

    def fork(self) -> "LeasedTalk":
        """A second talk that goes on from here."""
        return LeasedTalk(self._user, self._state)

    def reset(self) -> None:
        """Begin again."""
        self._state = START

    async def say(self, env: Env, arguments: Any, call_id: str) -> ToolResult:
        """Say something to the user, who may act in the world before it answers; the result has
        what that changed. Raises WorldError."""
        text = arguments.get("text") if isinstance(arguments, dict) else None
        if not isinstance(text, str) or len(arguments) != 1:
            return ToolResult("talk_to_user takes one argument, text: what you say.", "arguments")
        if self._state.ended:
            return ToolResult(ENDED, "refused")
        self._state, heard = answer_to(self._user, self._state, text)
        made = [
            await env.call(call.name, call.arguments, f"{call_id}-{number}")
            for number, call in enumerate(heard.calls)
        ]
        return ToolResult(
            f"{heard.text}\n{ENDED}" if heard.ended else heard.text,
            changes=tuple([change for result in made for change in result.changes]),
            digest=made[-1].digest if made else "",
        )

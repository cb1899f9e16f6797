"""What an MCP server asks its client while it carries out a call, and who answers it.

A server may ask for data of the user (elicitation) or for a text of the client's model (sampling).
The layer that plays the episode answers, by a function that it hands down; replay hands down the
logged answers. Every request and its answer is in the call's result (`ToolResult.asked`), so the
log has them. Without such a function, and with `--mcp-ask refuse`, the server gets a sentence.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from rehearsal_room.envpool.core.types import ServerRequest

AskMode = Literal["refuse", "user", "model"]
ELICITATION, SAMPLING = "elicitation/create", "sampling/createMessage"
REFUSED = (
    "This client answers no requests of a server ({method}): go on without an answer, or fail."
)

_encode = msgspec.json.Encoder(order="deterministic").encode


class NotAnswered(Exception):
    """Nobody answers a request; the message is the sentence that the server gets."""


# Of the method and the parameters of a request, as JSON; returns the result that MCP defines for
# the method, as JSON. Raises NotAnswered.
Answerer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@runtime_checkable
class AsksBack(Protocol):
    """A leased world, or a connection, whose servers may ask something during a call."""

    @property
    def asks(self) -> AskMode:
        """Who is to answer."""

    def answer_with(self, answerer: Answerer) -> None:
        """Let this function answer from now on."""


class LoggedAnswers:
    """Answers as the log has it: each logged request once, in the logged order. An Answerer."""

    def __init__(self, logged: Sequence[ServerRequest]) -> None:
        self._left = list(logged)

    async def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The logged answer. Raises NotAnswered with the logged refusal, or because the log does
        not have this request."""
        found = next((one for one in self._left if _is(one, method, params)), None)
        if found is None:
            raise NotAnswered(f"the log has no answer to this request ({method})")
        self._left.remove(found)
        if found.answer is None:
            raise NotAnswered(found.refusal)
        return found.answer


def _is(logged: ServerRequest, method: str, params: dict[str, Any]) -> bool:
    return logged.method == method and _encode(logged.params) == _encode(params)

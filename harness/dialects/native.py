"""Tool calling of the chat API: the server parses the calls, several a turn are allowed."""

from collections.abc import Sequence

import msgspec

from envpool.core.types import ToolResult, ToolSpec
from harness.core.events import StepTaken
from harness.core.messages import (
    Act,
    AgentCall,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from harness.dialects.base import (
    PerWorld,
    answer,
    call_id,
    ends_in_thought,
    preamble,
    shown,
    unfit,
    without_thoughts,
)
from scenarios.format import Call

_json = msgspec.json.Encoder().encode


class Native:
    """The chat API's own tool calling."""

    name = "native"

    def __init__(self) -> None:
        self._system = PerWorld(preamble)

    def opening(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt and the task."""
        return (
            Message("system", self._system(briefing)),
            Message("user", briefing.instruction),
        )

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """All of the world's tools."""
        return briefing.tools

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """Calls where there are any, the text as the answer where there are none."""
        if not reply.calls:
            if ends_in_thought(reply.text):
                return FormatError("The reply stops inside <think>: it has no call and no answer.")
            return answer(reply.text)
        calls = []
        for index, call in enumerate(reply.calls):
            if not call.name:
                return FormatError("A tool call has no name.")
            if not isinstance(call.arguments, dict):
                return FormatError(
                    f"The arguments of {call.name} must be a JSON object, "
                    f"not {_excerpt(call.arguments)}."
                )
            if why := unfit(call.arguments):
                return FormatError(f"The arguments of {call.name} cannot be used: {why}.")
            calls.append(AgentCall(call.name, call.arguments, call_id(turn, index)))
        return Act(tuple(calls))

    def local(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """Nothing: every call is the world's."""
        return None

    def turn(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's message with its calls, then one tool message a result.

        A reply that broke the rules is told as text: servers refuse a history whose calls have
        no results, or arguments that are no objects.
        """
        reply, decision = step.reply, step.decision
        if isinstance(decision, Act):
            asked = _named(reply.calls, decision.calls)
            messages = [Message("assistant", reply.text, asked)]
            for call, result in zip(asked, step.results, strict=False):
                messages.append(Message("tool", shown(result), call_id=call.id))
            return tuple(messages)
        if isinstance(decision, FormatError):
            said = [reply.text, *(f"{call.name}({_text(call.arguments)})" for call in reply.calls)]
            text = "\n".join(part for part in said if part)
            return (Message("assistant", text), Message("user", decision.reason))
        return (Message("assistant", reply.text),)

    def pins(self, step: StepTaken) -> bool:
        """Never: the request itself holds the tools."""
        return False

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """The calls as the chat API has them."""
        if not calls:
            if without_thoughts(text) != text.strip():
                raise ValueError("an answer cannot hold <think> or </think>")
            return Reply(text)
        asked = tuple(
            AgentCall(call.name, call.arguments, call_id(turn, index))
            for index, call in enumerate(calls)
        )
        return Reply(text, asked, "tool_calls")

    def openers(self) -> tuple[Call, ...]:
        """None."""
        return ()


def _named(given: tuple[AgentCall, ...], read: tuple[AgentCall, ...]) -> tuple[AgentCall, ...]:
    """The calls under the server's own ids, for the history that is sent back to it; under ours
    where it gave none or gave one twice."""
    ids = {call.id for call in given}
    return given if len(ids) == len(given) and "" not in ids else read


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return _json(value).decode()
    except (OverflowError, RecursionError, TypeError, ValueError):
        return "…"


def _excerpt(value: object) -> str:
    text = _text(value)
    return text if len(text) <= 80 else text[:80] + "…"

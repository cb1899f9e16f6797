"""Tool calling of the chat API: the server parses the calls; a turn may have several."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from rehearsal_room.envpool.core.arguments import read_arguments
from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Briefing,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import (
    ScenarioText,
    answer_of,
    call_id,
    ends_in_thought,
    preamble,
    result_text,
    user_messages,
    without_thoughts,
)
from rehearsal_room.scenarios.format import Call

_json = msgspec.json.Encoder().encode


class Native:
    """The chat API's own tool calling."""

    name = "native"
    reads_cut_replies = False
    unanswered = ""

    def __init__(self) -> None:
        self._system = ScenarioText(preamble)

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt and the task."""
        return (
            Message("system", self._system(briefing)),
            *briefing.earlier,
            Message("user", briefing.instruction),
        )

    def request_tools(self, briefing: Briefing) -> tuple[ToolSpec, ...]:
        """All of the scenario's tools."""
        return briefing.tools

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls; where it has none, its text as the answer."""
        if not reply.calls:
            if ends_in_thought(reply.text):
                return FormatError("The reply stops inside <think>: it has no call and no answer.")
            return answer_of(reply.text)
        calls = []
        for index, call in enumerate(reply.calls):
            if not call.name:
                return FormatError("A tool call has no name.")
            arguments, fault = read_arguments(call.arguments)
            if arguments is None:
                return FormatError(f"The arguments of {call.name} cannot be used: {fault}.")
            calls.append(AgentCall(call.name, arguments, call_id(turn, index)))
        return Act(tuple(calls))

    def local_result(self, call: AgentCall, briefing: Briefing) -> ToolResult | None:
        """None: the world executes every call."""
        return None

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's message with its calls, then one tool message for each result.

        The calls of a malformed reply are rendered as text: servers refuse a history in which a
        call has no result, or arguments that are not an object.
        """
        reply, decision = step.reply, step.decision
        if isinstance(decision, Act):
            calls = with_usable_ids(reply.calls, decision.calls)
            messages = [Message("assistant", reply.text, calls)]
            for call, result in zip(calls, step.results, strict=False):
                messages.append(Message("tool", result_text(result), call_id=call.id))
            return tuple(messages)
        if isinstance(decision, FormatError):
            parts = [reply.text, *(f"{call.name}({_text(call.arguments)})" for call in reply.calls)]
            text = "\n".join(part for part in parts if part)
            return (Message("assistant", text), Message("user", decision.reason))
        return (Message("assistant", reply.text), *user_messages(step))

    def pins(self, step: StepTaken) -> bool:
        """Never: the request itself contains the tools."""
        return False

    def write(self, calls: Sequence[Call], text: str, *, turn: int) -> Reply:
        """The calls in the form of the chat API, or the answer."""
        if not calls:
            if without_thoughts(text) != text.strip():
                raise ValueError("an answer cannot hold <think> or </think>")
            return Reply(text)
        agent_calls = tuple(
            AgentCall(call.name, call.arguments, call_id(turn, index))
            for index, call in enumerate(calls)
        )
        return Reply(text, agent_calls, "tool_calls")

    def opening_calls(self) -> tuple[Call, ...]:
        """No calls: the request shows the tools."""
        return ()


def with_usable_ids(
    sent: tuple[AgentCall, ...], read: tuple[AgentCall, ...]
) -> tuple[AgentCall, ...]:
    """The calls with the server's own ids, for the history that is sent back to it; with the
    dialect's ids where the server sent a call without an id, or one id twice. Arguments that were
    read from a text, or from nothing, are those that were read."""
    if len(sent) == len(read) == 1 and sent[0].id and sent[0].arguments is read[0].arguments:
        return sent  # nearly always
    ids = {call.id for call in sent}
    if len(ids) < len(sent) or "" in ids:
        return read
    given = [two.arguments for two in read]
    given += [one.arguments for one in sent[len(read) :]]  # of an episode that a call ended
    return tuple(
        one if one.arguments == arguments else replace(one, arguments=arguments)
        for one, arguments in zip(sent, given, strict=True)
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return _json(value).decode()
    except (OverflowError, RecursionError, TypeError, ValueError):
        return "…"

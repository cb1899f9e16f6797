"""What an agent of the user's own sent its model, put together from the log.

Each request was logged as what it has beyond an earlier one (see harness.core.events.ModelAsked).
"""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.events import ModelAsked
from rehearsal_room.harness.core.messages import Message, Window
from rehearsal_room.viewer.sent.shown import SentAtTurn, SentRequest, shown_body

_NONE = "The agent asked its model for nothing before this turn, or not through the run."
_FORM = {
    "chat": "The messages are those that the log keeps of the agent's request.",
    "responses": "The agent used the Responses API; the messages are shown in the chat API's form.",
    "messages": "The agent used the Messages API; the messages are shown in the chat API's form.",
}


def asked_for(asked: Sequence[ModelAsked], turn: int) -> SentAtTurn:
    """The requests that an agent sent right before a turn (from 0); where there are none, as
    after a reply with several calls, the latest before it."""
    earlier = [one for one in asked if one.turn <= turn]
    if not earlier:
        return SentAtTurn(missing=_NONE)
    latest = max(one.turn for one in earlier)
    by_number = {one.request: one for one in asked}
    return SentAtTurn([_request(one, by_number) for one in earlier if one.turn == latest])


def _request(asked: ModelAsked, by_number: dict[int, ModelAsked]) -> SentRequest:
    messages, tools = _whole(asked, by_number)
    window = Window(messages, tools, fields=asked.fields)
    notes = [_FORM.get(asked.api, _FORM["chat"])]
    if asked.first_turn:
        notes.append(
            "The history window shortened this request: the model was shown what stands before "
            f"its first reply, and the turns from {asked.first_turn + 1} on."
        )
    if asked.error:
        notes.append(f"There was no reply: {asked.error}")
    usage = None if asked.reply is None else asked.reply.usage
    head = next((i for i, one in enumerate(messages) if one.role == "assistant"), len(messages))
    return shown_body(
        "turn",
        RequestWriter({}).body(window),
        head=head,
        prompt_tokens=usage.prompt_tokens or None if usage else None,
        notes=notes,
    )


def _whole(
    asked: ModelAsked, by_number: dict[int, ModelAsked]
) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...]]:
    """All messages of a request, and its tools."""
    branch = [asked]
    while branch[-1].parent is not None and branch[-1].parent in by_number:
        branch.append(by_number[branch[-1].parent])
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    reply: Message | None = None
    for one in reversed(branch):
        whole = messages if reply is None else (*messages, reply)
        messages = (*whole[: one.shared], *one.messages)
        tools = tools if one.tools is None else one.tools
        said = one.reply
        if said is not None:
            reply = Message("assistant", said.text, said.calls, None, said.thought)
    return messages, tools

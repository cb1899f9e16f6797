"""Whole conversations of chat clients, shown to the model through the windows of a history window.

A client of the chat API stores its conversation and sends all of it with every request. A model
that was trained on windows must see windows, in the dialect of its training: this module turns the
messages into turns again, and the turns into what `rehearse run` under that history window and that
dialect would show. Earlier replies are remembered with the sampled ids (the client has only a
version of them), so that prompts are the same token for token.

    client (native)                               shown under last:1 and hermes
    system, tools                                 system with the tools
    user: Void order 7.                           user: Void order 7.
    assistant: calls get_order          -         (not shown)
    tool: {"id": 7, ...}                -         (not shown)
    assistant: calls void_order         ->        assistant: <tool_call>...</tool_call>
    tool: done                          ->        user: <tool_response>done</tool_response>

Covers clients that offer tools (`tools`) to models of the dialects native and hermes, and clients
that write the model's dialect themselves in plain text. Models of AWM's dialect get their tools in
a turn of its own, so only clients of the second kind can use them.
"""

from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.events import HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Message, Reply, Window
from rehearsal_room.harness.core.token_bytes import decode_ids
from rehearsal_room.harness.dialects import hermes
from rehearsal_room.harness.dialects.base import Dialect, call_id
from rehearsal_room.harness.dialects.native import Native
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.summary import SummaryWindow
from rehearsal_room.harness.history.windows import Windows, summary_of, turns_of
from rehearsal_room.harness.model_api.request import ClientReply, UnsupportedRequest
from rehearsal_room.harness.policies.token_agent import split_tool_calls
from rehearsal_room.harness.serving.reply_memory import (
    RememberedReply,
    ReplyMemory,
    identity_of,
    next_key,
)
from rehearsal_room.harness.tokenization.chat_tokenizer import reply_key

_TRANSLATED = (Native.name, hermes.Hermes.name)  # dialects to which native tools are translated


Summarize = Callable[[Window, "ClientConversation"], Awaitable[Reply]]  # the reply has its tokens


class ClientConversation:
    """One client's conversation, as a request contains it. Used once, by one task."""

    def __init__(
        self,
        messages: Sequence[Message],
        tools: tuple[ToolSpec, ...],
        *,
        history: HistoryWindow,
        dialect: Dialect,
        memory: ReplyMemory,
    ) -> None:
        """Raises UnsupportedRequest."""
        first = next((i for i, one in enumerate(messages) if one.role == "assistant"), None)
        head = tuple(messages[:first])
        if not head:
            raise UnsupportedRequest("messages: the first must be the system's or the user's")
        if messages[-1].role == "assistant":
            raise UnsupportedRequest(
                "messages: the last is the assistant's, so there is nothing to answer"
            )
        self._turns = turns_of(messages[len(head) :])
        self._history = history
        self._dialect = dialect
        self._memory = memory
        self._offers_tools = bool(tools)
        self._key = next_key(b"", msgspec.json.encode((head, tools)))
        self._full_key = self._key  # of the replies and of the messages that follow them
        if tools and dialect.name not in _TRANSLATED:
            raise UnsupportedRequest(
                f"tools: the model was trained in the dialect {dialect.name}, in which tools cannot"
                " be offered natively; write that dialect in the messages"
            )
        if tools and dialect.name == hermes.Hermes.name:
            head, tools = _add_tools(head, tools), ()
        self._windows = Windows(history, head, tools)
        self.sampled: dict[str, tuple[int, ...]] = {}  # for ChatTokenizer.prompt
        self.num_replies = 0  # of the model so far, with its summaries
        self.num_forgotten = 0  # replies of which only the client's version is known

    async def window(self, summarize: Summarize) -> Window:
        """The window that the model may see now. `summarize` gets a summary from the model
        where one is due and not remembered. Raises UnsupportedRequest, and PolicyError where
        `summarize` does."""
        for number, (reply, *rest) in enumerate(self._turns):
            turn, step = self._turn(reply, rest)
            self._windows.add(turn, pin=number == 0 and self._dialect.pins(step))
            if isinstance(self._history, SummaryWindow):
                await self._summarize_if_due(summarize, number + 1)
        return self._windows.window()

    def add_reply(
        self, text: str, token_ids: Sequence[int], *, calling: bool = True
    ) -> ClientReply:
        """Remember the model's reply and return it in the client's form. `calling` off: calls in it
        stay text."""
        splits = self._offers_tools and calling
        plain, calls = split_tool_calls(text, self.num_replies) if splits else (text, ())
        exact = (plain, calls) if self._dialect.name == Native.name else (text, ())
        client_calls = tuple([with_id(call, f"{call.id}-{token_hex(6)}") for call in calls])
        key = next_key(self._key, identity_of(plain, client_calls))
        self._memory.remember(key, RememberedReply(*exact, tuple(token_ids)))
        return ClientReply(plain, client_calls)

    def _turn(
        self, message: Message, rest: Sequence[Message]
    ) -> tuple[tuple[Message, ...], StepTaken]:
        """The messages of a turn in the model's dialect, and the step that it was."""
        self._key = next_key(self._key, identity_of(message.content, message.calls))
        self._full_key = next_key(self._full_key, self._key + msgspec.json.encode(rest))
        known = self._memory.recall(self._key)
        if known is None:
            known = self._reconstruct(message)
            self.num_forgotten += 1
        else:
            self.sampled[reply_key(known.text, known.calls)] = known.token_ids
        self.num_replies += 1
        reply = Reply(known.text, known.calls)
        if not message.calls:
            step = StepTaken(reply, self._dialect.read(reply, turn=0))
            return (Message("assistant", known.text), *rest), step
        results, more = _results(message.calls, rest)
        step = StepTaken(reply, Act(known.calls or message.calls), results)
        return (*self._dialect.turn_messages(step), *more), step

    def _reconstruct(self, message: Message) -> RememberedReply:
        """A reply as the model would have written it, from the client's version."""
        if not message.calls:
            return RememberedReply(message.content, (), ())
        if self._dialect.name == Native.name:
            calls = [
                with_id(call, call_id(self.num_replies, index))
                for index, call in enumerate(message.calls)
            ]
            return RememberedReply(message.content, tuple(calls), ())
        if self._dialect.name != hermes.Hermes.name:
            raise UnsupportedRequest(
                f"messages: the dialect {self._dialect.name} cannot express native calls"
            )
        blocks = [
            hermes.call_block(msgspec.json.encode({"name": call.name, "arguments": call.arguments}))
            for call in message.calls
        ]
        parts = [message.content, *blocks] if message.content else blocks
        return RememberedReply("\n".join(parts), (), ())

    async def _summarize_if_due(self, summarize: Summarize, turn: int) -> None:
        window = self._windows.window()
        if not window.asks_for_summary:
            return
        key = next_key(self._full_key, b"summary " + self._history.spec.encode())
        known = self._memory.recall(key)
        if known is None:
            reply = await summarize(window, self)
            known = RememberedReply(reply.text, (), tuple(decode_ids(reply.token_ids)))
        text = summary_of(self._dialect, HistorySummarized(Reply(known.text), turn))
        if not text:
            raise PolicyError(f"asked for a summary before step {turn}, the model gave none")
        self._memory.remember(key, known)  # not earlier: a failed one must be generated again
        self.sampled[reply_key(known.text)] = known.token_ids
        self.num_replies += 1
        self._windows.add_summary(text)


def _results(
    calls: Sequence[AgentCall], rest: Sequence[Message]
) -> tuple[tuple[ToolResult, ...], list[Message]]:
    """The results of the calls, in their order, and the messages that are not results.
    Raises UnsupportedRequest."""
    by_id = {message.call_id: message for message in rest if message.role == "tool"}
    if missing := [call.id for call in calls if call.id not in by_id]:
        raise UnsupportedRequest(
            f"messages: the call {missing[0]!r} has no tool message as its result"
        )
    if others := by_id.keys() - {call.id for call in calls}:
        raise UnsupportedRequest(
            f"messages: a tool message answers the call {min(map(str, others))!r},"
            " which no message before it contains"
        )
    results = tuple(ToolResult(by_id[call.id].content) for call in calls)
    return results, [message for message in rest if message.role != "tool"]


def _add_tools(head: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """The head with the tools in its system prompt."""
    if head[0].role == "system":
        system, rest = head[0].content, head[1:]
    else:
        system, rest = "", head
    return (Message("system", hermes.with_tools(system, tools).lstrip()), *rest)


def with_id(call: AgentCall, new_id: str) -> AgentCall:
    """The call with another id."""
    return AgentCall(call.name, call.arguments, new_id)

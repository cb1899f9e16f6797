"""Conversations that chat clients send whole, seen through the windows of a history policy.

A client of the chat API keeps its conversation and sends all of it with every request. A model that
was trained on windows must be shown windows, in the dialect that it was trained in: here the
messages become turns again, and the turns what `rehearse run` under that history policy and that
dialect would show. What the model wrote earlier is remembered with the ids that it sampled (the
client only knows what it was told of it), so that prompts are the same token for token.

    client (native)                               shown under last:1 and hermes
    system, tools                                 system with the tools
    user: Void order 7.                           user: Void order 7.
    assistant: calls get_order          -         (fell out)
    tool: {"id": 7, ...}                -         (fell out)
    assistant: calls void_order         ->        assistant: <tool_call>...</tool_call>
    tool: done                          ->        user: <tool_response>done</tool_response>

Covers clients that offer tools (`tools`) to models of the dialects native and hermes, and clients
that speak the model's dialect themselves in plain text. Models of AWM's dialect get their tools by
a turn of their own, so only the latter can use them.
"""

from collections.abc import Awaitable, Callable, Sequence
from secrets import token_hex

import msgspec

from envpool.core.types import ToolResult, ToolSpec
from harness.core.errors import PolicyError
from harness.core.events import HistorySummarized, StepTaken
from harness.core.messages import Act, AgentCall, Message, Reply, Window
from harness.core.token_bytes import unpacked
from harness.dialects import hermes
from harness.dialects.base import Dialect, call_id
from harness.dialects.native import Native
from harness.history.base import HistoryPolicy
from harness.history.summary import Summary
from harness.history.windows import Windows, summary_of
from harness.policies.token_agent import split_tool_calls
from harness.serving.reply_memory import Memory, Said, identity_of, place_after
from harness.tokenization.chat_tokenizer import own_key

_TRANSLATED = (Native.name, hermes.Hermes.name)  # dialects to which native tools are translated


class NotServed(ValueError):
    """A conversation that cannot be shown to this model; a sentence for the client."""


class Told(msgspec.Struct, frozen=True):
    """What a client is told of a reply."""

    text: str
    calls: tuple[AgentCall, ...]


Turn = tuple[Message, ...]
Ask = Callable[[Window, "Conversation"], Awaitable[Reply]]  # the reply bears its tokens


class Conversation:
    """One client's conversation, as far as a request tells it. Used once, by one task."""

    def __init__(
        self,
        messages: Sequence[Message],
        tools: tuple[ToolSpec, ...],
        *,
        history: HistoryPolicy,
        dialect: Dialect,
        memory: Memory,
    ) -> None:
        """Raises NotServed."""
        first = next((i for i, one in enumerate(messages) if one.role == "assistant"), None)
        head = tuple(messages[:first])
        if not head:
            raise NotServed("messages: the first must be the system's or the user's")
        if messages[-1].role == "assistant":
            raise NotServed("messages: the last is the assistant's, so nothing is asked")
        self._turns = _turns(messages[len(head) :])
        self._history = history
        self._dialect = dialect
        self._memory = memory
        self._offers_tools = bool(tools)
        self._place = place_after(b"", msgspec.json.encode((head, tools)))
        self._seen = self._place  # what was answered to the replies counts, too
        if tools and dialect.name not in _TRANSLATED:
            raise NotServed(
                f"tools: the model has learned the dialect {dialect.name}, in which tools cannot be"
                " offered natively; speak that dialect in the messages"
            )
        if tools and dialect.name == hermes.Hermes.name:
            head, tools = _told_tools(head, tools), ()
        self._windows = Windows(history, head, tools)
        self.own: dict[str, tuple[int, ...]] = {}  # for ChatTokens.prompt
        self.num_replies = 0  # the model's so far, summaries among them
        self.num_forgotten = 0  # those of which only the client's version is known

    async def window(self, ask: Ask) -> Window:
        """What the model may see now. `ask` has it sum up what falls out of its history, where
        that is due and not remembered. Raises NotServed, and PolicyError where `ask` does."""
        for number, (told, rest) in enumerate(self._turns):
            turn, step = self._turn(told, rest)
            self._windows.keep(turn, pins=number == 0 and self._dialect.pins(step))
            if isinstance(self._history, Summary):
                await self._sum_up(ask, number + 1)
        return self._windows.window()

    def answered(self, text: str, token_ids: Sequence[int], *, calling: bool = True) -> Told:
        """What the client is told of the model's reply, which is remembered. `calling` off: calls
        in it are text."""
        parts = self._offers_tools and calling
        told, calls = split_tool_calls(text, self.num_replies) if parts else (text, ())
        wrote = (told, calls) if self._dialect.name == Native.name else (text, ())
        given = tuple([renamed(call, f"{call.id}-{token_hex(6)}") for call in calls])
        said = Said(*wrote, tuple(token_ids))
        self._memory.keep(place_after(self._place, identity_of(told, given)), said)
        return Told(told, given)

    def _turn(
        self, told: Message, rest: Sequence[Message]
    ) -> tuple[tuple[Message, ...], StepTaken]:
        """The messages of a turn in the model's dialect, and the step that it was."""
        self._place = place_after(self._place, identity_of(told.content, told.calls))
        self._seen = place_after(self._seen, self._place + msgspec.json.encode(rest))
        said = self._memory.recall(self._place)
        if said is None:
            said = self._rewritten(told)
            self.num_forgotten += 1
        else:
            self.own[own_key(said.text, said.calls)] = said.token_ids
        self.num_replies += 1
        reply = Reply(said.text, said.calls)
        if not told.calls:
            step = StepTaken(reply, self._dialect.read(reply, turn=0))
            return (Message("assistant", said.text), *rest), step
        results, more = _results(told.calls, rest)
        step = StepTaken(reply, Act(said.calls or told.calls), results)
        return (*self._dialect.turn(step), *more), step

    def _rewritten(self, told: Message) -> Said:
        """How the model would have written what the client has of its reply."""
        if not told.calls:
            return Said(told.content, (), ())
        if self._dialect.name == Native.name:
            calls = [
                renamed(call, call_id(self.num_replies, index))
                for index, call in enumerate(told.calls)
            ]
            return Said(told.content, tuple(calls), ())
        if self._dialect.name != hermes.Hermes.name:
            raise NotServed(
                f"messages: native calls cannot be told in the dialect {self._dialect.name}"
            )
        blocks = [
            hermes.block(msgspec.json.encode({"name": call.name, "arguments": call.arguments}))
            for call in told.calls
        ]
        return Said("\n".join([told.content, *blocks] if told.content else blocks), (), ())

    async def _sum_up(self, ask: Ask, turn: int) -> None:
        window = self._windows.window()
        if not window.summarise:
            return
        place = place_after(self._seen, b"summary " + self._history.spec.encode())
        said = self._memory.recall(place)
        if said is None:
            reply = await ask(window, self)
            said = Said(reply.text, (), tuple(unpacked(reply.token_ids)))
        text = summary_of(self._dialect, HistorySummarized(Reply(said.text), turn))
        if not text:
            raise PolicyError(f"asked for a summary before step {turn}, the model gave none")
        self._memory.keep(place, said)  # not before: who tries again asks the model again
        self.own[own_key(said.text)] = said.token_ids
        self.num_replies += 1
        self._windows.summarised(text)


def _turns(messages: Sequence[Message]) -> list[tuple[Message, list[Message]]]:
    """Each assistant message, and what follows it."""
    turns: list[tuple[Message, list[Message]]] = []
    for message in messages:
        if message.role == "assistant":
            turns.append((message, []))
        else:
            turns[-1][1].append(message)
    return turns


def _results(
    calls: Sequence[AgentCall], rest: Sequence[Message]
) -> tuple[tuple[ToolResult, ...], list[Message]]:
    """The calls' results in the calls' order, and the messages that are none. Raises NotServed."""
    given = {message.call_id: message for message in rest if message.role == "tool"}
    if missing := [call.id for call in calls if call.id not in given]:
        raise NotServed(f"messages: the call {missing[0]!r} has no tool message as its result")
    if others := given.keys() - {call.id for call in calls}:
        raise NotServed(
            f"messages: a tool message answers the call {min(map(str, others))!r},"
            " which stands in no message before it"
        )
    results = tuple(ToolResult(given[call.id].content) for call in calls)
    return results, [message for message in rest if message.role != "tool"]


def _told_tools(head: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """The head with the tools in its system prompt."""
    if head[0].role == "system":
        system, rest = head[0].content, head[1:]
    else:
        system, rest = "", head
    return (Message("system", hermes.with_tools(system, tools).lstrip()), *rest)


def renamed(call: AgentCall, new: str) -> AgentCall:
    """The call under another id."""
    return AgentCall(call.name, call.arguments, new)

"""Conversations of an outside data set as a source of batches: supervised fine-tuning.

A file has one conversation a line (JSON Lines), or one a row (Parquet), in OpenAI's form:

    {"messages": [{"role": "user", "content": "Close order 7."},
                  {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function":
                      {"name": "close_order", "arguments": "{\"order_id\": 7}"}}]},
                  {"role": "tool", "tool_call_id": "a", "content": "closed"},
                  {"role": "assistant", "content": "It is closed."}],
     "tools": [{"type": "function", "function": {"name": "close_order", …}}]}

Each assistant message is one sample: its prompt is what the model's chat template makes of the
messages before it, and only its own tokens are trained, the end token included. Template and text
must agree: prompt and reply together have to be, letter by letter, the beginning of what the
template makes of the conversation. Otherwise it cannot be said which tokens are the assistant's
(a template that drops thoughts, or ignores tools), and the conversation is refused.

Covers text and calls. Does not cover images, audio, and `weight`s of messages.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Literal

import anyio.to_thread
import msgspec
import numpy as np

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Message, Window
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer, reply_key
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import ConfigError, SampleError
from rehearsal_room.learner.core.samples import Group, Rollout, Sample
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.sample_lengths import TokenLimits, within
from rehearsal_room.scenarios.distribution import missing_package
from rehearsal_room.scenarios.files import UNREADABLE

_ROLES = {"developer": "system"}  # what a role is called here, where it has another name


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Call(msgspec.Struct):
    function: _Function
    id: str | None = None


class _Part(msgspec.Struct):
    type: str
    text: str | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _Tool(msgspec.Struct):
    function: _Function


class _Row(msgspec.Struct):
    messages: list[_Message]
    tools: list[_Tool] | str | None = None


class Conversation(msgspec.Struct, frozen=True):
    """A conversation that can be shown to a model."""

    where: str  # file and line
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]


class ConversationSource:
    """Returns conversations in batches: each epoch in another order, which the seed determines."""

    def __init__(
        self,
        conversations: Sequence[Conversation],
        chat: ChatTokenizer,
        settings: DataSettings,
        *,
        limits: TokenLimits,
        seed: int,
        first: int = 0,
    ) -> None:
        """The first `first` conversations were in earlier batches."""
        self._conversations = conversations
        self._chat = chat
        self._settings = settings
        self._limits = limits
        self._seed = seed
        self._next = first

    async def take(self, version: int) -> TakenBatch | None:
        """The next batch; None: all epochs are over. Raises SampleError for a conversation that the
        template cannot show."""
        return await anyio.to_thread.run_sync(self._take)

    def _take(self) -> TakenBatch | None:
        groups: list[Group] = []
        size, num_long = len(self._conversations), 0
        end = size * self._settings.epochs
        while self._next < end and len(groups) < self._settings.groups:
            epoch, place = divmod(self._next, size)
            one = self._conversations[_order(size, f"{self._seed} {epoch}")[place]]
            rollout = rollout_of_conversation(one, self._chat)
            rollout = within(rollout, self._limits.context, self._settings.too_long)
            if rollout.samples:
                groups.append(Group(one.where, "", "", (rollout,)))
            else:
                num_long += 1
            self._next += 1
        if not groups and not num_long:
            return None
        return TakenBatch(tuple(groups), self._next, {"too_long": num_long} if num_long else {})


def read_conversations(files: Sequence[str]) -> list[Conversation]:
    """The conversations of data sets. Raises ConfigError for a file that cannot be read, and
    SampleError naming file, line and fault for a conversation that cannot be used."""
    found = [_conversation(row, where) for file in files for row, where in _rows(Path(file))]
    if not found:
        raise ConfigError(f"data.messages: {', '.join(files)}: there is no conversation")
    return found


def rollout_of_conversation(conversation: Conversation, chat: ChatTokenizer) -> Rollout:
    """The conversation with a sample for each assistant message. Raises SampleError."""
    sampled: dict[str, list[int]] = {}
    samples: list[Sample] = []
    for index, message in enumerate(conversation.messages):
        if message.role != "assistant":
            continue
        window = Window(conversation.messages[:index], conversation.tools)
        try:
            prompt = chat.prompt(window, sampled)
            ids = chat.encode_reply(message.content, message.calls, window=window)
            _check_marks(conversation, index, chat, chat.text_of(ids))
        except PolicyError as exc:
            raise _unmarked(conversation, index, str(exc).rpartition(": ")[2]) from exc
        sampled[reply_key(message.content, message.calls)] = ids
        samples.append(
            Sample(
                np.array(prompt, np.int32),
                np.array(ids, np.int32),
                np.zeros(len(ids), np.float32),
                reward=1.0,
                turn=len(samples),
                weights="",
            )
        )
    return Rollout(conversation.where, 0, 1.0, tuple(samples), "", "")


def _check_marks(conversation: Conversation, index: int, chat: ChatTokenizer, reply: str) -> None:
    """Whether the template's own text of the conversation goes on with the reply after the prompt
    for it. Raises PolicyError and SampleError."""
    messages, tools = conversation.messages, conversation.tools
    prompt = chat.render(Window(messages[:index], tools))
    whole = chat.render(Window(messages[: index + 1], tools))
    if not whole.startswith(prompt):
        raise _unmarked(conversation, index, "it writes the messages before it in another way")
    if not whole[len(prompt) :].startswith(reply):
        raise _unmarked(conversation, index, "it writes the message in another way")
    # Without its tools the conversation must be another one: a name may be in its messages, too.
    shown = tools and prompt != chat.render(Window(messages[:index]))
    if missing := [tool.name for tool in tools if not shown or tool.name not in prompt]:
        raise _unmarked(conversation, index, f"it does not show the tool {missing[0]!r}")


def _unmarked(conversation: Conversation, index: int, why: str) -> SampleError:
    return SampleError(
        f"{conversation.where}: the model's chat template does not mark message {index} in what it"
        f" makes of the conversation: {why}. Use a model whose template fits, or change"
        " chat_template.jinja in its folder"
    )


def _order(size: int, seed: str) -> list[int]:
    order = list(range(size))
    Random(seed).shuffle(order)
    return order


def _rows(path: Path) -> Iterator[tuple[Any, str]]:
    """The rows of a file as plain values, and where they are."""
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise ConfigError(f"data.messages: {path}: cannot be read: {exc.strerror}") from exc
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                yield msgspec.json.decode(line), where
            except UNREADABLE as exc:
                raise SampleError(f"{where}: it is not JSON: {exc}") from exc


def _parquet_rows(path: Path) -> Iterator[tuple[Any, str]]:
    try:
        import pyarrow  # type: ignore[import-untyped]  # ships no type hints
        from pyarrow import parquet
    except ModuleNotFoundError as exc:
        raise ConfigError(missing_package(f"data.messages: {path}", exc, "parquet")) from exc
    try:
        file = parquet.ParquetFile(path)
        number = 0
        for batch in file.iter_batches(256):
            for row in batch.to_pylist():
                number += 1
                yield _without_none(row), f"{path}, row {number}"
    except (OSError, pyarrow.ArrowException) as exc:
        raise ConfigError(f"data.messages: {path}: cannot be read: {exc}") from exc


def _without_none(value: Any) -> Any:
    """A value without the fields that are None, which a table has for all of its rows."""
    if isinstance(value, dict):
        return {name: _without_none(one) for name, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _conversation(row: Any, where: str) -> Conversation:
    try:
        found = msgspec.convert(row, _Row)
        tools = found.tools or []
        if isinstance(tools, str):
            tools = msgspec.json.decode(tools or "[]", type=list[_Tool])
        messages = tuple(_message(one, number) for number, one in enumerate(found.messages))
    except (ValueError, *UNREADABLE) as exc:  # of which a ValidationError is one
        raise SampleError(f"{where}: {exc}") from exc
    if not any(message.role == "assistant" for message in messages):
        raise SampleError(f"{where}: messages: none is of the assistant, so nothing can be learned")
    specs = (
        ToolSpec(one.name, one.description or "", one.parameters or {"type": "object"})
        for one in (tool.function for tool in tools)
    )
    return Conversation(where, messages, tuple(specs))


def _message(message: _Message, number: int) -> Message:
    """Raises ValueError."""
    parts = message.content if isinstance(message.content, list) else []
    for part in parts:
        if part.type != "text" or part.text is None:
            raise ValueError(
                f"messages[{number}]: it has a part of type {part.type!r}; only text can be learned"
            )
    text = "".join(part.text or "" for part in parts) if parts else (message.content or "")
    assert isinstance(text, str)
    if message.role == "assistant" and not text and not message.tool_calls:
        raise ValueError(f"messages[{number}]: the assistant says nothing and calls nothing")
    if message.role != "assistant" and message.tool_calls:
        raise ValueError(f"messages[{number}]: tool_calls of role {message.role!r}")
    calls = tuple(
        AgentCall(call.function.name, _arguments(call, number), call.id or f"call{number}-{place}")
        for place, call in enumerate(message.tool_calls or [])
    )
    role: Any = _ROLES.get(message.role, message.role)
    return Message(role, text, calls, message.tool_call_id if role == "tool" else None)


def _arguments(call: _Call, number: int) -> dict[str, Any]:
    arguments = call.function.arguments or {}
    if isinstance(arguments, dict):
        return arguments
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except UNREADABLE as exc:
        raise ValueError(
            f"messages[{number}]: the arguments of {call.function.name!r} must be a JSON object:"
            f" {exc}"
        ) from exc

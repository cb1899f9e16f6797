"""Windows as token ids: a model's chat template and tokenizer, without transformers and torch.

A reply that the agent itself sampled appears in later prompts with exactly the ids that it sampled:
text that is tokenised again may give other ids, and then a log-probability would belong to a token
that was never sampled. So a prompt and the reply that followed it are together the beginning of the
episode's next prompt, as long as no turn leaves the window.

    prompt 1     <|im_start|>user\\nVoid 7.<|im_end|>\\n<|im_start|>assistant\\n
    sampled      <tool_call>…</tool_call><|im_end|>
    prompt 2     (both of these)\\n<|im_start|>user\\n…<|im_end|>\\n<|im_start|>assistant\\n

All other text is tokenised once and remembered: a system prompt is tokenised once per scenario. The
text of messages and tools is data, and special tokens spelled in it are ordinary letters; only the
template writes special tokens (harness.tokenization.special_tokens).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tokenizers import Tokenizer

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.messages import AgentCall, Message, Window
from rehearsal_room.harness.dialects.base import without_thoughts
from rehearsal_room.harness.tokenization.chat_template import (
    CONFIG_NAME,
    ChatTemplate,
    read_config,
    read_template,
    token_text,
)
from rehearsal_room.harness.tokenization.piece_cache import PieceCache
from rehearsal_room.harness.tokenization.reply_frames import (
    Frame,
    Kind,
    ReplyFrames,
    cannot_insert,
    stand_in,
)
from rehearsal_room.harness.tokenization.special_tokens import CLOSE, OPEN, SpecialTokenEscapes

# Marks of sampled replies in a conversation that is being rendered; escaped data contains none.
_SAMPLED = re.compile(f"{OPEN}(\\d+){CLOSE}")
_MAX_TOOL_LISTS = 256  # lists of tools that are remembered


def reply_key(text: str, calls: Sequence[AgentCall] = ()) -> str:
    """The key under which a reply's sampled ids are stored: its text and native calls."""
    if not calls:
        return text
    return text + "".join(
        f"{OPEN}{call.id} {call.name} {msgspec.json.encode(call.arguments).decode()}"
        for call in calls
    )


class ChatTokenizer:
    """Turns windows into a model's token ids, and ids into text. Only one thread may use it at a
    time.

    It counts tokens too (harness.history.token_budget.TokenCounter).
    """

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, end_ids: Sequence[int]
    ) -> None:
        """`end_ids` are the configured tokens that end a reply; the token with which the template
        ends a turn is added.

        Raises SettingsError where there is no such token, or the template refuses a plain
        conversation.
        """
        self._tokenizer = tokenizer
        self._template = template
        self._escapes = SpecialTokenEscapes(tokenizer)
        self._pieces = PieceCache(tokenizer, self._escapes.ids)
        self._tools: dict[int, tuple[Sequence[ToolSpec], list[dict[str, Any]]]] = {}
        self.name = f"tokens/{blake2b(tokenizer.to_str().encode(), digest_size=6).hexdigest()}"
        try:
            self._frames = ReplyFrames(tokenizer, template, end_ids)
        except PolicyError as exc:
            raise SettingsError(f"a plain conversation cannot be rendered: {exc}") from exc
        self.end_id = self._frames.end_id
        self._end_texts = {found: text for text, found in self._frames.ends.items()}
        self.end_ids = frozenset(self._end_texts)

    @classmethod
    def open(cls, folder: Path) -> "ChatTokenizer":
        """The tokenizer of a Hugging Face directory: tokenizer.json and chat template.

        Raises SettingsError naming the file.
        """
        path = folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as exc:  # the library raises nothing narrower
            raise SettingsError(f"{path}: the tokenizer cannot be read: {exc}") from exc
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, read_template(folder), _configured_end_ids(folder, tokenizer))

    @property
    def vocabulary_size(self) -> int:
        """The number of token ids; all ids are below it."""
        number: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        return number

    @property
    def control_ids(self) -> frozenset[int]:
        """The ids of the special tokens, which templates write and texts do not."""
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    def __call__(self, text: str) -> int:
        """The number of tokens in the text of a message."""
        return len(self.encode(self._escapes.escape(text)))

    def encode(self, text: str) -> list[int]:
        """The ids of a text as templates write it: special tokens in it are those tokens."""
        return self._pieces.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without special tokens.

        Tags that a dialect reads (`<tool_call>`) may be tokens of their own, but not special ones.
        """
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def prompt(self, window: Window, sampled: Mapping[str, Sequence[int]]) -> list[int]:
        """The ids that render a window and ask for the assistant's next message.

        `sampled` has the ids that the agent sampled for each of its replies so far, the end token
        included, by `reply_key`; of equal replies, those of the newest. Raises PolicyError for a
        window that the template refuses.
        """
        messages: list[dict[str, Any]] = []
        replies: list[_Sampled] = []
        for index, message in enumerate(window.messages):
            shown = template_message(message, self._escapes.escape)
            ids = None
            if message.role == "assistant" and sampled:
                ids = sampled.get(reply_key(message.content, message.calls))
            if ids is not None:
                calls = shown.get("tool_calls", ())
                if len(calls) > 1 and not self._frames.takes_several_calls:
                    calls = calls[:1]
                shown = stand_in(f"{OPEN}{len(replies)}{CLOSE}", calls)
                frame = self._frames.of(self._kind(window, index, has_calls=bool(calls)))
                replies.append(_Sampled(ids, frame, calls))
            messages.append(shown)
        text = self._template.render(messages, self._functions(window.tools))
        return self._insert_replies(text, replies)

    def render(self, window: Window) -> str:
        """The text that the template itself makes of a window whose texts have no special
        tokens. Raises PolicyError."""
        messages = [template_message(message) for message in window.messages]
        return self._template.render(messages, self._functions(window.tools))

    def encode_whole(self, text: str) -> list[int]:
        """The ids of a rendered text that is tokenised in one piece."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of some ids, special tokens included."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    @property
    def writes_date(self) -> bool:
        """Whether the chat template writes a date into prompts."""
        return self._template.writes_date

    def words_before_reply(self, window: Window) -> str:
        """What the text that asks for a reply goes on with, where the template begins an earlier
        reply at once; empty: nothing, or a thought that is closed. Raises PolicyError."""
        kind = self._kind(window, len(window.messages), has_calls=False)
        return self._frames.of(kind).words

    @property
    def end_texts(self) -> Collection[str]:
        """The texts of the tokens that end a reply."""
        return self._end_texts.values()

    def encode_reply(
        self, text: str, calls: Sequence[AgentCall] = (), *, window: Window | None = None
    ) -> list[int]:
        """The ids of a reply that was not sampled, the end token included, as the template writes
        it after the prompt of `window` (None: after a user's message). Raises PolicyError."""
        if window is None:
            kind = Kind(bool(calls), bool(calls), after_result=False)
        else:
            kind = self._kind(window, len(window.messages), has_calls=bool(calls))
        frame = self._frames.of(kind)
        if calls:
            reply = Message("assistant", text, tuple(calls))
            shown = template_message(reply, self._escapes.escape)
            body = self._frames.body(kind, shown)
            if without_thoughts(shown["content"]) not in body:
                raise PolicyError("the chat template leaves out the text of a reply with calls")
        else:
            body = frame.body(self._escapes.escape(text))
        return [*self._pieces.encode_inside(body), frame.end_id]

    def _kind(self, window: Window, index: int, *, has_calls: bool) -> Kind:
        """What kind of reply the window's message of this index is."""
        after_result = index > 0 and window.messages[index - 1].role == "tool"
        return Kind(bool(window.tools) or has_calls, has_calls, after_result)

    def _insert_replies(self, text: str, replies: Sequence["_Sampled"]) -> list[int]:
        """The ids of a rendered text, with the replies where their marks are."""
        ids: list[int] = []
        before, *parts = _SAMPLED.split(text)
        number = -1  # of the reply before the text `before`
        for found, behind in zip(map(int, parts[0::2]), parts[1::2], strict=True):
            if found == number + 1:
                reply = replies[found]
                text = reply.frame.before(self._behind(before, replies, number), reply.calls)
                ids += self._encode_next(ids, text)
                ids += reply.ids
            elif found != number:
                break
            number, before = found, behind
        if number != len(replies) - 1:
            raise cannot_insert("it leaves out a reply, or repeats it")
        return ids + self._encode_next(ids, self._behind(before, replies, number))

    def _encode_next(self, ids: Sequence[int], text: str) -> list[int]:
        """The ids of the text that follows the ids in a prompt."""
        return self._pieces.encode_inside(text) if ids else self.encode(text)

    def _behind(self, text: str, replies: Sequence["_Sampled"], number: int) -> str:
        """The text after a reply, without the end that the agent sampled."""
        if number < 0:
            return text
        reply = replies[number]
        end = self._end_texts.get(reply.ids[-1], "") if reply.ids else ""
        return reply.frame.behind(text, reply.calls, end)

    def _functions(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Tools in the form that chat templates expect."""
        known = self._tools.get(id(tools))
        if known is None:
            if len(self._tools) >= _MAX_TOOL_LISTS:
                self._tools.clear()
            functions = [_function(tool, self._escapes.escape) for tool in tools]
            known = self._tools[id(tools)] = (tools, functions)
        return known[1]


class _Sampled(NamedTuple):
    """A reply that the agent sampled, in a prompt that is being made."""

    ids: Sequence[int]
    frame: Frame
    calls: Sequence[Mapping[str, Any]]  # as the template gets them


def _unchanged(value: Any) -> Any:
    return value


def template_message(message: Message, escape: Callable[[Any], Any] = _unchanged) -> dict[str, Any]:
    """A message in the form that chat templates expect: the arguments of calls are objects,
    not text. `escape` is applied to all data in it."""
    fields: dict[str, Any] = {"role": message.role, "content": escape(message.content)}
    if message.calls:
        fields["tool_calls"] = [
            {
                "type": "function",
                "id": escape(call.id),
                "function": {"name": escape(call.name), "arguments": escape(call.arguments)},
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        fields["tool_call_id"] = escape(message.call_id)
    return fields


def _function(tool: ToolSpec, escape: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": escape(tool.name),
            "description": escape(tool.description),
            "parameters": escape(tool.schema),
        },
    }


def _configured_end_ids(folder: Path, tokenizer: Tokenizer) -> list[int]:
    """The end tokens that a directory names: in generation_config.json, else in config.json,
    else in the tokenizer's own configuration."""
    for name in ("generation_config.json", "config.json"):
        value = read_config(folder / name).get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        found = [number for number in ids if isinstance(number, int)]
        if found:
            return found
    text = token_text(read_config(folder / CONFIG_NAME).get("eos_token") or "")
    number = tokenizer.token_to_id(text) if text else None
    return [] if number is None else [number]

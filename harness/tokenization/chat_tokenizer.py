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
from rehearsal_room.harness.tokenization.chat_template import (
    CONFIG_NAME,
    ChatTemplate,
    read_config,
    read_template,
    token_text,
)
from rehearsal_room.harness.tokenization.piece_cache import PieceCache
from rehearsal_room.harness.tokenization.special_tokens import CLOSE, OPEN, SpecialTokenEscapes

# Placeholders for texts and sampled replies in a conversation that is being rendered; escaped data
# contains none of them.
_USER, _REPLY = f"{OPEN}user{CLOSE}", f"{OPEN}reply{CLOSE}"
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
            plain = _frame(template)
            with_tools = _frame(template, with_tools=True) if template.has_tool_form else plain
        except PolicyError as exc:
            raise SettingsError(f"a plain conversation cannot be rendered: {exc}") from exc
        self._frame_of = {False: plain, True: with_tools}  # by whether a request has tools
        self.end_id = self._end_of_turn(plain.closing, end_ids)
        self.end_ids = frozenset([*end_ids, self.end_id])
        self._end_texts = {found: tokenizer.id_to_token(found) or "" for found in self.end_ids}

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
        replies: list[Sequence[int]] = []
        for message in window.messages:
            ids = None
            if message.role == "assistant" and sampled:
                ids = sampled.get(reply_key(message.content, message.calls))
            if ids is None:
                messages.append(template_message(message, self._escapes.escape))
            else:
                messages.append({"role": "assistant", "content": f"{OPEN}{len(replies)}{CLOSE}"})
                replies.append(ids)
        text = self._template.render(messages, self._functions(window.tools))
        frame = self._frame_of[bool(window.tools)]
        return self._insert_replies(_SAMPLED.split(text), replies, frame)

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
    def end_texts(self) -> Collection[str]:
        """The texts of the tokens that end a reply."""
        return self._end_texts.values()

    @property
    def begins_replies_alike(self) -> bool:
        """Whether earlier replies have the same text before them as the next one; they do not where
        the generation prompt begins a thought."""
        return all(frame.header == frame.generation_prompt for frame in self._frame_of.values())

    def encode_reply(self, text: str, calls: Sequence[AgentCall] = ()) -> list[int]:
        """The ids of a reply that was not sampled, the end token included; native calls as
        the template formats them. Raises PolicyError."""
        if calls:
            question, frame = {"role": "user", "content": _USER}, self._frame_of[True]
            reply = Message("assistant", text, tuple(calls))
            rendered = self._template.render(
                [question, template_message(reply, self._escapes.escape)],
                add_generation_prompt=False,
                with_tools=True,
            )
            rendered = rendered.partition(_USER)[2]
            start = rendered.find(frame.header) + len(frame.header)
            body = rendered[start:].removesuffix(frame.closing)
        else:
            body = self._escapes.escape(text)
        return [*self.encode(body), self.end_id]

    def _insert_replies(
        self, parts: Sequence[str], replies: Sequence[Sequence[int]], frame: "_Frame"
    ) -> list[int]:
        """The ids of a rendered text that was cut at its sampled replies: `parts` has texts,
        and between two texts the index of a reply."""
        ids: list[int] = []
        sampled: Sequence[int] = ()
        for text, number in zip(parts[0::2], parts[1::2], strict=False):
            ids += self.encode(_before_reply(self._without_end(text, sampled), frame))
            sampled = replies[int(number)]
            ids += sampled
        return ids + self.encode(self._without_end(parts[-1], sampled))

    def _functions(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Tools in the form that chat templates expect."""
        known = self._tools.get(id(tools))
        if known is None:
            if len(self._tools) >= _MAX_TOOL_LISTS:
                self._tools.clear()
            functions = [_function(tool, self._escapes.escape) for tool in tools]
            known = self._tools[id(tools)] = (tools, functions)
        return known[1]

    def _without_end(self, text: str, sampled: Sequence[int]) -> str:
        """The text after a reply, without the end of turn if the agent sampled that."""
        if not sampled or sampled[-1] not in self.end_ids:
            return text
        return text.removeprefix(self._end_texts[sampled[-1]])

    def _end_of_turn(self, closing: str, configured: Sequence[int]) -> int:
        found = self._pieces.first_special(closing)
        if found is None and configured:
            return configured[0]
        if found is None:
            raise SettingsError(
                "the tokenizer has no end token: neither does the chat template end a turn with a"
                " special token, nor does generation_config.json name an eos_token_id"
            )
        return found


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


def _before_reply(text: str, frame: "_Frame") -> str:
    """The text before a reply, ending as the prompt ended from which the reply was sampled: some
    templates render earlier messages in another way (without the thought that the prompt began)."""
    if text.endswith(frame.generation_prompt):
        return text
    start = text.rfind(frame.header) if frame.header else -1
    return text if start < 0 else text[:start] + frame.generation_prompt


class _Frame(NamedTuple):
    """The texts that a template puts around replies.

    Example (ChatML): "<|im_start|>assistant\\n", the same, "<|im_end|>\\n"
    """

    header: str  # common beginning of the text before an earlier reply and the generation prompt
    generation_prompt: str
    closing: str  # after an earlier reply


def _frame(template: ChatTemplate, *, with_tools: bool = False) -> _Frame:
    """The frame of a template, or of its form for conversations with tools."""
    question = {"role": "user", "content": _USER}
    reply = {"role": "assistant", "content": _REPLY}

    def render(*messages: dict[str, Any]) -> str:
        return template.render(messages, add_generation_prompt=False, with_tools=with_tools)

    # Some templates end every conversation that does not ask for a reply with the end token.
    alone = render(question).removesuffix(template.end_text)
    asked = template.render([question], with_tools=with_tools)
    if not asked.startswith(alone):
        raise PolicyError(
            "the text that asks for a reply does not begin with the text of the conversation"
        )
    generation_prompt = asked.removeprefix(alone)
    closing = render(question, reply).partition(_REPLY)[2]
    earlier = render(question, reply, question).partition(_USER)[2]
    before = earlier.partition(_REPLY)[0].removeprefix(alone.partition(_USER)[2])
    return _Frame(_common_prefix(before, generation_prompt), generation_prompt, closing)


def _common_prefix(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


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

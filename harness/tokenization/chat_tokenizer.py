"""Windows as token ids: a model's chat template and tokenizer, without transformers and torch.

What the agent itself sampled stands in later prompts with exactly the ids that it sampled: text
tokenised again may give other ids, and then a log-probability belongs to a token that was never
sampled. So a prompt, and the reply that followed it, are together the beginning of the episode's
next prompt, as long as no turn falls out of the window.

    prompt 1     <|im_start|>user\\nVoid 7.<|im_end|>\\n<|im_start|>assistant\\n
    sampled      <tool_call>…</tool_call><|im_end|>
    prompt 2     (both of these)\\n<|im_start|>user\\n…<|im_end|>\\n<|im_start|>assistant\\n

Everything else is tokenised once and remembered: a system prompt is tokenised once per world. What
messages and tools say is data, and special tokens that it spells out are ordinary letters; only the
template writes special tokens (harness.tokenization.special_tokens).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from envpool.core.types import ToolSpec
from harness.core.errors import PolicyError, SettingsError
from harness.core.messages import AgentCall, Message, Window
from harness.tokenization.chat_template import (
    CONFIG_NAME,
    ChatTemplate,
    read_config,
    read_template,
    token_text,
)
from harness.tokenization.piece_cache import TextPieces
from harness.tokenization.special_tokens import CLOSE, OPEN, PlainData

# Stand for texts and replies in a conversation that is being rendered; data has none of them.
_USER, _REPLY = f"{OPEN}user{CLOSE}", f"{OPEN}reply{CLOSE}"
_OWN = re.compile(f"{OPEN}(\\d+){CLOSE}")
_MOST_TOOLS = 256  # lists of tools that are remembered


def own_key(text: str, calls: Sequence[AgentCall] = ()) -> str:
    """Under which a reply's sampled ids are found: its text, and its native calls if any."""
    if not calls:
        return text
    return text + "".join(
        f"{OPEN}{call.id} {call.name} {msgspec.json.encode(call.arguments).decode()}"
        for call in calls
    )


class ChatTokens:
    """One model's way from windows to ids and back. For one thread at a time."""

    def __init__(
        self, tokenizer: Tokenizer, template: ChatTemplate, end_ids: Sequence[int]
    ) -> None:
        """`end_ids` end a reply; the one with which the template ends a turn is found besides.

        Raises SettingsError where no token does, or the template takes no plain conversation.
        """
        self._tokenizer = tokenizer
        self._template = template
        self._data = PlainData(tokenizer)
        self._pieces = TextPieces(tokenizer, self._data.ids)
        self._tools: dict[int, tuple[Sequence[ToolSpec], list[dict[str, Any]]]] = {}
        self.name = f"tokens/{blake2b(tokenizer.to_str().encode(), digest_size=6).hexdigest()}"
        try:
            self._header, self._asking, self._closing = _frame(template)
        except PolicyError as exc:
            raise SettingsError(f"a plain conversation cannot be shown: {exc}") from exc
        self.end_id = self._end_of_turn(self._closing, end_ids)
        self.end_ids = frozenset([*end_ids, self.end_id])
        self._end_texts = {found: tokenizer.id_to_token(found) or "" for found in self.end_ids}

    @classmethod
    def open(cls, folder: Path) -> "ChatTokens":
        """Of a Hugging Face directory: tokenizer.json and chat template.

        Raises SettingsError naming the file.
        """
        path = folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as exc:  # the library raises nothing narrower
            raise SettingsError(f"{path}: the tokenizer cannot be read: {exc}") from exc
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls(tokenizer, read_template(folder), _told_ends(folder, tokenizer))

    @property
    def num_ids(self) -> int:
        """Ids that texts may have: they are below it."""
        number: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        return number

    def __call__(self, text: str) -> int:
        """The number of tokens of a message's text (harness.history.token_budget.TokenCounter)."""
        return len(self.encode(self._data.marked(text)))

    def encode(self, text: str) -> list[int]:
        """The ids of a template's text: special tokens that it spells out are those tokens."""
        return self._pieces.ids(text)

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say, special tokens left out.

        Tags that a dialect reads (`<tool_call>`) may be tokens of their own, but not special ones.
        """
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def prompt(self, window: Window, own: Mapping[str, Sequence[int]]) -> list[int]:
        """The ids that show a window and ask for the assistant's next message.

        `own` has the ids that the agent sampled for each of its replies so far, the end token
        included, by `own_key`; of replies that say the same, the newest. Raises PolicyError for
        a window that the template does not take.
        """
        messages: list[dict[str, Any]] = []
        replies: list[Sequence[int]] = []
        for message in window.messages:
            sampled = None
            if message.role == "assistant" and own:
                sampled = own.get(own_key(message.content, message.calls))
            if sampled is None:
                messages.append(wire(message, self._data.marked))
            else:
                messages.append({"role": "assistant", "content": f"{OPEN}{len(replies)}{CLOSE}"})
                replies.append(sampled)
        text = self._template.render(messages, self._functions(window.tools))
        return self._joined(_OWN.split(text), replies)

    def said(self, text: str, calls: Sequence[AgentCall] = ()) -> list[int]:
        """The ids with which an agent would have said this, the end token included; native calls
        as the template lays them out. Raises PolicyError."""
        if calls:
            asked = {"role": "user", "content": _USER}
            told = self._template.render(
                [asked, wire(Message("assistant", text, tuple(calls)), self._data.marked)],
                ask=False,
            )
            told = told.partition(_USER)[2]
            told = told[told.find(self._header) + len(self._header) :].removesuffix(self._closing)
        else:
            told = self._data.marked(text)
        return [*self.encode(told), self.end_id]

    def _joined(self, parts: Sequence[str], replies: Sequence[Sequence[int]]) -> list[int]:
        """The ids of a text that was cut at its replies: texts, and between them the replies'
        numbers."""
        ids: list[int] = []
        sampled: Sequence[int] = ()
        for text, number in zip(parts[0::2], parts[1::2], strict=False):
            ids += self.encode(self._before_reply(self._without_end(text, sampled)))
            sampled = replies[int(number)]
            ids += sampled
        return ids + self.encode(self._without_end(parts[-1], sampled))

    def _functions(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Tools as chat templates take them."""
        known = self._tools.get(id(tools))
        if known is None:
            if len(self._tools) >= _MOST_TOOLS:
                self._tools.clear()
            told = [_function(tool, self._data.marked) for tool in tools]
            known = self._tools[id(tools)] = (tools, told)
        return known[1]

    def _before_reply(self, text: str) -> str:
        """A text that ends as the prompt did behind which the reply was sampled: some templates
        lay out earlier messages in another way (without the thought that the prompt began)."""
        if text.endswith(self._asking):
            return text
        place = text.rfind(self._header) if self._header else -1
        return text if place < 0 else text[:place] + self._asking

    def _without_end(self, text: str, sampled: Sequence[int]) -> str:
        """What follows a reply, without the end of turn where the agent has sampled it."""
        if not sampled or sampled[-1] not in self.end_ids:
            return text
        return text.removeprefix(self._end_texts[sampled[-1]])

    def _end_of_turn(self, closing: str, told: Sequence[int]) -> int:
        found = self._pieces.first_special(closing)
        if found is None and told:
            return told[0]
        if found is None:
            raise SettingsError(
                "the tokenizer has no end token: neither does the chat template end a turn with a"
                " special token, nor does generation_config.json name an eos_token_id"
            )
        return found


def _same(value: Any) -> Any:
    return value


def wire(message: Message, marked: Callable[[Any], Any] = _same) -> dict[str, Any]:
    """A message as chat templates take it: arguments of calls are objects, not texts. `marked` is
    applied to what it says."""
    told: dict[str, Any] = {"role": message.role, "content": marked(message.content)}
    if message.calls:
        told["tool_calls"] = [
            {
                "type": "function",
                "id": marked(call.id),
                "function": {"name": marked(call.name), "arguments": marked(call.arguments)},
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        told["tool_call_id"] = marked(message.call_id)
    return told


def _function(tool: ToolSpec, marked: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": marked(tool.name),
            "description": marked(tool.description),
            "parameters": marked(tool.schema),
        },
    }


def _frame(template: ChatTemplate) -> tuple[str, str, str]:
    """How the texts begin alike that the template puts before an earlier reply and before the one
    that it asks for; the latter; what it puts after an earlier one.

    Example (ChatML): "<|im_start|>assistant\\n", the same, "<|im_end|>\\n"
    """
    asked = {"role": "user", "content": _USER}
    silent = template.render([asked], ask=False)
    asking = template.render([asked]).removeprefix(silent)
    said = {"role": "assistant", "content": _REPLY}
    closing = template.render([asked, said], ask=False).partition(_REPLY)[2]
    earlier = template.render([asked, said, asked], ask=False).partition(_USER)[2]
    before = earlier.partition(_REPLY)[0].removeprefix(silent.partition(_USER)[2])
    return _shared(before, asking), asking, closing


def _shared(one: str, other: str) -> str:
    """How both texts begin."""
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _told_ends(folder: Path, tokenizer: Tokenizer) -> list[int]:
    """The end tokens that a directory names: those of generation_config.json, else config.json's,
    else the tokenizer's own."""
    for name in ("generation_config.json", "config.json"):
        told = read_config(folder / name).get("eos_token_id")
        ids = told if isinstance(told, list) else [told]
        found = [number for number in ids if isinstance(number, int)]
        if found:
            return found
    text = token_text(read_config(folder / CONFIG_NAME).get("eos_token") or "")
    number = tokenizer.token_to_id(text) if text else None
    return [] if number is None else [number]

"""Chat templates that others wrote, in the dialects hermes and native: accepted, refused or wrong.

    python -m tests.support.template_table [PATH...]      prints the table (`just templates`)

PATH is a template, a model's folder, or a folder that has some, such as an unpacked package of TRL
or the source archive of llama-cpp-python. Without one, the packages `transformers` and `trl` of
this environment are searched, as far as they are installed. A template without a tokenizer gets one
that is trained on its own text, with the special tokens that it writes.

What is accepted is compared with transformers' `apply_chat_template`, not with our own rendering:
the whole prompt with replies that were sampled is put together from its texts, and each reply that
we encode is compared with the text that it writes. Where that differs, the template is `WRONG`.
"""

import ast
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import structlog
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import HarnessError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Briefing, FormatError, Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.policies.token_agent import split_tool_calls
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer, reply_key
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.scenarios.format import Call

DIALECTS = ("hermes", "native")
OK = "ok"
NOT_READ = "ok, but calls as it writes them are not read"  # by policies `local` and `vllm`
_PACKAGES = ("transformers", "trl")  # that carry templates
_BOS, _EOS = "<|bos|>", "<|eos|>"
_LOOPS = re.compile(r"\{%-?\s*for \w+ in [^%]{0,20}messages")
# Special tokens of the usual families, as templates write them.
_SPECIAL = re.compile(
    r"<\|[^|<>\s]+\|>|<\|[a-z_\"]+>|<[a-z_]+\|>|<｜[^｜<>]+｜>|\[e~\[|\]~!?[a-z]\[?\]?|<SPECIAL_\d+>"
    r"|\[/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|SYSTEM_PROMPT|ARGS|CALL_ID"
    r"|gMASK)\]|</?s>|<(?:seed:)?[be]os>|<(?:start|end|beginning)_of_(?:turn|sentence)>|<s[eo]p>|</?assistant>"
)
_TAGS = re.compile(r"</?[a-z]+(?:[_:][a-z]+)*>")  # tokens of their own, but not special
_DATA = re.compile(r"kx\d+z")  # words by which data is found in a text
_THOUGHT = "</think>"  # the end of one
_NOW = "2026-05-12T09:00:00Z"

_TOOLS = (
    ToolSpec(
        "get_order",
        "Reads an order <by its id> & its state.",
        {
            "type": "object",
            "properties": {"order_id": {"type": "string", "description": "The id."}},
            "required": ["order_id"],
        },
    ),
    ToolSpec("list_orders", "Lists all.", {"type": "object", "properties": {}, "required": []}),
)
_BRIEFING = Briefing("Void order kx1z.", "# Rules\n\nVoid nothing else.", _TOOLS, "Ann", _NOW)


class Template(msgspec.Struct, frozen=True):
    """A chat template and where it comes from; `folder` is the model's, if there is one."""

    name: str
    source: str
    folder: Path | None = None


def templates_in(path: Path) -> Iterator[Template]:
    """The templates of a file or folder, in order: Jinja files, model folders, and the texts in
    modules where transformers keeps some (`processing_*.py`)."""
    if path.is_file():
        yield from _templates_of_file(path)
    elif (path / "tokenizer.json").exists():
        yield Template(path.name, "", path)
    else:
        for one in sorted(path.iterdir()):
            if one.is_dir() or one.suffix == ".jinja" or one.match("processing_*.py"):
                yield from templates_in(one)


def installed() -> Iterator[Template]:
    """The templates of the packages that carry some, of this environment."""
    for name in _PACKAGES:
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from templates_in(Path(folder))


def _templates_of_file(path: Path) -> Iterator[Template]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if "{%" not in text or not _LOOPS.search(text):
        return
    if path.suffix != ".py":
        yield Template(path.name, text)
        return
    texts = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    for source in texts:
        if isinstance(source, str) and _LOOPS.search(source):
            yield Template(path.name, source)


def open_template(template: Template) -> tuple[ChatTokenizer, PreTrainedTokenizerFast]:
    """Our tokenizer of a template, and transformers'. Raises HarnessError."""
    if template.folder is not None:
        theirs = PreTrainedTokenizerFast.from_pretrained(template.folder)
        return ChatTokenizer.open(template.folder), theirs
    tokenizer = trained_tokenizer(template.source)
    names = {"bos_token": _BOS, "eos_token": _EOS}
    path = Path(template.name)
    ours = ChatTokenizer(
        tokenizer,
        ChatTemplate(template.source, names, path=path),
        [tokenizer.token_to_id(_EOS)],
    )
    theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
    theirs.chat_template = template.source
    return ours, theirs


def trained_tokenizer(source: str) -> Tokenizer:
    """A byte-level tokenizer for a template: its text is what it was trained on."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = sorted({*_SPECIAL.findall(source), _BOS, _EOS})
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([source], trainer)
    tags = sorted({*_TAGS.findall(source)} - {*special})
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in tags])
    return tokenizer


class Theirs:
    """What transformers makes of messages, at the time of the world's clock."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, tools: Sequence[ToolSpec]) -> None:
        self._tokenizer = tokenizer
        self._tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            }
            for tool in tools
        ]

    def text(self, messages: Sequence[Message], *, asks: bool = True) -> str:
        """The text of a conversation."""
        shown = [_as_chat(message) for message in messages]
        with patch.object(chat_template_utils, "datetime", _Clock):
            text: str = self._tokenizer.apply_chat_template(
                shown, tools=self._tools or None, add_generation_prompt=asks, tokenize=False
            )
        return text

    def ids(self, text: str) -> list[int]:
        """The ids of a text as a whole."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids


class _Clock(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> "_Clock":
        return cls.fromisoformat(_NOW)


def _as_chat(message: Message) -> dict[str, Any]:
    chat: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        chat["tool_calls"] = [
            {"type": "function", "id": call.id,
             "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.calls
        ]  # fmt: skip
    if message.call_id is not None:
        chat["tool_call_id"] = message.call_id
    return chat


def turns_of(dialect: Dialect) -> list[tuple[Message, ...]]:
    """The turns of a conversation: calls with and without a text, a failed one, two at once, and
    a reply that cannot be read."""
    said = [("", 1), ("", 1), ("I look at kx9z.", 1), ("", 2), ("", 1)]
    turns, number = [], 10
    for turn, (text, count) in enumerate(said):
        calls = [Call("get_order", {"order_id": f"kx{number + i}z für <x>"}) for i in range(count)]
        reply = dialect.write(calls, text, turn=turn)
        results = tuple(
            ToolResult(f'{{"state": "kx{number + 50 + i}z"}}', None, (), "") for i in range(count)
        )
        if turn == 1:
            results = (ToolResult("no order kx61z", "not_found", (), ""),)
        turns.append(
            dialect.turn_messages(StepTaken(reply, dialect.read(reply, turn=turn), results))
        )
        number += count
    broken = StepTaken(Reply("kx80z?"), FormatError("kx81z cannot be read."))
    return [*turns[:3], dialect.turn_messages(broken), *turns[3:]]


def fault(ours: ChatTokenizer, tokenizer: PreTrainedTokenizerFast, dialect: Dialect) -> str:
    """In what our prompts and replies differ from transformers' texts; empty: in nothing."""
    head, tools = dialect.opening_messages(_BRIEFING), dialect.request_tools(_BRIEFING)
    theirs, turns = Theirs(tokenizer, tools), turns_of(dialect)
    for first in range(len(turns)):
        for end in range(first, len(turns) + 1):
            if found := _fault_of_window(ours, theirs, head, turns[first:end], tools):
                return f"turns {first} to {end}: {found}"
    return ""


def _fault_of_window(
    ours: ChatTokenizer,
    theirs: Theirs,
    head: tuple[Message, ...],
    turns: Sequence[tuple[Message, ...]],
    tools: tuple[ToolSpec, ...],
) -> str:
    messages = head
    expected = asked = theirs.text(head)
    sampled: dict[str, list[int]] = {}
    for number, turn in enumerate(turns):
        reply = turn[0]
        window = Window(messages, tools)
        turn, encoded = _written(ours, turn, window)
        messages = (*messages, *turn)
        now = theirs.text(messages)
        before = _last_data(now, messages[: -len(turn)])
        after = _last_data(now, messages[: -len(turn) + 1])
        if found := _fault_of_reply(
            ours.text_of(encoded),
            asked[_last_data(asked, messages[: -len(turn)]) :],
            now[before:],
            after - before,
        ):
            return f"reply {number}: {found}"
        text = f" look\n\n{number}</think> at <odd> {number} "
        ids = [*ours.encode(text), encoded[-1]]
        sampled[reply_key(reply.content, reply.calls)] = ids
        sampled[reply_key(turn[0].content, turn[0].calls)] = ids
        rest = _after_end(
            now[after:], ours.text_of(encoded[-1:]), theirs, messages[: -len(turn) + 1]
        )
        expected += ours.text_of(ids) + rest
        asked = now
    if not turns:
        window = Window(head, tools)
        whole = theirs.ids(asked)
        return "" if ours.prompt(window, {}) == whole else "the first prompt has other ids"
    full = Window((*head, *(message for turn in turns for message in turn)), tools)
    with_all = ours.text_of(ours.prompt(full, sampled))
    if with_all != expected:
        return _difference(expected, with_all)
    if messages == full.messages and ours.prompt(full, {}) != theirs.ids(asked):
        return "the prompt without sampled replies has other ids"
    return ""


def _written(
    ours: ChatTokenizer, turn: tuple[Message, ...], window: Window
) -> tuple[tuple[Message, ...], list[int]]:
    """A turn as the template can write it, and its encoded reply. Some know replies with one call
    only, or without a text beside it; a model may write either all the same."""
    reply = turn[0]
    without_text = msgspec.structs.replace(reply, content="")
    simpler = [without_text, msgspec.structs.replace(without_text, calls=reply.calls[:1])]
    for one in (reply, *(simpler if reply.calls else [])):
        try:
            encoded = ours.encode_reply(one.content, one.calls, window=window)
        except HarnessError as exc:
            refusal = exc
        else:
            return (one, *turn[1:]), encoded
    raise refusal


def _last_data(text: str, messages: Sequence[Message]) -> int:
    """Where the last data of the last of some messages ends in a text."""
    words = _DATA.findall(repr(_as_chat(messages[-1])))
    return max(text.rfind(word) + len(word) for word in words)


def _after_end(text: str, end: str, theirs: Theirs, shown: Sequence[Message]) -> str:
    """The text from the end of a reply on, of that after its last data: after its end token, if the
    template writes that one."""
    reply = shown[-1]
    data = _DATA.search(text)
    until = data.start() if data else len(text)
    if end in text[:until]:
        return text[text.find(end) + len(end) :]
    if not reply.calls:
        return text.removeprefix(_DATA.split(reply.content)[-1])
    alone = theirs.text(shown, asks=False)
    return text.removeprefix(alone[_last_data(alone, shown) :])


def _fault_of_reply(encoded: str, asks: str, own: str, length: int) -> str:
    """How an encoded reply differs from the one that the template writes. `asks` is the text that
    asks for the reply; `own` the template's text from there, in which the reply's last data ends at
    `length`."""
    first = _DATA.search(own)
    assert first is not None
    found = _DATA.search(encoded)
    if found is None or found[0] != first[0]:
        return "an encoded reply has other data"
    body = own[first.start() : length]
    if not encoded[found.start() :].startswith(body):
        return _difference(body, encoded[found.start() :])
    start, begins = own[: first.start()], encoded[: found.start()]
    plain = _without_thought(start)
    if not plain.endswith(_without_thought(begins)):
        return f"an encoded reply begins with {begins!r}, the template's with {start!r}"
    together = asks + begins
    if together.rfind("<think>") > together.rfind(_THOUGHT):
        return f"an encoded reply stands in a thought: {together[-40:]!r}"
    if (_THOUGHT in start and _THOUGHT in together) and (
        together.rpartition(_THOUGHT)[2] != start.rpartition(_THOUGHT)[2]
    ):
        return f"an encoded reply follows a thought as {together[-40:]!r}, not {start[-40:]!r}"
    shown = _without_thought(asks)
    shared = next((i for i in range(len(plain), 0, -1) if shown.startswith(plain[:i])), 0)
    if not _without_thought(together).endswith(plain[shared:]):
        return f"an encoded reply lacks its beginning {plain[shared:]!r}"
    return ""


def _without_thought(text: str) -> str:
    return re.sub(r"\s|</?think>", "", text)


def _difference(expected: str, found: str) -> str:
    at = next(
        (i for i, (one, two) in enumerate(zip(expected, found, strict=False)) if one != two),
        min(len(expected), len(found)),
    )
    start = max(0, at - 30)
    return f"expected {expected[start : at + 50]!r}, found {found[start : at + 50]!r}"


class Row(msgspec.Struct, frozen=True):
    """A template's row: `ok`, a reason why it is refused, or `WRONG` with the difference."""

    template: str
    cells: tuple[str, ...]  # by DIALECTS; one where the template cannot be opened


def row_of(template: Template) -> Row:
    """What each dialect makes of a template."""
    try:
        ours, theirs = open_template(template)
    except HarnessError as exc:
        return Row(template.name, (f"cannot be opened: {exc}",))
    return Row(template.name, tuple(_cell(ours, theirs, dialect_of(one)) for one in DIALECTS))


def _cell(ours: ChatTokenizer, theirs: PreTrainedTokenizerFast, dialect: Dialect) -> str:
    try:
        check_template(ours, dialect, model="")
    except HarnessError as exc:
        return str(exc).partition(f"dialect {dialect.name!r}: ")[2].rpartition("; ")[0]
    try:
        found = fault(ours, theirs, dialect)
        if not found and not reads_calls(ours, dialect):
            return NOT_READ
    except HarnessError as exc:
        found = str(exc)
    return f"WRONG: {found}" if found else OK


def reads_calls(ours: ChatTokenizer, dialect: Dialect) -> bool:
    """Whether policies with tokens read the calls that the template writes."""
    reply = turns_of(dialect)[0][0]
    text = ours.decode(ours.encode_reply(reply.content, reply.calls))
    calls = split_tool_calls(text, 0)[1]
    return [call.arguments for call in calls] == [{"order_id": "kx10z für <x>"}]


def main(paths: Sequence[str]) -> int:
    """Write the table. The exit status is 1 where an accepted template is wrong."""
    found = [one for path in paths for one in templates_in(Path(path))] if paths else [*installed()]
    counts: Counter[str] = Counter()
    sys.stdout.write(f"| template | {' | '.join(DIALECTS)} |\n|---|---|---|\n")
    for template in found:
        row = row_of(template)
        sys.stdout.write(f"| {' | '.join([row.template, *row.cells])} |\n")
        sys.stdout.flush()
        if len(row.cells) < len(DIALECTS):
            counts["cannot be opened"] += 1
            continue
        for name, cell in zip(DIALECTS, row.cells, strict=True):
            word = cell.partition(":")[0] if cell.startswith("WRONG") else "refused"
            counts[f"{name} {'accepted' if cell in (OK, NOT_READ) else word}"] += 1
            counts[f"{name} accepted whose calls are not read"] += cell == NOT_READ
    counted = ", ".join(f"{counts[key]} {key}" for key in sorted(counts) if counts[key])
    sys.stdout.write(f"\n{len(found)} templates: {counted}\n")
    return int(any(key.endswith("WRONG") for key in counts))


if __name__ == "__main__":
    # The table itself says what the check logs.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    sys.exit(main(sys.argv[1:]))

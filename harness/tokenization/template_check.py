"""What a chat template makes of an agent's windows: checked once, before a run renders any.

Windows are conversations that most templates were not written for: turns are missing in the middle,
results come as messages of their own, the agent's replies are put in as the ids that it sampled.
Here a short conversation in the run's dialect is rendered as windows are, in full and with turns
left out, and compared with what the template itself makes of the same messages (transformers'
`apply_chat_template`). Either

- every prompt has the ids of the template's own text, each message and tool is in it once, in
  order, and no placeholder;
- a prompt with sampled replies has the same text outside of them, letter by letter, up to the text
  that asks for the next one; before each it asks as the template asks there;
- a reply that was not sampled has the text that the template gives it;
- a prompt and the reply to it begin the next prompt, while no turn is left out;
- a turn has the same text, whichever turns before it are left out;

or the run is refused by a sentence that names template, dialect and reason, and the dialects that
the template can render. Covers calls and results, two calls in one, summaries and format errors;
does not cover what a template refuses only for some data: that ends the episode as `policy_error`.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import structlog
from msgspec.structs import replace

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    Briefing,
    FormatError,
    Message,
    Reply,
    Window,
)
from rehearsal_room.harness.dialects.base import Dialect, without_thoughts
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.harness.tokenization.chat_template import NO_DATE
from rehearsal_room.harness.tokenization.chat_tokenizer import (
    ChatTokenizer,
    reply_key,
    template_message,
)
from rehearsal_room.harness.tokenization.special_tokens import OPEN
from rehearsal_room.scenarios.format import Call

_MARK = re.compile(r"zq\d+z")  # words by which a message is found in a prompt
_TOOL = ToolSpec(
    "zq1z",
    "Finds zq2z.",
    {"type": "object", "properties": {"zq3z": {"type": "string"}}, "required": ["zq3z"]},
)
_BRIEFING = Briefing("Find zq10z.", "Change nothing but zq11z.", (_TOOL,), "", "")
_NUM_TURNS = 4
_NOT_READ = (
    "the chat template writes calls in a form of its own, but only <tool_call> JSON in a reply is"
    " read as a call: the model must learn that form; dialect hermes describes it in the prompt"
)
_AFTER_WORDS = (
    "the text that asks for a reply begins it with these words (a thought, perhaps): a reply that"
    " was not sampled, as in cloning, follows them as it is"
)
_log = structlog.get_logger(__name__)


class _UnsuitableError(Exception):
    """The template cannot render windows; the message is the reason, a clause."""


def check_template(chat: ChatTokenizer, dialect: Dialect, *, model: str) -> None:
    """Check that a model's chat template renders windows of this dialect; `model` is for messages.

    Logs which date the template gets if it writes one, with which words it begins replies, and
    whether the calls that it writes are not read by policies with tokens, which read `<tool_call>`
    JSON. Raises SettingsError.
    """
    reason = _fault(chat, dialect)
    if reason is None:
        if chat.writes_date:
            _log.info(
                "template_date", model=model, date="the world's clock", otherwise=str(NO_DATE)
            )
        if words := chat.words_before_reply(_opening(dialect)):
            _log.warning("replies_after_words", model=model, words=words, why=_AFTER_WORDS)
        if not _reads_calls(chat, dialect):
            _log.warning("calls_not_read", model=model, dialect=dialect.name, why=_NOT_READ)
        return
    others = [name for name in NAMES if name != dialect.name]
    able = [name for name in others if _fault(chat, dialect_of(name)) is None]
    advice = (
        f"use one of the dialects that it can render: {', '.join(able)}"
        if able
        else "it renders no other dialect either: use another chat template (chat_template.jinja)"
    )
    raise SettingsError(
        f"{model}: the chat template cannot render windows of dialect {dialect.name!r}: {reason};"
        f" {advice}"
    )


def _reads_calls(chat: ChatTokenizer, dialect: Dialect) -> bool:
    """Whether a call that the template writes is read as that call."""
    reply = dialect.write([Call(_TOOL.name, {"zq3z": "zq20z"})], "", turn=0)
    if not reply.calls:
        return True
    ids = chat.encode_reply(reply.text, reply.calls, window=_opening(dialect))
    return isinstance(dialect_of("hermes").read(Reply(chat.decode(ids)), turn=0), Act)


def _opening(dialect: Dialect) -> Window:
    return Window(dialect.opening_messages(_BRIEFING), dialect.request_tools(_BRIEFING))


def _fault(chat: ChatTokenizer, dialect: Dialect) -> str | None:
    try:
        _check(chat, dialect)
    except _UnsuitableError as exc:
        return str(exc)
    except PolicyError as exc:
        return _reason_of(exc)
    return None


def _reason_of(error: PolicyError) -> str:
    """Why a template raised an error.

    Example: "…: the chat template refuses the window: no system role" -> "it refuses a window (no
    system role)"
    """
    where, _, why = str(error).rpartition(": ")
    return f"it refuses a window ({why})" if where.endswith(" the window") else why


def _check(chat: ChatTokenizer, dialect: Dialect) -> None:
    head, tools = dialect.opening_messages(_BRIEFING), dialect.request_tools(_BRIEFING)
    steps = _steps(dialect)
    turns = [dialect.turn_messages(step) for step in steps]
    sampled: dict[str, list[int]] = {}
    before: list[int] = []
    for end in range(len(turns) + 1):
        window = _window(head, turns[:end], tools)
        prompt = _checked_prompt(chat, window, sampled)
        if prompt[: len(before)] != before:
            raise _UnsuitableError("it changes earlier messages when later ones follow")
        if end < len(turns):
            before = prompt + _add_reply(chat, dialect, window, turns[end][0], sampled)
    full = chat.text_of(prompt)
    for first in range(1, len(turns)):
        kept = turns[first:]
        prompt = _checked_prompt(chat, _window(head, kept, tools), sampled)
        if not full.endswith(_from_second_message(chat.text_of(prompt), kept)):
            raise _UnsuitableError("it renders a turn differently when earlier ones are left out")
    note = (Message("assistant", "zq90z is done."), Message("user", "Go on with zq91z."))
    _checked_prompt(chat, _window(head, [note, turns[-1]], tools), sampled)
    _check_two_calls(chat, dialect, head, tools)


def _check_two_calls(
    chat: ChatTokenizer, dialect: Dialect, head: Sequence[Message], tools: tuple[ToolSpec, ...]
) -> None:
    """Whether both results of a reply with two calls are shown, also by a template that knows
    replies with one call only."""
    step = _two_calls(dialect)
    if step is None:
        return
    reply, *results = dialect.turn_messages(step)
    written = reply
    start = _window(head, [], tools)
    sampled: dict[str, list[int]] = {}
    try:
        _add_reply(chat, dialect, start, reply, sampled)
    except PolicyError:
        written = replace(reply, calls=reply.calls[:1])
        sampled[_key(reply)] = _add_reply(chat, dialect, start, written, sampled)
    prompt = _checked_prompt(chat, _window(head, [(written, *results)], tools), sampled)
    if prompt != chat.prompt(_window(head, [(reply, *results)], tools), sampled):
        raise _UnsuitableError("it renders the results of two calls differently")


def _add_reply(
    chat: ChatTokenizer,
    dialect: Dialect,
    window: Window,
    reply: Message,
    sampled: dict[str, list[int]],
) -> list[int]:
    """The ids of a reply to a window, which are added to the sampled ones."""
    ids = chat.encode_reply(reply.content, reply.calls, window=window)
    texts = (reply.content, chat.decode(ids))
    if not reply.calls and len({repr(dialect.read(Reply(text), turn=0)) for text in texts}) > 1:
        raise _UnsuitableError("a reply has words of the template in its text")
    sampled[_key(reply)] = ids
    return ids


def _key(reply: Message) -> str:
    return reply_key(reply.content, reply.calls)


def _window(
    head: Sequence[Message], turns: Sequence[Sequence[Message]], tools: tuple[ToolSpec, ...]
) -> Window:
    return Window((*head, *(message for turn in turns for message in turn)), tools)


def _steps(dialect: Dialect) -> list[StepTaken]:
    """The steps of a conversation: what an agent must call first, calls with results, and a reply
    that could not be read."""
    calls = [*dialect.opening_calls()]
    calls += [Call(_TOOL.name, {"zq3z": f"zq{20 + turn}z"}) for turn in range(_NUM_TURNS)]
    steps = []
    for turn, call in enumerate(calls):
        reply = dialect.write([call], "", turn=turn)
        # Templates may drop the thoughts of earlier replies, but never what was said.
        reply = Reply(without_thoughts(reply.text), reply.calls, reply.finish)
        result = ToolResult(f"zq{50 + turn}z was found.", None, (), "")
        steps.append(StepTaken(reply, dialect.read(reply, turn=turn), (result,)))
    broken = StepTaken(Reply("zq80z?"), FormatError("zq81z cannot be read."))
    return [*steps[:-1], broken, steps[-1]]


def _two_calls(dialect: Dialect) -> StepTaken | None:
    """A step with two calls; None: a reply of this dialect has one."""
    calls = [Call(_TOOL.name, {"zq3z": f"zq{number}z"}) for number in (70, 71)]
    try:
        reply = dialect.write(calls, "", turn=0)
    except ValueError:
        return None
    results = [ToolResult(f"zq{number}z was found.", None, (), "") for number in (72, 73)]
    return StepTaken(reply, dialect.read(reply, turn=0), tuple(results))


def _checked_prompt(
    chat: ChatTokenizer, window: Window, sampled: dict[str, list[int]]
) -> list[int]:
    """The prompt with sampled replies. Raises _UnsuitableError where it or the one without them is
    not what it must be."""
    plain = chat.prompt(window, {})
    text = chat.render(window)
    if plain != chat.encode_whole(text):
        raise _UnsuitableError("parts of its text have other tokens than the whole")
    _check_marks(text, window)
    prompt = chat.prompt(window, sampled)
    found = chat.text_of(prompt)
    if OPEN in found:
        raise _UnsuitableError("a placeholder of a text is left in a prompt")
    _check_marks(found, window)
    _check_texts(chat, window, sampled, (found, chat.text_of(plain)))
    return prompt


def _check_texts(
    chat: ChatTokenizer, window: Window, sampled: Collection[str], prompts: tuple[str, str]
) -> None:
    """Whether a prompt with sampled replies, the first text, says what the one without says.
    Between a reply and the message before it stand what asks for it and its own beginning."""
    tools = _marks(window.tools)
    begins: dict[int, int] = {}  # the pieces before the replies, and the replies' numbers
    num_marks = 0
    for number, message in enumerate(window.messages):
        if message.role == "assistant" and _key(message) in sampled:
            begins[num_marks] = number
        num_marks += len([one for one in _marks(template_message(message)) if one not in tools])
    pairs = zip(*(_pieces(text, tools) for text in prompts), strict=True)
    for index, (text, own) in enumerate(pairs):
        # The end token of a reply that was not sampled may be one that the template does not write.
        unwritten = [end for end in chat.end_texts if end not in own]
        texts = [text, *(text.replace(end, "", 1) for end in unwritten)]
        if index in begins:
            shown = Window(window.messages[: begins[index]], window.tools)
            asks = _pieces(chat.text_of(chat.prompt(shown, {})), tools)[-1]
            whole = _without_thought(own)
            is_own = text.startswith(asks) and any(
                whole.endswith(_without_thought(one.removeprefix(asks))) for one in texts
            )
        else:
            is_own = own in texts
        if not is_own:
            raise _UnsuitableError(
                "a reply that is put in as it was sampled gives another conversation than its text"
            )


def _pieces(text: str, tools: Collection[str]) -> list[str]:
    """The parts of a text between its marks, other than those of tools."""
    pieces, start = [], 0
    for found in _MARK.finditer(text):
        if found[0] not in tools:
            pieces.append(text[start : found.start()])
            start = found.end()
    return [*pieces, text[start:]]


def _without_thought(text: str) -> str:
    """A text without an empty thought, and without blanks."""
    return re.sub(r"\s|</?think>", "", text)


def _check_marks(text: str, window: Window) -> None:
    """Whether each message and tool is in the text once, and messages are in order."""
    tools = _marks(window.tools)
    for mark, count in Counter(tools).items():
        if text.count(mark) < count:
            raise _UnsuitableError("it does not show the tools of a request")
    expected = [
        (mark, message.role)
        for message in window.messages
        for mark in _marks(template_message(message))
        if mark not in tools
    ]
    found = [mark for mark in _MARK.findall(text) if mark not in tools]
    for mark, role in expected:
        if mark not in found:
            raise _UnsuitableError(f"it leaves out a message of role {role!r}")
    if found != [mark for mark, _ in expected]:
        raise _UnsuitableError("it repeats messages, or changes their order")


def _marks(value: Any) -> list[str]:
    """The marks in the texts of some data, in order."""
    return _MARK.findall(repr(value))


def _from_second_message(text: str, turns: Sequence[Sequence[Message]]) -> str:
    """The end of a prompt, from the last mark of its first kept reply on."""
    first = [mark for mark in _marks(turns[0][0]) if mark != _TOOL.name]
    return text[text.rfind(first[-1]) :] if first else text[-1:]

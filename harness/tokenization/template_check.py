"""What a chat template makes of an agent's windows: checked once, before a run renders any.

Windows are conversations that most templates were not written for: turns are missing in the middle,
results come as messages of their own, the agent's replies are put in as the ids that it sampled.
Here a short conversation in the run's dialect is rendered as windows are, in full and with turns
left out, and compared with what the template itself makes of the same messages (transformers'
`apply_chat_template`). Either

- every prompt has the ids of the template's own text, each message and tool is in it once, in
  order, and no placeholder;
- a prompt and the reply to it begin the next prompt, while no turn is left out;
- a turn has the same text, whichever turns before it are left out;

or the run is refused by a sentence that names template, dialect and reason, and the dialects that
the template can render. Covers single calls and results, summaries and format errors; does not
cover what a template refuses only for some data: that ends the episode as `policy_error`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Briefing, FormatError, Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect, without_thoughts
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
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


class _UnsuitableError(Exception):
    """The template cannot render windows; the message is the reason, a clause."""


def check_template(chat: ChatTokenizer, dialect: Dialect, *, model: str) -> None:
    """Check that a model's chat template renders windows of this dialect; `model` is for messages.

    Raises SettingsError.
    """
    reason = _fault(chat, dialect)
    if reason is None:
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
    return f"it refuses a window ({str(error).rpartition(' the window: ')[2]})"


def _check(chat: ChatTokenizer, dialect: Dialect) -> None:
    head, tools = dialect.opening_messages(_BRIEFING), dialect.request_tools(_BRIEFING)
    steps = _steps(dialect)
    turns = [dialect.turn_messages(step) for step in steps]
    sampled = {
        reply_key(turn[0].content, turn[0].calls): chat.encode_reply(turn[0].content, turn[0].calls)
        for turn in turns
    }
    before: list[int] = []
    for end in range(len(turns) + 1):
        window = _window(head, turns[:end], tools)
        prompt = _checked_prompt(chat, window, sampled)
        if prompt[: len(before)] != before:
            raise _UnsuitableError("it changes earlier messages when later ones follow")
        if end < len(turns):
            reply = turns[end][0]
            before = prompt + list(sampled[reply_key(reply.content, reply.calls)])
    full = chat.text_of(prompt)
    for first in range(1, len(turns)):
        kept = turns[first:]
        prompt = _checked_prompt(chat, _window(head, kept, tools), sampled)
        if not full.endswith(_from_second_message(chat.text_of(prompt), kept)):
            raise _UnsuitableError("it renders a turn differently when earlier ones are left out")
    note = (Message("assistant", "zq90z is done."), Message("user", "Go on with zq91z."))
    _checked_prompt(chat, _window(head, [note, turns[-1]], tools), sampled)


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
    if chat.begins_replies_alike and _essence(found, chat) != _essence(chat.text_of(plain), chat):
        raise _UnsuitableError(
            "a reply that is put in as it was sampled gives another conversation than its text"
        )
    _check_marks(found, window)
    return prompt


def _essence(text: str, chat: ChatTokenizer) -> str:
    """A prompt without what a template may add to a reply or strip from it, and what a reply that
    was sampled has or lacks of its own: spaces, an empty thought, the end of the turn."""
    for end in chat.end_texts:
        text = text.replace(end, "")
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

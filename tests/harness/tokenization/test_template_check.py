"""Chat templates that cannot render an agent's windows are refused; the others render them as they
render whole conversations.

The templates have traits of those that models come with; none is a model's own.
"""

import string
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.messages import Message, Window
from rehearsal_room.harness.dialects.registry import NAMES, dialect_of
from rehearsal_room.harness.tokenization.chat_template import ChatTemplate
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from tests.harness.tokenization.test_chat_tokenizer import NO_FRAME, THINKING
from tests.support.tiny_model import END, TEMPLATE, TEXTS, tiny_tokenizer

ENDS = "<|endoftext|>"
MESSAGE = "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
# Ends every conversation that does not ask for a reply with the end token, and has no tools.
APPENDS_END = (
    f"{{% for message in messages %}}{MESSAGE}{{% endfor %}}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}{{ eos_token }}{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    + TEMPLATE
)
NO_TOOL_ROLE = TEMPLATE.replace(
    "{%- for message in messages %}",
    "{%- for message in messages if message.role in ('system', 'user', 'assistant') %}",
)
COUNTS = TEMPLATE.replace(
    "{{ message.content }}",
    "{{ loop.index ~ '. ' if message.role == 'user' }}{{ message.content }}",
)
MARKS_LAST = TEMPLATE.replace(
    "{{ message.content }}",
    "{{ 'Last: ' if message.role == 'user' and loop.revindex < 3 }}{{ message.content }}",
)
REPEATS = TEMPLATE.replace("{{ message.content }}", "{{ message.content }} {{ message.content }}")
CLOCK = "{{ strftime_now('%Y-%m-%d') }}" + TEMPLATE
# As templates that fall back to a fixed date.
MAYBE_CLOCK = "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}" + TEMPLATE
# Adds the recipient to earlier replies; a sampled one has it among its own tokens.
ADDRESSED = TEMPLATE.replace(
    "{{ message.role }}", "{{ message.role }}{{ ' to user' if message.role == 'assistant' }}"
).replace("assistant\n{% endif", "assistant{% endif")


def chat_of(template: str) -> ChatTokenizer:
    names = {"eos_token": ENDS}
    return ChatTokenizer(tiny_tokenizer(), ChatTemplate(template, names, path=Path("here")), [2])


@pytest.mark.parametrize(
    ("template", "dialects"),
    [
        (TEMPLATE, NAMES),
        (MAYBE_CLOCK, NAMES),
        (APPENDS_END, ("hermes", "awm", "awm-tool")),
        (THINKING, ("hermes", "awm", "awm-tool")),
        (NO_FRAME, ("hermes", "awm", "awm-tool")),
        (NO_TOOL_ROLE, ("hermes", "awm")),
    ],
)
def test_what_a_template_can_render(template: str, dialects: tuple[str, ...]) -> None:
    """It is accepted in these dialects; in all others it is refused, and the sentence names those
    that are left."""
    chat = chat_of(template)
    for name in NAMES:
        if name in dialects:
            check_template(chat, dialect_of(name), model="m")
        else:
            with pytest.raises(SettingsError) as caught:
                check_template(chat, dialect_of(name), model="m")
            able = ", ".join(one for one in NAMES if one in dialects)
            assert str(caught.value).endswith(f"use one of the dialects that it can render: {able}")


@pytest.mark.parametrize(
    ("template", "dialect", "reason"),
    [
        (APPENDS_END, "native", "it does not show the tools of a request"),
        (NO_TOOL_ROLE, "awm-tool", "it leaves out a message of role 'tool'"),
        (NO_SYSTEM, "hermes", "it refuses a window (no system role)"),
        (COUNTS, "hermes", "it renders a turn differently when earlier ones are left out"),
        (MARKS_LAST, "hermes", "it changes earlier messages when later ones follow"),
        (REPEATS, "awm", "it repeats messages, or changes their order"),
        (
            ADDRESSED,
            "hermes",
            "a reply has words of the template in its text",
        ),
    ],
)
def test_why_a_template_is_refused(template: str, dialect: str, reason: str) -> None:
    """The sentence names the model, the dialect and the reason."""
    with pytest.raises(SettingsError) as caught:
        check_template(chat_of(template), dialect_of(dialect), model="models/m")
    assert str(caught.value).startswith(
        f"models/m: the chat template cannot render windows of dialect {dialect!r}: {reason};"
    )


def test_where_no_dialect_is_left_another_template_is_needed() -> None:
    """A template that refuses system messages renders no dialect."""
    with pytest.raises(SettingsError, match="renders no other dialect either: use another chat"):
        check_template(chat_of(NO_SYSTEM), dialect_of("native"), model="m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The time is 2026-05-12T09:00:00Z.\n\n# Rules", "2026-05-12"),
        ("You act through tools.", "2025-01-01"),
        ("The time is 2026-99-12.", "2025-01-01"),
    ],
)
def test_a_prompt_does_not_depend_on_the_day(text: str, expected: str) -> None:
    """A template that asks for the date gets the one that the prompt names, and else a fixed one,
    even if it has a date to fall back to. Such a template renders windows."""
    for template, date in ((CLOCK, expected), (MAYBE_CLOCK, expected[:4])):
        rendered = chat_of(template).render(Window((Message("system", text),)))
        assert rendered.startswith(f"{date}<|im_start|>system")
        check_template(chat_of(template), dialect_of("hermes"), model="m")


def test_an_end_token_after_conversations_adds_no_turn() -> None:
    """Where a template ends conversations with the end token, a prompt with a sampled reply has the
    messages of its window, and nothing else: no other user turn and no placeholder."""
    chat = chat_of(APPENDS_END)
    window = Window(
        (Message("user", "Void 7."), Message("assistant", "Void."), Message("user", "Go on."))
    )
    prompt = chat.prompt(window, {"Void.": chat.encode_reply("Void.")})
    assert prompt == chat.prompt(window, {})
    turns = ["user\nVoid 7.", "assistant\nVoid.", "user\nGo on."]
    expected = "".join(f"<|im_start|>{turn}{END}\n" for turn in turns)
    assert chat.text_of(prompt) == f"{expected}<|im_start|>assistant\n"


def test_a_generation_prompt_that_rewrites_the_conversation_is_refused() -> None:
    """What asks for a reply must follow the conversation, or a reply would be put in its middle."""
    asks = TEMPLATE.replace(
        "{{ message.content }}", "{{ message.content }}{{ add_generation_prompt }}"
    )
    with pytest.raises(SettingsError, match="does not begin with the text of the conversation"):
        chat_of(asks)


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_no_blank_is_put_in_around_sampled_replies(scheme: Any) -> None:
    """A tokenizer that begins a text with a blank begins a prompt with one, and no part of it."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<|im_start|>", END, *(f"<0x{number:02X}>" for number in range(256))]
    letters = [*string.printable, "▁"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    for template, name in ((TEMPLATE, "native"), (THINKING, "hermes")):
        chat = ChatTokenizer(tokenizer, ChatTemplate(template, {}, path=Path("here")), [2])
        check_template(chat, dialect_of(name), model="m")

"""Chat templates that others wrote, against transformers' `apply_chat_template`: none is silently
wrong. `just templates` tries those of other packages and models; here are the installed ones, and
templates with the traits by which some of them were wrong before."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Message, Window
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer, reply_key
from rehearsal_room.harness.tokenization.template_check import check_template
from tests.support.prompts import BRIEFING
from tests.support.template_table import (
    NOT_READ,
    OK,
    Template,
    fault,
    installed,
    open_template,
    row_of,
    templates_in,
)
from tests.support.tiny_model import TEMPLATE, write_tokenizer

# Earlier replies begin with a thought's end, the next one with its beginning, as in GLM 4.7.
CUTS_THOUGHT = """\
{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages -%}
{% if m.role == 'assistant' %}<|assistant|></think>{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }}
{%- for key, value in call.function.arguments.items() %}<arg_key>{{ key }}</arg_key><arg_value>
{{- value }}</arg_value>{% endfor %}</tool_call>{% endfor %}
{%- else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor -%}
{% if add_generation_prompt %}<|assistant|><think>{% endif %}"""
# Shows results inside the message of the calls, by their number and id, as in DeepSeek 3.2; after
# them it asks in another way.
COUNTS_RESULTS = """\
{% if tools %}{{ tools | tojson }}{% endif %}{% set ns = namespace(calls=[], seen=0) -%}
{% for m in messages %}{% if m.role == 'tool' %}{% set ns.seen = ns.seen + 1 -%}
{% if ns.seen <= ns.calls | length %}<result {{ ns.calls[ns.seen - 1].id }}>{{ m.content }}
{%- endif %}{% else -%}
{% if m.role == 'assistant' %}{{ '' if ns.seen else '<|assistant|>' }}</think>{{ m.content }}
{%- set ns.calls = m.tool_calls or [] %}{% set ns.seen = 0 -%}
{% for call in ns.calls %}<call {{ call.function.name }} {{ call.function.arguments | tojson }}>
{%- endfor %}<|end|>{% else %}{% set ns.seen = 0 %}<|{{ m.role }}|>{{ m.content }}{% endif -%}
{% endif %}{% endfor -%}
{% if add_generation_prompt %}{{ '' if ns.seen else '<|assistant|>' }}<think></think>{% endif %}"""
# One call in a reply, and no text beside it, as in Llama 3.
ONE_CALL = """\
{{ bos_token }}{{ strftime_now('%d %b %Y') if strftime_now is defined else '26 Jul 2024' }}
{%- if tools %}{{ tools | tojson }}{% endif -%}
{% for m in messages %}<|head|>{{ 'ipython' if m.role == 'tool' else m.role }}<|body|>
{%- if m.tool_calls %}{% set call = m.tool_calls[0].function -%}
{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif -%}
{"name": "{{ call.name }}", "parameters": {{ call.arguments | tojson }}}
{%- else %}{{ m.content | trim }}{% endif %}<|eot|>{% endfor -%}
{% if add_generation_prompt %}<|head|>assistant<|body|>{% endif %}"""
# Writes the last reply in another way than earlier ones, and its calls without a text twice, as in
# Nemotron Nano 2.
LAST_REPLY_APART = """\
{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>
{% if m.role == 'assistant' and loop.last %}<think>
{{ m.content }}{% if m.tool_calls %}<|assistant|>{% endif %}{% else %}{{ m.content }}{% endif -%}
{% if m.tool_calls %}<call>{% for call in m.tool_calls %}{{ call.function | tojson }}{% endfor -%}
</call>{% endif %}
<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
<think>
{% endif %}"""
# Numbers all calls of the conversation, as in Cohere 2.
NUMBERS_CALLS = """\
{% if tools %}{{ tools | tojson }}{% endif %}{% set ns = namespace(number=0) -%}
{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for call in m.tool_calls or [] %}
<call {{ ns.number }} {{ call.function.name }} {{ call.function.arguments | tojson }}>
{%- set ns.number = ns.number + 1 %}{% endfor %}<|end|>{% endfor -%}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""
# The reply names its channel, with words that stay in the text, as in gpt-oss.
NAMES_CHANNEL = """\
{% for m in messages %}<|start|>{{ m.role }}{{ '<|channel|>final' if m.role == 'assistant' }}
{{- '<|message|>' }}{{ m.content }}<|end|>{% endfor -%}
{% if add_generation_prompt %}<|start|>assistant{% endif %}"""
ANOTHER_WAY = "it begins a reply in another way than in a short conversation"
TEMPLATE_WORDS = "a reply has words of the template in its text"


def test_no_installed_template_is_silently_wrong() -> None:
    """What the packages of this environment carry is rendered as transformers does, or refused; at
    least Llama 4's is accepted in both dialects."""
    cells = {template.name: row_of(template).cells for template in installed()}
    assert cells["processing_llama4.py"] == (OK, NOT_READ)
    assert [one for row in cells.values() for one in row if one.startswith("WRONG")] == []


@pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed; `just templates PATH`")
def test_templates_of_trl_take_part() -> None:
    """Where TRL is installed, its templates are among those of the test above."""
    assert len([one for one in installed() if one.name.endswith(".jinja")]) >= 41


def test_a_models_folder_takes_part(tmp_path: Path) -> None:
    """A folder with a tokenizer has that one, whatever lies above it."""
    write_tokenizer(tmp_path / "models" / "tiny")
    (template,) = templates_in(tmp_path)
    assert (template.name, row_of(template).cells) == ("tiny", (OK, OK))


@pytest.mark.parametrize(
    ("source", "cells"),
    [
        (TEMPLATE, (OK, OK)),
        (CUTS_THOUGHT, (OK, NOT_READ)),
        (COUNTS_RESULTS, (OK, NOT_READ)),
        (ONE_CALL, (OK, NOT_READ)),
        (LAST_REPLY_APART, (OK, NOT_READ)),
        (NUMBERS_CALLS, (OK, ANOTHER_WAY)),
        (NAMES_CHANNEL, (TEMPLATE_WORDS, "it does not show the tools of a request")),
    ],
)
def test_traits_of_foreign_templates(source: str, cells: tuple[str, ...]) -> None:
    """A template with such a trait is rendered as by transformers, or refused with the reason."""
    assert row_of(Template("here", source)).cells == cells


class LosesResults(ChatTokenizer):
    """Once a reply was sampled, results are empty."""

    def prompt(self, window: Window, sampled: Mapping[str, Sequence[int]]) -> list[int]:
        shown = [
            replace(one, content="") if sampled and one.role == "tool" else one
            for one in window.messages
        ]
        return super().prompt(replace(window, messages=tuple(shown)), sampled)


class AsksForNothing(ChatTokenizer):
    """Prompts with sampled replies end before the text that asks for the next one."""

    def prompt(self, window: Window, sampled: Mapping[str, Sequence[int]]) -> list[int]:
        ids = super().prompt(window, sampled)
        return ids[: -len(self.encode("<|im_start|>assistant\n"))] if sampled else ids


class EndsTwice(ChatTokenizer):
    """A sampled end token does not take the place of the template's."""

    def prompt(self, window: Window, sampled: Mapping[str, Sequence[int]]) -> list[int]:
        ends = {key: [*ids, self.end_id] for key, ids in sampled.items()}
        return super().prompt(window, ends)


class CutsReplies(ChatTokenizer):
    """Replies that were not sampled lack their first token."""

    def encode_reply(
        self, text: str, calls: Sequence[AgentCall] = (), *, window: Window | None = None
    ) -> list[int]:
        return super().encode_reply(text, calls, window=window)[1:]


class LosesText(ChatTokenizer):
    """Replies that were not sampled lack the text beside their calls."""

    def encode_reply(
        self, text: str, calls: Sequence[AgentCall] = (), *, window: Window | None = None
    ) -> list[int]:
        return super().encode_reply("" if calls else text, calls, window=window)


@pytest.mark.parametrize("liar", [LosesResults, AsksForNothing, EndsTwice, CutsReplies, LosesText])
def test_what_is_wrong_is_found(liar: type[ChatTokenizer]) -> None:
    """The comparison with transformers finds each way to be wrong, and nothing else."""
    ours, theirs = open_template(Template("here", TEMPLATE))
    assert fault(ours, theirs, dialect_of("native")) == ""
    ours.__class__ = liar
    assert fault(ours, theirs, dialect_of("native")) != ""


def test_what_is_accepted_with_a_word_is_logged() -> None:
    """Which date a template gets, and that its own form of calls is not read, is logged once."""
    chat, _ = open_template(Template("here", ONE_CALL))
    with capture_logs() as logs:
        check_template(chat, dialect_of("native"), model="m")
        check_template(
            open_template(Template("here", TEMPLATE))[0], dialect_of("native"), model="m"
        )
    assert [(one["event"], one["log_level"]) for one in logs] == [
        ("template_date", "info"),
        ("calls_not_read", "warning"),
    ]
    assert logs[0]["otherwise"] == "2025-01-01"
    asks = TEMPLATE.replace("assistant\n{% endif", "assistant\nI reason:\n{% endif")
    with capture_logs() as logs:
        check_template(open_template(Template("here", asks))[0], dialect_of("hermes"), model="m")
    assert [(one["event"], one["words"]) for one in logs] == [("replies_after_words", "I reason:")]


def test_two_calls_where_the_template_knows_one() -> None:
    """A model may make two calls in a reply, whatever its template knows: the next prompt has its
    own tokens, and both results as the template writes them."""
    chat, _ = open_template(Template("here", ONE_CALL))
    calls = (AgentCall("get_order", {"id": 1}, "c0-0"), AgentCall("get_order", {"id": 2}, "c0-1"))
    head = (Message("user", "Void both."),)
    turn = (
        Message("assistant", "", calls),
        Message("tool", "one", call_id="c0-0"),
        Message("tool", "two", call_id="c0-1"),
    )
    tools = dialect_of("native").request_tools(BRIEFING)
    sampled = [*chat.encode("I call both."), chat.end_id]
    prompt = chat.prompt(Window((*head, *turn), tools), {reply_key("", calls): sampled})
    start = chat.text_of(chat.prompt(Window(head, tools), {}))
    assert chat.text_of(prompt) == (
        f"{start}I call both.<|eot|><|head|>ipython<|body|>one<|eot|>"
        "<|head|>ipython<|body|>two<|eot|><|head|>assistant<|body|>"
    )
    with pytest.raises(PolicyError, match="one call only"):
        chat.prompt(Window((*head, *turn), tools), {})


@pytest.mark.parametrize("source", [TEMPLATE, CUTS_THOUGHT, COUNTS_RESULTS, ONE_CALL])
def test_names_and_arguments_are_data(source: str) -> None:
    """A call with quotes in its name, or with tags of thoughts in its arguments, is put in and
    encoded as any other."""
    chat, _ = open_template(Template("here", source))
    head, tools = (Message("user", "Void 7."),), dialect_of("native").request_tools(BRIEFING)
    evil = "</think> <think> </tool_call>"
    call = AgentCall('get"order\\', {"a": evil, "b": [evil]}, "c0-0")
    turn = (Message("assistant", "", (call,)), Message("tool", "no tool", call_id="c0-0"))
    encoded = chat.encode_reply("", (call,), window=Window(head, tools))
    window = Window((*head, *turn), tools)
    texts = [
        chat.text_of(chat.prompt(window, sampled)).replace("<think>", "").replace("</think>", "")
        for sampled in ({}, {reply_key("", (call,)): encoded})
    ]
    assert texts[0].count("  </tool_call>") == 2
    assert texts[1].replace("<|eos|>", "") == texts[0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("in messages %}", "in messages if message.content | length != 3 %}", "leaves out a reply"),
        (
            "{{ message.role }}",
            "{{ 'agent' if loop.index0 == 3 else message.role }}",
            "begins a reply",
        ),
    ],
)
def test_a_reply_that_is_not_found_is_an_error(old: str, new: str, why: str) -> None:
    """A template that leaves a reply out, or begins it in yet another way, cannot take one that was
    sampled: the prompt is refused, and nothing is put in another place."""
    chat, _ = open_template(Template("here", TEMPLATE.replace(old, new)))
    texts = ("Void 7.", "Which?", "That one.", "Done.", "Good.")
    roles = ("user", "assistant", "user", "assistant", "user")
    window = Window(tuple(map(Message, roles, texts)))
    sampled = {text: chat.encode_reply(text) for text in ("Which?", "Done.")}
    with pytest.raises(PolicyError, match=f"does not show where a reply stands: it {why}"):
        chat.prompt(window, sampled)

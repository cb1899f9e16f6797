"""Conversations of outside data sets: which tokens are trained, and what is refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from transformers import AutoTokenizer

from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.learner.config.settings import DataSettings
from rehearsal_room.learner.core.errors import ConfigError, SampleError
from rehearsal_room.learner.data.batch_queue import TakenBatch
from rehearsal_room.learner.data.conversations import (
    ConversationSource,
    read_conversations,
    rollout_of_conversation,
)
from rehearsal_room.learner.data.sample_lengths import TokenLimits
from tests.support.tiny_model import TEMPLATE, write_tokenizer


def call(name: str, arguments: Any, number: str = "a") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": number, "type": "function", "function": function}


TOOL = {
    "type": "function",
    "function": {
        "name": "void_order",
        "description": "Voids an order.",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "integer"}}},
    },
}
CALLS = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Void orders 7 and 8."}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                call("void_order", {"order_id": 7}),
                call("void_order", {"order_id": 8}, "b"),
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "void"},
        {"role": "tool", "tool_call_id": "b", "content": "void"},
        {"role": "assistant", "content": "Both are void."},
        {"role": "user", "content": "Thank you."},
    ],
    "tools": [TOOL],
}
PLAIN = {
    "messages": [
        {"role": "user", "content": "Is order 7 void?"},
        {"role": "assistant", "content": "It <|im_end|> is."},  # letters, not the end token
        {"role": "user", "content": "Sure?"},
        {"role": "assistant", "content": "Yes."},
    ]
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path / "model"


def written(tmp_path: Path, *rows: Any) -> str:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows))
    return str(path)


def source(tmp_path: Path, folder: Path, *rows: Any, **how: Any) -> ConversationSource:
    first, context = how.pop("first", 0), how.pop("context", None)
    return ConversationSource(
        read_conversations([written(tmp_path, *rows)]),
        ChatTokenizer.open(folder),
        DataSettings(**how),
        limits=TokenLimits(context=context),
        seed=3,
        first=first,
    )


@pytest.mark.parametrize("row", [CALLS, PLAIN], ids=["two calls", "plain"])
def test_only_the_assistants_tokens_are_trained(tmp_path: Path, folder: Path, row: Any) -> None:
    """Prompt and reply of each sample are the beginning of what transformers makes of the whole
    conversation, and the reply is what it adds to the messages before, with the end token."""
    chat = ChatTokenizer.open(folder)
    theirs = AutoTokenizer.from_pretrained(folder)
    [conversation] = read_conversations([written(tmp_path, row)])
    rollout = rollout_of_conversation(conversation, chat)
    messages = [
        {
            **one,
            "content": one["content"][0]["text"]
            if isinstance(one["content"], list)
            else one["content"] or "",
            "tool_calls": [
                {
                    **c,
                    "function": {
                        **c["function"],
                        "arguments": json.loads(c["function"]["arguments"]),
                    },
                }
                for c in one.get("tool_calls", [])
            ],
        }
        for one in row["messages"]
    ]
    how = {"tools": row.get("tools"), "tokenize": False}
    whole = theirs.apply_chat_template(messages, **how)
    spoken = [n for n, one in enumerate(messages) if one["role"] == "assistant"]
    assert len(rollout.samples) == len(spoken) == 2
    for sample, number in zip(rollout.samples, spoken, strict=True):
        before = theirs.apply_chat_template(messages[:number], add_generation_prompt=True, **how)
        after = theirs.apply_chat_template(messages[: number + 1], **how)
        assert chat.text_of(sample.prompt.tolist()) == before
        assert chat.text_of(sample.tokens.tolist()) == after.removeprefix(before).rstrip("\n")
        assert whole.startswith(after)
        assert sample.tokens[-1] == chat.end_id
        assert chat.end_id not in sample.tokens[:-1]
    first, second = rollout.samples
    start = len(first.prompt) + len(first.tokens)  # the second row goes on where the first ends
    assert second.prompt[:start].tolist() == [*first.prompt, *first.tokens]


def test_parquet_and_json_lines_are_the_same(tmp_path: Path) -> None:
    """A table has all fields in all rows, and tools as a list or as JSON in a text."""
    rows = [CALLS, {**PLAIN, "tools": None}]
    table = pyarrow.Table.from_pylist(
        [
            {"messages": one["messages"], "tools": json.dumps(one["tools"] or [])}
            for one in _uniform(rows)
        ]
    )
    parquet.write_table(table, tmp_path / "data.parquet")
    found = read_conversations([str(tmp_path / "data.parquet")])
    expected = read_conversations([written(tmp_path, *rows)])
    assert [(one.messages, one.tools) for one in found] == [
        (one.messages, one.tools) for one in expected
    ]
    assert found[1].where.endswith("data.parquet, row 2")


def _uniform(rows: list[Any]) -> list[Any]:
    """The rows with contents that are texts, as one column of a table needs."""
    return [
        {
            **row,
            "messages": [
                {
                    **one,
                    "content": one["content"][0]["text"]
                    if isinstance(one["content"], list)
                    else one["content"],
                }
                for one in row["messages"]
            ],
        }
        for row in rows
    ]


IMAGE = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "x"}}]
REFUSED = {
    "an image": ([{"role": "user", "content": IMAGE}], "part of type 'image_url'; only text"),
    "no assistant": ([{"role": "user", "content": "Hello?"}], "none is of the assistant"),
    "a cut turn": (
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}],
        r"messages\[1\]: the assistant says nothing",
    ),
    "cut arguments": (
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1'}}],
            },
        ],
        r"messages\[1\]: the arguments of 'f' must be a JSON object",
    ),
    "another role": ([{"role": "bot", "content": "Hi"}], "Invalid enum value 'bot'"),
    "a user who calls": (
        [{"role": "user", "content": "Hi", "tool_calls": [call("f", {})]}],
        "tool_calls of role 'user'",
    ),
    "no list": ("Hi", "Expected `array`, got `str`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learned_is_named(tmp_path: Path, name: str) -> None:
    """Each fault is one sentence with file, line and place."""
    messages, expected = REFUSED[name]
    with pytest.raises(SampleError, match=expected) as error:
        read_conversations([written(tmp_path, PLAIN, {"messages": messages})])
    assert "data.jsonl, line 2" in str(error.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A missing file, an empty one, a table that is none, and a line that was cut."""
    with pytest.raises(ConfigError, match=r"none\.jsonl: cannot be read: No such file"):
        read_conversations([str(tmp_path / "none.jsonl")])
    with pytest.raises(ConfigError, match="there is no conversation"):
        read_conversations([written(tmp_path)])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match=r"bad\.parquet: cannot be read"):
        read_conversations([str(tmp_path / "bad.parquet")])
    with pytest.raises(SampleError, match="line 2: it is not JSON"):
        read_conversations([written(tmp_path, PLAIN, '{"messages": [{"ro')])


@pytest.mark.parametrize(
    ("template", "row", "expected"),
    [
        (TEMPLATE.replace("if tools", "if false"), CALLS, "does not show the tool 'void_order'"),
        (
            TEMPLATE.replace("{{ message.content }}", "{{ message.content | upper }}"),
            PLAIN,
            "a plain conversation cannot be rendered",
        ),
        (
            TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}"),
            PLAIN,
            "does not mark message 1 in",
        ),
        (
            TEMPLATE.replace("if message.role", "if x").replace(
                "{{ message.content }}",
                "{{ message.content if loop.last or message.role != 'assistant' else '' }}",
            ),
            PLAIN,
            "does not mark message",
        ),
    ],
    ids=["ignores tools", "changes text", "opens a thought", "drops earlier replies"],
)
def test_a_template_that_cannot_mark_replies_is_refused(
    tmp_path: Path, template: str, row: Any, expected: str
) -> None:
    """Where the template's text of the conversation is another one, nothing is trained."""
    write_tokenizer(tmp_path / "model", template=template)
    (tmp_path / "model" / "config.json").write_text("{}")
    [conversation] = read_conversations([written(tmp_path, row)])
    with pytest.raises(Exception, match=expected):
        rollout_of_conversation(conversation, ChatTokenizer.open(tmp_path / "model"))


async def taken(source: ConversationSource) -> list[TakenBatch]:
    batches = []
    while (batch := await source.take(0)) is not None:
        batches.append(batch)
    return batches


@pytest.mark.anyio
async def test_batches_are_the_same_after_a_resume(tmp_path: Path, folder: Path) -> None:
    """Each epoch has every conversation once, in an order of its own; a run that resumes after any
    batch gets the rest of the same batches."""
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"{n}?"},
                {"role": "assistant", "content": "Yes"},
            ]
        }
        for n in range(10)
    ]
    how = {"groups": 4, "epochs": 2, "keep_equal": True}
    whole = await taken(source(tmp_path, folder, *rows, **how))
    names = [[group.group for group in batch.groups] for batch in whole]
    flat = [name for batch in names for name in batch]
    assert [len(batch) for batch in names] == [4, 4, 4, 4, 4]
    assert len(set(flat[:10])) == len(set(flat[10:])) == 10 and flat[:10] != flat[10:]
    for done in range(1, 5):
        rest = await taken(source(tmp_path, folder, *rows, **how, first=whole[done - 1].end))
        assert [[group.group for group in batch.groups] for batch in rest] == names[done:]


@pytest.mark.anyio
async def test_what_is_beyond_the_context_is_left_out_or_cut(tmp_path: Path, folder: Path) -> None:
    """A conversation whose replies all end beyond the context is counted; with `cut` the part that
    fits is trained."""
    long = {
        "messages": [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": "Void order 7. " * 30},
        ]
    }
    [batch] = await taken(source(tmp_path, folder, long, PLAIN, context=80))
    assert (len(batch.groups), batch.dropped) == (1, {"too_long": 1})
    [batch] = await taken(source(tmp_path, folder, long, context=80, too_long="cut"))
    [sample] = batch.groups[0].rollouts[0].samples
    assert len(sample.prompt) + len(sample.tokens) == 80
    assert not np.any(sample.logprobs)
    assert msgspec.json.encode(batch.dropped) == b"{}"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

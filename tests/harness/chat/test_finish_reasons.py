"""What a server says about the end of a reply: what is a reply, what is asked again, what ends."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.retry import AttemptFailure, is_context_overflow, is_withheld
from rehearsal_room.harness.core.errors import ContextLengthError, ModelRefusedError, PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Reply, Usage
from rehearsal_room.harness.model_servers.finish_reasons import _unknown, finish_kind
from tests.harness.policies.test_openai import reply
from tests.support.model_server import Body, Completes, ModelServer, Status

CALL = ("a", "look", '{"at": "sky"}')
LOOK = AgentCall("look", {"at": "sky"}, "a")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def choices(*choices: Any, **fields: Any) -> bytes:
    return json.dumps({"choices": list(choices), **fields}).encode()


def choice(message: Any, finish: Any = None, **fields: Any) -> Any:
    return {"index": 0, "message": message, "finish_reason": finish, **fields}


HALF = {"role": "assistant", "content": "I will now", "tool_calls": [{"function": {"name": "x"}}]}
FAILED = {
    **{
        word: choices(choice(HALF, word))
        for word in ("error", "abort", "network_error", "NETWORK_ERROR", "cancelled", "timeout")
    },
    "error-in-choice": choices(choice(HALF, "stop", error={"code": 502, "message": "lost"})),
    "error-in-message": choices(choice({**HALF, "error": {"message": "lost"}}, "stop")),
    "error-beside-choice": choices(choice(HALF, "stop"), error={"message": "lost"}),
    "error-text": choices(choice(HALF, "stop"), error="upstream lost"),
    "error-instead-of-choice": choices(error={"message": "lost", "code": "server_error"}),
    "calls-without-calls": choices(choice({"content": "I call."}, "tool_calls")),
    "call-without-call": choices(choice({"content": None}, "function_call")),
    "empty-choice": choices({}),
    "empty-message": choices(choice({})),
    "null-choice": choices(None),
    "unreadable-calls": choices(choice({"tool_calls": [7]}, "tool_calls")),
    "one-of-two-failed": choices(choice({"content": "a"}, "stop"), choice(HALF, "error")),
}


@pytest.mark.parametrize("body", FAILED.values(), ids=FAILED)
async def test_a_failed_generation_is_asked_again(body: bytes, server: ModelServer) -> None:
    """A generation that failed gives no reply, whatever it holds; another attempt does."""
    server.plan(Body(body))
    assert await reply(server) == Reply("ok", usage=Usage(11, 7), attempts=2)


async def test_a_generation_that_always_fails(server: ModelServer) -> None:
    """After the last attempt the error has the server's word, and keeps its kind."""
    server.default = Completes("half", finish="abort")
    with pytest.raises(PolicyError) as caught:
        await reply(server, max_attempts=3)
    assert type(caught.value) is PolicyError
    sentence = "the generation failed (finish reason 'abort') (after 3 attempts)"
    assert str(caught.value).endswith(sentence)


@pytest.mark.parametrize(
    "word",
    ["length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded"],
)
async def test_words_for_a_reply_that_was_cut(word: str, server: ModelServer) -> None:
    """Each word for a limit of tokens gives a reply that was cut, with or without calls."""
    server.plan(Completes("half", finish=word), Completes("half", (CALL,), finish=word))
    for calls in ((), (LOOK,)):
        got = await reply(server)
        assert (got.was_cut, got.finish, got.calls) == (True, "length", calls)


@pytest.mark.parametrize(
    "behaviour",
    [
        Completes(None, finish="content_filter"),
        Completes("I will", (CALL,), finish="content_filter"),
        Completes(None, finish="refusal"),
        Completes(None, finish="SAFETY"),
        Status(400, "The response was filtered due to the prompt", "content_filter"),
        Status(400, "Content Exists Risk", "invalid_request_error"),
        Body(choices(error={"code": "content_filter", "message": "filtered"})),
    ],
)
async def test_what_the_provider_withholds(behaviour: Any, server: ModelServer) -> None:
    """A withheld reply has its own error, and is not asked for again."""
    server.plan(behaviour)
    with pytest.raises(ModelRefusedError):
        await reply(server)
    assert len(server.requests) == 1


async def test_unknown_words_are_read_as_stop(server: ModelServer) -> None:
    """An unknown word is a stop, with one warning for all replies that have it."""
    _unknown.cache_clear()
    server.default = Completes("Done.", finish="tired")
    with capture_logs() as logs:
        for _ in range(3):
            assert await reply(server) == Reply("Done.", usage=Usage(11, 7))
    warnings = [log for log in logs if log["log_level"] == "warning"]
    assert warnings == [
        {
            "event": "finish_reason_unknown",
            "log_level": "warning",
            "finish_reason": "tired",
            "read_as": "stop",
        }
    ]


@pytest.mark.parametrize("word", ["stop", "tool_calls", "tool_use", "eos", "Stop", None, ""])
def test_a_call_is_read_under_every_such_word(word: str | None) -> None:
    """Some servers say `stop`, or nothing, also of a reply that makes calls."""
    sent = {"id": "a", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    found = read_completion(choices(choice({"content": None, "tool_calls": [sent]}, word)))
    assert found == Reply("", (LOOK,), "tool_calls")


def test_the_older_form_of_a_call() -> None:
    """`function_call` is a call without an id."""
    older = {"content": None, "function_call": {"name": "look", "arguments": '{"at": "sky"}'}}
    found = read_completion(choices(choice(older, "function_call")))
    assert found == Reply("", (AgentCall("look", {"at": "sky"}, ""),), "tool_calls")


@pytest.mark.parametrize("word", [7, ["stop"], {"a": 1}, True])
def test_words_that_are_none(word: Any) -> None:
    """A finish reason that has no text counts as an unknown word."""
    assert finish_kind(word) == "stop"


def test_text_and_calls_of_several_choices_are_one_reply() -> None:
    """A gateway may put the text and each call into choices of their own."""
    calls = [
        choice(
            {"content": None, "tool_calls": [{"id": id, "function": {"name": "look"}}]},
            "tool_calls",
        )
        for id in "ab"
    ]
    found = read_completion(choices(choice({"content": "I look."}, "tool_calls"), *calls))
    assert found == Reply(
        "I look.", (AgentCall("look", {}, "a"), AgentCall("look", {}, "b")), "tool_calls"
    )


@pytest.mark.parametrize(
    ("sent", "read"), [(7, "7"), ("functions.look:0", "functions.look:0"), (None, "")]
)
def test_ids_of_any_form(sent: Any, read: str) -> None:
    """An id may be a number, or of a foreign form."""
    call = {"id": sent, "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    found = read_completion(choices(choice({"tool_calls": [call]}, "tool_calls")))
    assert found == Reply("", (AgentCall("look", {"at": "sky"}, read),), "tool_calls")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": {"value": "a"}}, "b"], "ab"),
        ({"type": "text", "text": "a"}, "a"),
        ([{"type": "refusal", "refusal": "No."}], "No."),
        ([{"type": "image_url", "image_url": {"url": "x"}}, {"text": "a"}], "a"),
    ],
)
def test_content_in_parts(content: Any, text: str) -> None:
    """The text of a content in parts is that of its parts."""
    assert read_completion(choices(choice({"content": content}, "stop"))) == Reply(text)


OVERFLOWS = [
    Status(
        400,
        body=b'{"code": "invalid argument", "error": "This model\'s maximum prompt length is 131072'
        b' but the request contains 140000 tokens."}',
    ),
    Status(400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    Status(400, "litellm.ContextWindowExceededError: litellm.BadRequestError", "400"),
    Status(400, "max_tokens must be at least 1, got -37."),
    Status(413, "Request too large: the prompt is too long"),
    Status(500, "the request exceeds the available context size"),
    Status(500, body=b'{"error": {"code": 500, "type": "exceed_context_size_error"}}'),
    Status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    Status(400, "Range of input length should be [1, 30720]"),
    Status(400, "The input token count (1200000) exceeds the maximum number of tokens allowed"),
    Status(422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"),
    Status(400, "Requested tokens (9000) exceed context window of 8192"),
    Status(400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    Status(400, "Your input exceeds the context window of this model."),
    Status(
        400, "Prompt contains 9000 tokens, too large for model with 8192 maximum context length"
    ),
    Body(choices(error={"message": "This endpoint's maximum context length is 8192 tokens"})),
    Body(choices(error={"code": 400, "message": "prompt is too long"})),
    Body(choices(choice({}, "error", error={"code": 500, "message": "context window exceeded"}))),
]


@pytest.mark.parametrize("behaviour", OVERFLOWS)
async def test_a_full_context_in_other_words(behaviour: Any, server: ModelServer) -> None:
    """A full context is recognised in each server's words and under any status, and not retried."""
    server.plan(behaviour)
    with pytest.raises(ContextLengthError):
        await reply(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "failure",
    [
        AttemptFailure("status", "Rate limit reached on tokens per min: context length", 429),
        AttemptFailure("status", "Internal error: context deadline exceeded", 500),
        AttemptFailure("status", "Unknown field 'context'", 400),
        AttemptFailure("status", "max_tokens is too large: 90000 (at most 4096)", 400),
        AttemptFailure("status", "Invalid value for 'content': expected a string", 400),
        AttemptFailure("status", "You exceeded your current quota", 429),
        AttemptFailure("status", "temperature must be less than 2", 400),
        AttemptFailure("status", "the queue exceeds its maximum of 100 requests", 503),
    ],
)
def test_what_is_no_full_context(failure: AttemptFailure) -> None:
    """Other refusals are not taken for a full context, nor for a filter."""
    assert (is_context_overflow(failure), is_withheld(failure)) == (False, False)

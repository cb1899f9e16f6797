"""Reading completions: any reply of a model server can be logged."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.chat.wire import read_arguments, sent_tool
from rehearsal_room.harness.core.messages import AgentCall, Reply, Usage


def body(message: dict[str, Any]) -> bytes:
    """A completion as a Python server writes it: halves of surrogate pairs are escapes."""
    return json.dumps({"choices": [{"message": message}]}).encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 9223372036854775808}',
        '{"id": [-9223372036854775809]}',
        '{"a": ' * 60 + "1" + "}" * 60,
        "[" * 5000 + "]" * 5000,
        '{"a": "\\ud800"}',
        '{"id": 7',
    ],
)
def test_arguments_that_cannot_be_logged_stay_text(text: str) -> None:
    """Integers beyond 64 bits, deep nesting and broken JSON stay the text that the agent wrote."""
    assert read_arguments(text) == text


def test_arguments_at_the_limits() -> None:
    """Integers of 64 bits are arguments."""
    assert read_arguments('{"a": 9223372036854775807, "b": -9223372036854775808}') == {
        "a": 2**63 - 1,
        "b": -(2**63),
    }


def test_arguments_sent_as_an_object() -> None:
    """Arguments that a server sends as an object are read too, and become text where the log cannot
    hold them."""
    assert read_arguments({"id": 7}) == {"id": 7}
    assert read_arguments({"id": 2**70}) == f'{{"id":{2**70}}}'
    call = {"id": "x", "function": {"name": "get", "arguments": {"id": 2**70}}}
    assert read_completion(body({"tool_calls": [call]})) == Reply(
        "", (AgentCall("get", f'{{"id":{2**70}}}', "x"),), "tool_calls"
    )


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("half \ud83d", "half \ufffd"),
        ("\udc00\ud83d\ude00", "\ufffd\U0001f600"),
        ("\ud800\ud800", "\ufffd\ufffd"),
        ("\\ud800 \ud800", "\\ud800 \ufffd"),
        ("\\\ud800\\", "\\\ufffd\\"),
    ],
)
def test_half_characters_are_replaced(sent: str, read: str) -> None:
    """Half of a surrogate pair becomes U+FFFD; whole pairs and escaped backslashes stay."""
    assert read_completion(body({"content": sent})) == Reply(read)


def test_bytes_that_are_not_text_are_replaced() -> None:
    """Bytes that are not UTF-8 become U+FFFD."""
    sent = body({"content": "MARK"}).replace(b"MARK", b"a\xff\xed\xa0\x80")
    reply = read_completion(sent)
    assert isinstance(reply, Reply)
    assert (reply.text[:2], set(reply.text[1:])) == ("a\ufffd", {"\ufffd"})


_TEXTS = st.text(st.characters(), max_size=6)  # with halves of surrogate pairs
_VALUES = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(_TEXTS, _TEXTS, _TEXTS, _VALUES, st.booleans())
def test_every_reply_can_be_logged(
    content: str, name: str, call_id: str, arguments: Any, as_text: bool
) -> None:
    """MessagePack can hold every reply, whatever its texts, names, ids and arguments are."""
    sent = json.dumps(arguments) if as_text else arguments
    call = {"id": call_id, "function": {"name": name, "arguments": sent}}
    reply = read_completion(body({"content": content, "tool_calls": [call]}))
    assert isinstance(reply, Reply)
    encoded = msgspec.msgpack.encode(reply)
    assert msgspec.msgpack.decode(encoded, type=Reply) == reply


@pytest.mark.parametrize("sent", [b"", b"\xff", b'{"choices": "\\ud800', b"[" * 100_000])
def test_no_completion_is_a_failure(sent: bytes) -> None:
    """A body that is not a completion, even after repair, is a malformed failure."""
    failure = read_completion(sent)
    assert isinstance(failure, AttemptFailure)
    assert failure.kind == "malformed"


@pytest.mark.parametrize("count", ["-7", "1" + "0" * 400, "9223372036854775808", '"12"', "1.5"])
def test_impossible_token_counts_are_ignored(count: str) -> None:
    """A count that is negative, too large for the log or not an integer counts as not reported."""
    details = f'{{"cached_tokens": {count}}}'
    usage = (
        f'{{"prompt_tokens": {count}, "completion_tokens": 5, "prompt_tokens_details": {details}}}'
    )
    sent = f'{{"choices": [{{"message": {{"content": "yes"}}}}], "usage": {usage}}}'
    assert read_completion(sent.encode()) == Reply("yes", usage=Usage(0, 5, 0))


def test_a_schema_without_properties_is_completed() -> None:
    """Chat APIs refuse an object without `properties`, which some SDKs of MCP write."""
    whole = {"type": "object", "properties": {}}
    for schema in ({"type": "object"}, {}, whole):
        assert sent_tool(ToolSpec("clear", "", schema), "clear")["function"]["parameters"] == whole


def _sent(message: dict[str, Any], finish: str = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


_WHOLE = _sent({"content": "hi"})
_CALL = {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
_EVENT = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}
_HI, _CALLS = Reply("hi"), Reply("", (AgentCall("f", {"a": 1}, "x"),), "tool_calls")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\xef\xbb\xbf" + _WHOLE, _HI),
        (b": heartbeat\n\ndata: " + json.dumps(_EVENT).encode() + b"\n\ndata: [DONE]\n\n", _HI),
        (json.dumps(_EVENT).encode(), _HI),
        (b'{"choices": [{"text": "hi", "finish_reason": "stop"}]}', _HI),
        (_sent({"content": None, "tool_calls": _CALL}, "tool_calls"), _CALLS),
        (
            _sent({"tool_calls": [{"id": "x", "name": " f\n", "arguments": {"a": 1}}]}, "stop"),
            _CALLS,
        ),
        (
            _sent({"content": [{"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}]}),
            _CALLS,
        ),
        (
            _sent(
                {"content": "hi"},
                usage={"input_tokens": 9, "output_tokens": 7, "cache_read_input_tokens": 5},
            ),
            Reply("hi", usage=Usage(14, 7, 5)),
        ),
        (
            _sent({"content": "hi"}, usage={"prompt_tokens": 9.0, "total_tokens": 16}),
            Reply("hi", usage=Usage(9, 7)),
        ),
        (
            _sent(
                {"content": "hi"},
                usage={
                    "prompt_tokens": 9,
                    "completion_tokens": 7,
                    "prompt_cache_hit_tokens": 8,
                    "reasoning_tokens": 3,
                },
            ),
            Reply("hi", usage=Usage(9, 7, 8, 3)),
        ),
    ],
)
def test_odd_replies_are_read(body: bytes, expected: Reply) -> None:
    """Forms that differ from OpenAI's, and lose nothing."""
    assert read_completion(body) == expected


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ({"object": "error", "message": "busy", "code": 503}, ("status", 503, "busy")),
        ({"errors": [{"message": "busy"}]}, ("malformed", 0, "the answer contains an error: busy")),
        ({"detail": "busy"}, ("malformed", 0, "the answer contains an error: busy")),
        ({"success": False, "message": "a"}, ("malformed", 0, "the answer contains an error: a")),
        (
            {"message": "no error"},
            ("malformed", 0, 'the answer contains no choice: {"message": "no error"}'),
        ),
    ],
)
def test_errors_in_other_places(body: Any, failure: tuple[str, int, str]) -> None:
    """An error in an answer of status 200 is found where servers put it."""
    found = read_completion(json.dumps(body).encode())
    assert isinstance(found, AttemptFailure)
    assert (found.kind, found.status, found.message) == failure


@pytest.mark.parametrize("text", ["", "  ", "\n", None])
def test_blank_arguments_are_none(text: str | None) -> None:
    """Blank arguments are read as an empty object."""
    assert read_arguments(text) == {}

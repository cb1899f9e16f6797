"""Streamed replies over each of the three clients: equal to those in one piece, whatever the server
does in between. The openai package puts the same events together, as a second opinion.

The servers are ours: their events have the forms of those that people use.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from rehearsal_room.harness.chat.completions import read_completion
from rehearsal_room.harness.chat.retry import AttemptFailure, is_context_overflow
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.core.messages import AgentCall, Reply, Usage
from rehearsal_room.harness.model_servers.event_stream import EventStream
from tests.harness.policies.test_openai import HELLO, agent_of, asking, no_environment
from tests.support.model_server import Completes, ModelServer, ReceivedRequest, Status

__all__ = ["no_environment"]

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
Chunks = list[dict[str, Any]]


def chunk(finish: str | None = None, /, **delta: Any) -> dict[str, Any]:
    """An event of one choice, as OpenAI sends it."""
    return {
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }  # fmt: skip


def call(arguments: Any, **fields: Any) -> dict[str, Any]:
    """A piece of a call; `fields` are its index and its id, and a name goes into the function."""
    function = {"arguments": arguments}
    if "name" in fields:
        function["name"] = fields.pop("name")
    return {**fields, "function": function}


LAST = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
        "usage": USAGE}  # fmt: skip
LOOK, AT = AgentCall("look", {"at": "sky"}, "a"), {"id": "a", "name": "look"}
SIGNED = AgentCall("look", {"at": "sky"}, "a", {"extra_content": {"s": "t"}})
PLAIN = [
    chunk(role="assistant", content=""),
    chunk(content="Hell"),
    chunk(content="o"),
    chunk("stop"),
]
# Events -> reply. The first ones have OpenAI's own form, which the openai package reads too.
STRICT: dict[str, tuple[Chunks, Reply]] = {
    "text": ([*PLAIN, LAST], Reply("Hello", usage=Usage(11, 7))),
    "calls in pieces": (
        [
            chunk(role="assistant", content=None),
            chunk(tool_calls=[call("", index=0, id="a", name="look", type="function")]),
            chunk(tool_calls=[call('{"at"', index=0)]),
            chunk(tool_calls=[call(': "sky"}', index=0)]),
            chunk(tool_calls=[call("{}", index=1, id="b", name="look", type="function")]),
            chunk("tool_calls"),
            LAST,
        ],
        Reply("", (LOOK, AgentCall("look", {}, "b")), "tool_calls", Usage(11, 7)),
    ),
    "cut": (
        [chunk(content="Hell"), chunk("length"), LAST],
        Reply("Hell", (), "length", Usage(11, 7)),
    ),
}
LENIENT: dict[str, tuple[Chunks, Reply]] = {
    "half a character each": (
        [chunk(content="a\ud83d"), chunk("stop", content="\ude00")],
        Reply("a\N{GRINNING FACE}"),
    ),
    "a thought": (
        [
            chunk(reasoning_content="h"),
            chunk(reasoning_content="m"),
            chunk("stop", content="ok"),
        ],
        Reply("<think>hm</think>ok", thought="reasoning_content"),
    ),
    "details of a thought": (
        [
            chunk(reasoning_details=[{"type": "reasoning.text", "text": "h", "index": 0}]),
            chunk(reasoning_details=[{"type": "reasoning.text", "text": "m", "index": 0}]),
            chunk(reasoning_details=[{"type": "reasoning.text", "signature": "s", "index": 0}]),
            chunk("stop", content="ok"),
        ],
        Reply(
            "ok",
            fields={
                "reasoning_details": [
                    {"type": "reasoning.text", "text": "hm", "index": 0, "signature": "s"}
                ]
            },
        ),
    ),
    "calls that share an index": (
        [
            chunk(tool_calls=[call('{"at": "sky"}', index=0, id="a", name="look")]),
            chunk("tool_calls", tool_calls=[call("{}", index=0, id="b", name="look")]),
        ],
        Reply("", (LOOK, AgentCall("look", {}, "b")), "tool_calls"),
    ),
    "calls without an index": (
        [
            chunk(tool_calls=[call('{"at"', id="a", name="look")]),
            chunk(tool_calls=[call(': "sky"}')]),
            chunk("stop", tool_calls=[call({}, id="b", name="look")]),
        ],
        Reply("", (LOOK, AgentCall("look", {}, "b")), "tool_calls"),
    ),
    "ids and names in each event": (
        [
            chunk(tool_calls=[call('{"at"', index=0, id="a", name="look", type="function")]),
            chunk("stop", tool_calls=[call(': "sky"}', index=0, id="a", name="look")]),
        ],
        Reply("", (LOOK,), "tool_calls"),
    ),
    "a signature of a call": (
        [
            chunk("stop", tool_calls=[
                {**call('{"at": "sky"}', index=0, id="a", name="look"), "extra_content": {"s": "t"}}
            ]),
        ],
        Reply("", (SIGNED,), "tool_calls"),
    ),
    "content in parts": (
        [
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]),
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]),
            chunk(content="o"),
            chunk("stop", content="k"),
        ],
        Reply(
            "<think>hm</think>ok",
            fields={
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "ok"},
                ]
            },
        ),
    ),
    "text and calls in two choices": (
        [
            {"choices": [{"index": 0, "delta": {"content": "Look."}}]},
            {"choices": [{"index": 1, "delta": {"tool_calls": [call('{"at": "sky"}', **AT)]},
                          "finish_reason": "tool_calls"}]},
        ],
        Reply("Look.", (LOOK,), "tool_calls"),
    ),
    "a whole message": (
        [{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}], Reply("ok")
    ),
    "the whole message once more": (
        [
            chunk(content="Hell"),
            chunk(content="o"),
            {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]},
        ],
        Reply("Hello"),
    ),
    "whole calls once more": (
        [
            chunk(tool_calls=[call('{"at"', index=0, **AT)]),
            chunk(tool_calls=[call(': "sky"}', index=0)]),
            {"choices": [{"message": {"tool_calls": [call('{"at": "sky"}', **AT)]},
                          "finish_reason": "tool_calls"}]},
        ],
        Reply("", (LOOK,), "tool_calls"),
    ),
    "an empty finish reason in each event": (
        [chunk("", content="Hell"), chunk("null", content="o"), chunk("stop")],
        Reply("Hello"),
    ),
    "whole calls without ids": (
        [
            chunk(tool_calls=[call('{"at": "sky"}', id="", name="look"), call('{"at": "sea"}',
                  id="", name="look")]),
            chunk("stop", tool_calls=[call("{}", index=0, id="", name="look")]),
        ],
        Reply("", (AgentCall("look", {"at": "sky"}, ""), AgentCall("look", {"at": "sea"}, ""),
              AgentCall("look", {}, "")), "tool_calls"),
    ),
    "an empty object before the arguments": (
        [
            chunk(tool_calls=[call("{}", index=0, id="a", name="look")]),
            chunk("stop", tool_calls=[call('{"at": "sky"}', index=0)]),
        ],
        Reply("", (LOOK,), "tool_calls"),
    ),
    "a finish reason that is an object": (
        [chunk(content="Hell"), {"choices": [{"delta": {}, "finish_reason": {"type": "length"}}]}],
        Reply("Hell", (), "length"),
    ),
    "usage of Groq": (
        [*PLAIN[:-1], {**chunk("stop"), "x_groq": {"usage": USAGE}}],
        Reply("Hello", usage=Usage(11, 7)),
    ),
}  # fmt: skip


def events(
    chunks: Chunks, *, end: str = "\n\n", between: str = "", done: bool = True, mark: str = ""
) -> bytes:
    text = "".join(f"{between}data: {json.dumps(one)}{end}" for one in chunks)
    return (mark + text + (f"data: [DONE]{end}" if done else "")).encode()


FORMS = {
    "usual": {},
    "crlf": {"end": "\r\n\r\n"},
    "cr": {"end": "\r\r"},
    "no empty lines": {"end": "\n"},
    "no end": {"done": False},
    "heartbeats": {"between": ": keep-alive\n\nevent: message\nid: 7\n"},
    "empty events": {"between": "data: \n\ndata: ping\n\n"},
    "byte order mark": {"mark": "\ufeff"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*STRICT, *LENIENT])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_events_make_the_reply_of_one_piece(name: str, form: str, size: int) -> None:
    """However they are cut into packets."""
    chunks, expected = {**STRICT, **LENIENT}[name]
    data, stream = events(chunks, **FORMS[form]), EventStream()  # type: ignore[arg-type]
    for start in range(0, len(data), size):
        stream.feed(data[start : start + size])
    assert read_completion(stream.completion()) == expected
    assert (stream.is_stream, stream.has_ended, stream.fault) == (True, True, "")


ERRORS_IN_STREAMS = {
    "its own field": b'error: {"code": 500, "message": "Context size has been exceeded."}\n\n',
    "a line of JSON": b'{"error": {"message": "prompt is too long", "code": 400}}\n\n',
    "vLLM's": b'data: {"object": "error", "message": "prompt is too long", "code": 400}\n\n',
    "MiniMax's": b'data: {"base_resp": {"status_code": 1, "status_msg": "prompt is too long"}}\n',
    "an event": b'event: error\ndata: {"message": "prompt is too long", "code": 400}\n\n',
}


@pytest.mark.parametrize("error", ERRORS_IN_STREAMS.values(), ids=ERRORS_IN_STREAMS)
def test_an_error_in_a_stream_is_read(error: bytes) -> None:
    """Wherever it stands, it ends the reply, and says why."""
    stream = EventStream()
    stream.feed(events([chunk(content="Half")], done=False) + error)
    failure = read_completion(stream.completion())
    assert stream.has_failed and not stream.fault
    assert isinstance(failure, AttemptFailure) and is_context_overflow(failure)


@pytest.mark.parametrize("word", ["", "null", None])
def test_a_stream_that_is_cut_has_not_ended(word: str | None) -> None:
    """A finish reason that says nothing ends no stream: half a reply is never taken for one."""
    stream = EventStream()
    stream.feed(events([chunk(word, content="Half")], done=False))
    assert not stream.has_ended


@pytest.mark.parametrize("name", STRICT)
def test_the_openai_package_makes_the_same_of_them(name: str) -> None:
    """Its accumulated completion, read as one that came in one piece."""
    chunks, expected = STRICT[name]
    state = ChatCompletionStreamState()
    for one in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(one))
    if name != "cut":  # for which the package raises an error of its own
        theirs = state.get_final_completion().model_dump_json().encode()
        assert read_completion(theirs) == expected


@given(st.binary() | st.lists(st.sampled_from(
    [b"data:", b"data: ", b"{", b"}", b'"choices":', b"[", b"]", b"null", b"\n", b"\r", b":", b",",
     b'"delta"', b'"content"', b'"tool_calls"', b'"a"', b"7", b"event: error\n", b"[DONE]"]
)).map(b"".join))  # fmt: skip
def test_any_bytes_can_be_read(data: bytes) -> None:
    """A reply or a failure, and never an exception; in pieces as in one."""
    whole, pieces = EventStream(), EventStream()
    whole.feed(data)
    for index in range(len(data)):
        pieces.feed(data[index : index + 1])
    assert read_completion(whole.completion()) == read_completion(pieces.completion())


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(params=["lean", "aiohttp", "package"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class Streams:
    """Sends these parts of a stream, each once `pause_s` have passed; `ends`: whether the answer
    is then complete, or the server sends nothing more."""

    parts: tuple[bytes, ...]
    pause_s: float = 0.0
    ends: bool = True

    async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for part in self.parts:
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
            await asyncio.sleep(self.pause_s)
        if not self.ends:
            await asyncio.Event().wait()
        writer.write(b"0\r\n\r\n")
        return True


async def streamed(server: ModelServer, **settings: Any) -> tuple[Reply, dict[str, float]]:
    async with asking(server, stream=True, **settings) as policy:
        return await agent_of(policy).reply(HELLO), policy.statistics()


BEATS = (b": keep-alive\n\n",) * 8
HELLO_EVENTS = tuple(events([one], done=False) for one in [*PLAIN, LAST])


async def test_a_reply_is_streamed_where_that_is_asked_for(
    server: ModelServer, client: str
) -> None:
    """With its usage; its first part is timed, and heartbeats and pauses do no harm, as long as
    something arrives. A server that answers in one piece all the same is read."""
    server.plan(Streams((*BEATS, *HELLO_EVENTS, *BEATS), 0.05), Completes("Hello"))
    expected = Reply("Hello", usage=Usage(11, 7))
    reply, counts = await streamed(server, client=client, stall_s=0.4)
    assert reply == expected
    assert 0 < counts["first_part_p50_s"] < counts["latency_p50_s"]
    sent = server.requests[0].body
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})
    assert (await streamed(server, client=client))[0] == expected


FAULTS = {
    "stalls": Streams((HELLO_EVENTS[1],), ends=False),
    "ends early": Streams(HELLO_EVENTS[:2]),
    "an error": Streams((HELLO_EVENTS[1], b'data: {"error": {"message": "m", "code": 502}}\n\n')),
    "an error event": Streams((b'event: error\ndata: {"message": "m"}\n\n',)),
    "no JSON": Streams((b"data: {\n\n",)),
    "failed": Streams((*HELLO_EVENTS[:2], events([chunk("error")]))),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_stream_that_fails_costs_one_attempt(
    server: ModelServer, client: str, fault: str
) -> None:
    """Nothing of it is used: another attempt gives the reply."""
    server.plan(FAULTS[fault], Streams(HELLO_EVENTS))
    reply, counts = await streamed(server, client=client, stall_s=0.2)
    assert reply == Reply("Hello", usage=Usage(11, 7), attempts=2)
    assert counts["retries"] == 1


async def test_a_stall_is_named(server: ModelServer, client: str) -> None:
    """After the last attempt the error says what happened."""
    server.default = FAULTS["stalls"]
    with pytest.raises(PolicyError, match=r"nothing arrived for 0\.1 s in the middle of the reply"):
        await streamed(server, client=client, stall_s=0.1, max_attempts=1)


async def test_a_server_that_does_not_stop_is_cut_off(server: ModelServer, client: str) -> None:
    """At the limit of tokens that was asked for, with what arrived until then; a server that keeps
    to the limit never is, however long its tokens are."""
    more = tuple(events([chunk(content="word ")], done=False) for _ in range(100))
    server.plan(Streams(more, ends=False), Streams((events([chunk(content=" " * 9999), *PLAIN]),)))
    with anyio.fail_after(10):
        reply, _ = await streamed(server, client=client, max_tokens=4)
        assert (reply.finish, reply.text) == ("length", "word " * (len(reply.text) // 5))
        assert 4 * 8 < len(reply.text) < 500
        reply, _ = await streamed(server, client=client, max_tokens=10)
    assert (reply.finish, len(reply.text)) == ("stop", 9999 + len("Hello"))


@pytest.mark.parametrize(
    ("message", "streams", "sent"),
    [
        ("Unsupported parameter: 'stream_options'", True, [True, True]),
        ("stream is not supported", True, [True, None]),
        ("This model only support stream mode, please enable the parameter", False, [None, True]),
        ("non-streaming requests are not supported", False, [None, True]),
    ],
)  # fmt: skip
async def test_what_a_server_says_of_streams_is_learned(
    server: ModelServer, message: str, streams: bool, sent: list[bool | None]
) -> None:
    """A refusal of streams, of their options, or of anything else leads to what it takes."""
    then = Streams(HELLO_EVENTS) if sent[1] else Completes("Hello")
    server.plan(Status(400, message), then)
    async with asking(server, stream=streams) as policy:
        reply = await agent_of(policy).reply(HELLO)
    assert reply == Reply("Hello", usage=Usage(11, 7))
    assert [request.body.get("stream") for request in server.requests] == sent
    has_options = "stream_options" in server.requests[1].body
    assert has_options == (sent[1] is True and "stream_options" not in message)

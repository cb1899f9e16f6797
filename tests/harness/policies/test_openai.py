import asyncio
import json
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.lowlevel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.chat.completions import read_completion, read_error
from rehearsal_room.harness.chat.http1 import BodyWatch
from rehearsal_room.harness.chat.retry import AttemptFailure, is_context_overflow
from rehearsal_room.harness.chat.transport import (
    HttpResponse,
    LeanTransport,
    TransportError,
    proxy_for,
)
from rehearsal_room.harness.chat.transport_aiohttp import AiohttpTransport
from rehearsal_room.harness.chat.wire import RequestWriter, read_arguments
from rehearsal_room.harness.core.errors import (
    ContextLengthError,
    ModelOutageError,
    PolicyError,
    SettingsError,
)
from rehearsal_room.harness.core.messages import AgentCall, Briefing, Message, Reply, Usage, Window
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.openai import (
    OpenAIAgent,
    OpenAIPolicy,
    OpenAISettings,
    endpoint_of,
    request_fields,
)
from rehearsal_room.scenarios.api import User
from rehearsal_room.scenarios.format import Scenario, Task
from tests.support.model_server import Body, Completes, Cut, ModelServer, Stall, Status

HELLO = Window((Message("user", "Hello"),))
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
OK = Reply("ok", usage=Usage(11, 7))
TASK = Task("t", "Do it.", "simple", "change", "Done.")
SCENARIO = Scenario(
    "s", "S", "1", "A world.", "2026-01-01T00:00:00Z", User("u", "U", "clerk"), "", "", "",
    (TASK,), Path("s"), "0" * 32,
)  # fmt: skip


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """The transports run on asyncio only; a run uses uvloop."""
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture(params=["lean", "aiohttp", "package"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the tests names no other model and no proxy."""
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def agent_of(policy: OpenAIPolicy, *, seed: int = 0) -> OpenAIAgent:
    briefing = Briefing(TASK.instruction, "", (), "U", SCENARIO.clock)
    return policy.agent(Assignment("e1", SCENARIO, TASK, seed, briefing))


@asynccontextmanager
async def asking(server: ModelServer, **settings: Any) -> AsyncIterator[OpenAIPolicy]:
    """A policy that asks the server, with short timeouts and few attempts."""
    quick = {"base_url": server.url, "timeout_s": 20.0, "first_wait_s": 0.01, "max_attempts": 3}
    async with policy_of(**(quick | settings)) as policy:
        yield policy


def policy_of(client: str = "lean", **settings: Any) -> OpenAIPolicy:
    """A policy over one of the three transports; "aiohttp" is what proxies get."""
    if client != "aiohttp":
        return OpenAIPolicy(OpenAISettings("m", client=client, **settings))  # type: ignore[arg-type]
    chosen = OpenAISettings("m", **settings)
    return OpenAIPolicy(chosen, transport=AiohttpTransport(endpoint_of(chosen, os.environ)))


async def reply(server: ModelServer, window: Window = HELLO, **settings: Any) -> Reply:
    async with asking(server, **settings) as policy:
        return await agent_of(policy).reply(window)


# Requests


async def test_the_request_is_in_the_chat_format(server: ModelServer, client: str) -> None:
    """Messages, calls, results, tools and sampling have the fields of the chat API."""
    window = Window(
        (
            Message("system", "Be brief."),
            Message("user", "Näher – 日本"),
            Message("assistant", "", (AgentCall("look", {"at": "sky"}, "c1"),)),
            Message("tool", "blue", call_id="c1"),
        ),
        (LOOK,),
    )
    settings = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 100, "seed": 5}
    await reply(server, window, client=client, extra={"stop": ["END"]}, **settings)
    [asked] = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 100,
        "seed": 5,
        "stop": ["END"],
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "Looks.", "parameters": LOOK.schema},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Näher – 日本"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"at":"sky"}'},
                    }
                ],
            },
            {"role": "tool", "content": "blue", "tool_call_id": "c1"},
        ],
    }


async def test_unset_fields_are_not_sent(server: ModelServer, client: str) -> None:
    """A bare request has a model and messages, and no Authorization header without a key."""
    await reply(server, client=client)
    [asked] = server.requests
    assert asked.body == {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    assert "authorization" not in asked.headers
    assert asked.headers["content-type"] == "application/json"


async def test_the_key_goes_into_the_header(server: ModelServer, client: str) -> None:
    """The key of the settings is sent as a bearer token."""
    await reply(server, client=client, api_key="sk-1 \n")
    assert server.requests[0].headers["authorization"] == "Bearer sk-1"


async def test_the_environment_names_endpoint_and_key(
    server: ModelServer, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_ORG_ID and OPENAI_PROJECT_ID are read."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    assert await reply(server, client=client, base_url=None) == OK
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer sk-env"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org", "project")


async def test_episodes_get_seeds_of_their_own(server: ModelServer) -> None:
    """Members of a group have different seeds in their requests, the same in every run."""
    async with asking(server, seed=2**31 - 1) as policy:
        for seed in (0, 1):
            await agent_of(policy, seed=seed).reply(HELLO)
    assert [asked.body["seed"] for asked in server.requests] == [2**31 - 1, 0]


async def test_connections_are_reused(server: ModelServer, client: str) -> None:
    """The requests of one agent use one connection."""
    async with asking(server, client=client) as policy:
        agent = agent_of(policy)
        for _ in range(3):
            await agent.reply(HELLO)
    assert [asked.connection for asked in server.requests] == [0, 0, 0]


async def test_concurrency_is_bounded(server: ModelServer, client: str) -> None:
    """No more requests are in flight than the settings allow, and all are answered."""
    full = asyncio.Event()
    server.default = Completes("ok", after=full)
    async with (
        asking(server, client=client, concurrency=4) as policy,
        anyio.create_task_group() as group,
    ):
        for _ in range(20):
            group.start_soon(agent_of(policy).reply, HELLO)
        await server.in_flight_reaches(4)
        full.set()
    assert (len(server.requests), server.most_in_flight) == (20, 4)


@given(st.lists(st.text()), st.one_of(st.none(), st.integers(0, 2**31 - 1)))
def test_any_text_can_be_sent(texts: list[str], seed: int | None) -> None:
    """Whatever the messages are, the body is JSON with the same texts."""
    window = Window(tuple(Message("user", _whole(text)) for text in texts))
    body = json.loads(RequestWriter({"model": "m"}).body(window, seed=seed))
    assert [message["content"] for message in body["messages"]] == [_whole(t) for t in texts]
    assert body.get("seed") == seed


def _whole(text: str) -> str:
    return text.encode(errors="replace").decode()


def test_tools_are_cached_by_identity() -> None:
    """A writer that has written many sets of tools still gives each request its own tools."""
    writer = RequestWriter({"model": "m"})
    for round_ in range(2):
        for number in range(1500):
            tools = (ToolSpec(f"tool{number}", "", {}),)
            for _ in range(2):
                sent = json.loads(writer.body(Window(HELLO.messages, tools)))["tools"]
                assert sent[0]["function"]["name"] == f"tool{number}", round_
    assert "tools" not in json.loads(writer.body(HELLO))


def test_openai_gets_the_newer_field_for_max_tokens() -> None:
    """OpenAI gets `max_completion_tokens`, every other endpoint `max_tokens`."""
    settings = OpenAISettings("m", max_tokens=9)
    local = request_fields(settings, "http://127.0.0.1:8000/v1")
    at_openai = request_fields(settings, "https://api.openai.com/v1")
    assert local == {"model": "m", "max_tokens": 9}
    assert at_openai == {"model": "m", "max_completion_tokens": 9}


# Responses


async def test_text_usage_and_finish_are_in_the_reply(server: ModelServer, client: str) -> None:
    """A plain answer becomes a Reply with its text, usage and finish reason."""
    server.plan(Completes("Hi – ähm", finish="length"))
    got = await reply(server, client=client)
    assert got == Reply("Hi – ähm", finish="length", usage=Usage(11, 7))


async def test_calls_are_decoded(server: ModelServer, client: str) -> None:
    """Calls have decoded arguments and the server's ids; null content is an empty text."""
    calls = (("a", "look", '{"at": "sky", "n": 1.5}'), ("b", "look", ""))
    server.plan(Completes(None, calls))
    got = await reply(server, client=client)
    assert got == Reply(
        "",
        (AgentCall("look", {"at": "sky", "n": 1.5}, "a"), AgentCall("look", {}, "b")),
        "tool_calls",
        Usage(11, 7),
    )


@pytest.mark.parametrize("sent", ['{"at": ', "at=sky", "{'at': 1}", "NaN", '"\\ud800"', "[" * 9999])
async def test_arguments_that_are_not_json_stay_text(sent: str, server: ModelServer) -> None:
    """Invalid JSON of a model is passed on unchanged: the dialect decides about it."""
    server.plan(Completes(None, (("a", "look", sent),)))
    got = await reply(server)
    assert got.calls == (AgentCall("look", sent, "a"),)


async def test_a_chunked_answer_is_read(server: ModelServer, client: str) -> None:
    """An answer may come in pieces of unknown number."""
    server.plan(Completes("piece by piece " * 50, chunked=True))
    assert (await reply(server, client=client)).text == "piece by piece " * 50


async def test_a_long_answer_is_read(server: ModelServer, client: str) -> None:
    """An answer may be larger than any buffer."""
    server.plan(Completes("x" * 3_000_000))
    assert len((await reply(server, client=client)).text) == 3_000_000


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_put_in_front(field: str, server: ModelServer) -> None:
    """Reasoning that a parser took out of the text is put back in front of it."""
    server.plan(Completes("blue", message={field: "sky?"}))
    assert (await reply(server)).text == "<think>sky?</think>blue"


async def test_a_refusal_is_a_text(server: ModelServer) -> None:
    """OpenAI's `refusal` field is the answer where the content is empty."""
    server.plan(Completes(None, message={"refusal": "I will not."}))
    assert (await reply(server)).text == "I will not."


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"choices": [{"message": {}, "finish_reason": "stop"}]}, Reply("", content="null")),
        (
            {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]},
            Reply("", content="null"),
        ),
        ({"choices": [{"message": {"content": "a"}}], "usage": None}, Reply("a")),
        (
            {"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}]},
            Reply("ab"),
        ),
        (
            {
                "choices": [
                    {
                        "message": {
                            "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]
                        }
                    }
                ]
            },
            Reply(calls=(AgentCall("f", {"a": 1}, ""),), finish="tool_calls"),
        ),
        (
            {"choices": [{"message": {"tool_calls": [{"id": "x"}]}}]},
            Reply(calls=(AgentCall("", {}, "x"),), finish="tool_calls"),
        ),
        (
            {"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 3}},
            Reply("a", usage=Usage(3, 0)),
        ),
        (
            {
                "choices": [{"message": {"content": "a"}}],
                "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
            },
            Reply("a", usage=Usage(3, 0, 2)),
        ),
        (
            {
                "choices": [{"message": {"content": "a"}}],
                "usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": None}},
            },
            Reply("a", usage=Usage(3, 0)),
        ),
    ],
)
def test_servers_may_leave_out_fields(body: Any, expected: Reply) -> None:
    """Fields that a server leaves out have a default; that it sent no content is kept."""
    assert read_completion(json.dumps(body).encode()) == expected


@given(st.binary(max_size=200))
def test_any_body_can_be_read(body: bytes) -> None:
    """Whatever a server sends, the outcome is a reply or a failure."""
    assert isinstance(read_completion(body), Reply | AttemptFailure)
    assert read_error(500, {}, body).status == 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "message", "content", "tool_calls", "function", "error", "code"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_can_be_read(value: Any) -> None:
    """Whatever JSON a server sends, the outcome is a reply or a failure."""
    body = json.dumps(value).encode()
    assert isinstance(read_completion(body), Reply | AttemptFailure)
    assert isinstance(read_error(400, {}, body), AttemptFailure)


@given(st.recursive(st.none() | st.integers(-(2**53), 2**53) | st.text(), st.lists))
def test_arguments_survive_the_round_trip(value: Any) -> None:
    """Arguments that are JSON are decoded to equal values."""
    text = msgspec.json.encode(value).decode(errors="replace")
    assert read_arguments(text) == json.loads(text)


# Faults that pass

TROUBLE = [
    pytest.param(Status(429, headers={"Retry-After": "0"}), id="429"),
    pytest.param(Status(429, headers={"retry-after-ms": "5"}), id="429-ms"),
    pytest.param(Status(408), id="408"),
    pytest.param(Status(409), id="409"),
    pytest.param(Status(500), id="500"),
    pytest.param(Status(503, body=b"<html>down</html>"), id="503-html"),
    pytest.param(Status(502, body=b""), id="502-empty"),
    pytest.param(Cut(), id="cut"),
    pytest.param(Cut(hard=True), id="reset"),
    pytest.param(Cut(b"HTTP/1.1 200 OK\r\nContent-Le"), id="cut-head"),
    pytest.param(Cut(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"cho'), id="cut-body"),
    pytest.param(
        Cut(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"cho\r\n'), id="cut-chunk"
    ),
    pytest.param(Cut(b"SMTP ready\r\n\r\n"), id="no-http"),
    pytest.param(Stall(), id="stall"),
    pytest.param(Stall(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"cho'), id="stall-body"),
    pytest.param(Body(b'{"choices": [{"message": {"content": "o'), id="half-json"),
    pytest.param(Body(b"\xff\xfe"), id="no-text"),
    pytest.param(Body(b"null"), id="null"),
    pytest.param(Body(b'{"choices": []}'), id="no-choice"),
    pytest.param(Body(b'{"choices": null}'), id="null-choices"),
    pytest.param(Body(b'{"error": {"message": "busy", "code": 503}}'), id="error-in-200"),
]


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_passing_fault_costs_one_attempt(
    trouble: Any, server: ModelServer, client: str
) -> None:
    """After one failed attempt the second one gets the reply, which has the number of attempts."""
    server.plan(trouble)
    stalls = isinstance(trouble, Stall)
    patience = {"timeout_s": 0.5, "max_attempts": 20} if stalls else {"timeout_s": 20.0}
    async with asking(server, client=client, longest_wait_s=0.01, **patience) as policy:
        got = await agent_of(policy).reply(HELLO)
        counts = policy.statistics()
    attempts = got.attempts if stalls else 2  # on a busy machine the second one may time out, too
    was_limited = isinstance(trouble, Status) and trouble.status == 429
    assert got.limited_s == 0.0 or was_limited
    assert msgspec.structs.replace(got, limited_s=0.0) == msgspec.structs.replace(
        OK, attempts=attempts
    )
    assert attempts >= 2
    assert (counts["requests"], counts["retries"], counts["failed"]) == (attempts, attempts - 1, 0)
    assert counts["rate_limited"] == was_limited


async def test_a_connection_closed_while_idle_is_no_fault(server: ModelServer, client: str) -> None:
    """A server may close a connection between two turns; the next turn opens a new one."""
    server.plan(Completes("one", close=True), Completes("two"))
    async with asking(server, client=client) as policy:
        agent = agent_of(policy)
        texts = [(await agent.reply(HELLO)).text]
        await anyio.sleep(0.05)  # the closing usually arrives; both orders must work
        texts.append((await agent.reply(HELLO)).text)
    assert texts == ["one", "two"]


async def test_tokens_and_waits_are_counted(server: ModelServer) -> None:
    """Statistics sum the tokens and the waits of all agents."""
    server.plan(Status(429, headers={"retry-after-ms": "20"}))
    async with asking(server) as policy:
        for _ in range(3):
            await agent_of(policy).reply(HELLO)
        counts = policy.statistics()
    waited = counts.pop("waited_s")
    latencies = [counts.pop(f"latency_{name}_s") for name in ("p50", "p95", "p99", "max")]
    in_flight_s = counts.pop("in_flight_s")
    assert counts == {
        "requests": 4,
        "retries": 1,
        "rate_limited": 1,
        "failed": 0,
        "prompt_tokens": 33,
        "completion_tokens": 21,
        "paused_s": 0.02,
        "lowest_limit": 1024,
        "max_in_flight": 1,
    }
    assert waited == 0.02  # what the server asked for
    assert latencies == sorted(latencies)
    assert 0.0 < latencies[0] <= in_flight_s


async def test_retries_and_rate_limits_are_logged(server: ModelServer) -> None:
    """Retries and pauses are logged at level info (shown with -v), without the server's text."""
    server.plan(
        Status(429, headers={"retry-after-ms": "20"}), Status(503), Status(401, "bad key sk-1")
    )
    with capture_logs() as logs:
        async with asking(server, longest_wait_s=0.01) as policy:
            with pytest.raises(PolicyError):
                await agent_of(policy).reply(HELLO)
    for log in logs:
        log.pop("wait_s", None)
    assert logs == [
        {"event": "rate_limited", "log_level": "info", "pause_s": 0.02, "attempt": 1},
        {"event": "request_retried", "log_level": "info", "reason": 503, "attempt": 2},
        {"event": "request_failed", "log_level": "info", "reason": 401, "attempt": 3},
    ]


class Refusing:
    """A transport whose first answers have the given statuses; all others are good."""

    def __init__(self, statuses: Sequence[int], **headers: str) -> None:
        self.num_asked = 0
        self._statuses = list(statuses)
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def post(self, body: bytes, watch: BodyWatch | None = None) -> HttpResponse:
        self.num_asked += 1
        await anyio.lowlevel.checkpoint()
        if self._statuses:
            return HttpResponse(self._statuses.pop(0), self._headers, b"{}")
        return HttpResponse(200, {}, b'{"choices": [{"message": {"content": "ok"}}]}')

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


async def test_a_rate_limit_delays_its_own_request_only() -> None:
    """While one agent waits as long as the server asked, all others get replies, many of them."""
    transport = Refusing([429], retry_after="100")
    settings = OpenAISettings("m", base_url="http://x/v1")
    replies: list[str] = []

    async def play(policy: OpenAIPolicy, times: int) -> None:
        for _ in range(times):
            reply = await agent_of(policy).reply(HELLO)
            replies.append(reply.text)

    async with OpenAIPolicy(settings, transport=transport) as policy:
        async with anyio.create_task_group() as refused:
            refused.start_soon(play, policy, 1)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as others:
                for _ in range(5):
                    others.start_soon(play, policy, 4)
            refused.cancel_scope.cancel()
        counts = policy.statistics()
    assert replies == ["ok"] * 20
    assert (counts["requests"], counts["rate_limited"], counts["paused_s"]) == (21, 1, 100.0)
    assert counts["lowest_limit"] == settings.concurrency


async def test_overload_lets_fewer_requests_be_in_flight() -> None:
    """Where most requests are refused, fewer are in flight at once; all get their replies, and a
    request that is cancelled while it waits for room takes none from the others."""
    transport = Refusing([429] * 40, retry_after="0")
    settings = OpenAISettings("m", base_url="http://x/v1", concurrency=16, max_attempts=50)
    replies: list[str] = []

    async def play(policy: OpenAIPolicy, number: int) -> None:
        with anyio.CancelScope() as scope:
            if number % 7 == 3:
                scope.cancel()
            replies.append((await agent_of(policy).reply(HELLO)).text)

    async with OpenAIPolicy(settings, transport=transport) as policy:
        async with anyio.create_task_group() as group:
            for number in range(70):
                group.start_soon(play, policy, number)
        counts = policy.statistics()
    assert replies == ["ok"] * 60
    assert 1 <= counts["lowest_limit"] < 16
    assert counts["max_in_flight"] <= 16


async def test_a_server_that_is_gone_stops_the_run(client: str) -> None:
    """After so many connection failures in a row ModelOutageError names the server, the number and
    the cause; a response in between begins a new row."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        settings: dict[str, Any] = {"max_attempts": 9, "first_wait_s": 0.0}
        async with policy_of(client, base_url=url, max_connection_failures=2, **settings) as policy:
            with pytest.raises(ModelOutageError) as caught:
                while True:
                    with pytest.raises(PolicyError):
                        await agent_of(policy).reply(HELLO)
    assert str(caught.value) == (
        f"model 'm' at {url}: 2 connection failures in a row (connection refused)"
    )


async def test_a_reused_connection_that_dies_is_replaced(server: ModelServer) -> None:
    """Where a connection ends just when it is reused, the request is sent on a new one."""
    server.plan(Completes("one"), Cut(), Completes("two"))
    async with asking(server) as policy:
        agent = agent_of(policy)
        replies = [await agent.reply(HELLO), await agent.reply(HELLO)]
    assert [(got.text, got.attempts) for got in replies] == [("one", 1), ("two", 1)]
    assert [asked.connection for asked in server.requests] == [0, 0, 1]


# Faults that last


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_lasting_fault_is_raised_at_once(
    status: int, server: ModelServer, client: str
) -> None:
    """A wrong request is not sent again; the error has model, URL, status, reason and attempts."""
    server.plan(Status(status, "no such thing"))
    with pytest.raises(PolicyError) as caught:
        await reply(server, client=client)
    assert str(caught.value) == (
        f"model 'm' at {server.url}: status {status}: no such thing (after 1 attempt)"
    )
    assert len(server.requests) == 1


async def test_attempts_are_limited(server: ModelServer, client: str) -> None:
    """After the last attempt the newest fault is raised."""
    server.plan(Status(500), Status(502), Status(503, "overloaded"))
    with pytest.raises(PolicyError) as caught:
        await reply(server, client=client)
    assert str(caught.value) == (
        f"model 'm' at {server.url}: status 503: overloaded (after 3 attempts)"
    )


async def test_a_refused_connection_is_an_error_of_the_policy(client: str) -> None:
    """A refused connection raises PolicyError, which names the URL."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        async with policy_of(client, base_url=url, max_attempts=2, first_wait_s=0.01) as policy:
            with pytest.raises(PolicyError, match=f"^model 'm' at {url}: .*after 2 attempts"):
                await agent_of(policy).reply(HELLO)


@pytest.mark.parametrize("kind", [LeanTransport, AiohttpTransport])
async def test_whether_a_request_was_sent_is_known(
    server: ModelServer, kind: type[LeanTransport] | type[AiohttpTransport]
) -> None:
    """A server that was not reached bills nothing; one that cut the connection may."""
    settings = OpenAISettings("m", timeout_s=20.0)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        sent = []
        server.plan(Cut())
        for base_url in (url, server.url):
            chosen = msgspec.structs.replace(settings, base_url=base_url)
            async with kind(endpoint_of(chosen, {})) as transport:
                with pytest.raises(TransportError) as caught:
                    await transport.post(b"{}")
                sent.append(caught.value.was_sent)
    assert sent == [False, True]


@pytest.mark.parametrize("streams", [False, True])
async def test_no_client_follows_a_redirect(
    server: ModelServer, client: str, streams: bool
) -> None:
    """A redirect is a refusal that names its target; nothing, and no key, goes there."""
    async with ModelServer() as other:
        server.plan(Status(307, headers={"Location": f"{other.url}/chat/completions"}))
        with pytest.raises(PolicyError, match=f"status 307: the server redirects to {other.url}"):
            await reply(server, client=client, api_key="sk-secret-1", stream=streams)
        assert (len(server.requests), other.requests) == (1, [])


async def test_the_key_is_never_shown(server: ModelServer, client: str) -> None:
    """The error does not contain the key, also where the server repeats it in its message."""
    server.plan(Status(401, "Incorrect API key provided: sk-secret-1."))
    with pytest.raises(PolicyError) as caught:
        await reply(server, client=client, api_key="sk-secret-1")
    assert "sk-secret-1" not in str(caught.value)
    assert "Incorrect API key provided: ***." in str(caught.value)


@pytest.mark.parametrize(
    "refusal",
    [
        Status(400, "too much", "context_length_exceeded"),
        Status(400, "This model's maximum context length is 4096 tokens. You requested 5000."),
        Status(400, "The decoder prompt (length 9) is longer than the maximum model length of 8."),
        Status(400, body=b'{"error":{"code":400,"message":"exceeds the available context size"}}'),
        Status(400, body=b'{"object":"error","message":"... context length ...","code":400}'),
        Status(422, "`inputs` tokens + `max_new_tokens` must be <= 4096"),
    ],
)
async def test_a_full_context_has_its_own_error(
    refusal: Status, server: ModelServer, client: str
) -> None:
    """The error of each kind of server for a conversation that is too long is recognised."""
    server.plan(refusal)
    with pytest.raises(ContextLengthError):
        await reply(server, client=client)
    assert len(server.requests) == 1


def test_other_refusals_are_not_a_full_context() -> None:
    """A bad request and a rate limit on tokens are not taken for a full context."""
    assert not is_context_overflow(AttemptFailure("status", "Unknown field 'foo'", 400))
    assert not is_context_overflow(AttemptFailure("status", "context length, tokens per min", 429))


# Life cycle


async def test_cancelling_abandons_the_request(server: ModelServer, client: str) -> None:
    """A cancelled reply closes its connection, and the policy stays usable."""
    server.plan(Stall())
    async with asking(server, client=client, concurrency=1) as policy:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent_of(policy).reply, HELLO)
            await server.in_flight_reaches(1)
            tasks.cancel_scope.cancel()
        assert (await agent_of(policy).reply(HELLO)).text == "ok"
    assert [asked.connection for asked in server.requests] == [0, 1]


async def test_many_agents_share_a_policy(server: ModelServer) -> None:
    """Two hundred agents of one policy all get replies from a server that fails now and then."""
    faults: Sequence[Any] = (
        Status(500),
        Cut(),
        Completes("ok", close=True),
        Status(429),
        Body(b"{"),
    )
    server.plan(*(faults[n % 5] if n % 4 == 0 else Completes("ok") for n in range(200)))
    texts: list[str] = []

    async def play(policy: OpenAIPolicy) -> None:
        texts.append((await agent_of(policy).reply(HELLO)).text)

    async with (
        asking(server, max_attempts=20, concurrency=32, longest_wait_s=0.02) as policy,
        anyio.create_task_group() as group,
    ):
        for _ in range(200):
            group.start_soon(play, policy)
    assert texts == ["ok"] * 200


async def test_a_proxy_is_asked_where_the_environment_names_one(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request through a proxy has the whole URL."""
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert await reply(server, base_url="http://models.example/v1") == OK
    [asked] = server.requests
    assert asked.path == "http://models.example/v1/chat/completions"
    assert asked.headers["host"] == "models.example"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a self-signed certificate for 127.0.0.1, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    path = tmp_path / "server.pem"
    words = shlex.split(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    public = tmp_path / "certificate.pem"
    command = [openssl, *words, "-keyout", path, "-out", public]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text() + public.read_text())
    return path


async def test_tls_needs_a_trusted_certificate(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An https endpoint answers where its certificate is trusted, and is refused where not."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    async with ModelServer(tls=tls) as server:
        with pytest.raises(PolicyError, match="certificate"):
            await reply(server, max_attempts=1)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        async with asking(server) as policy:
            for _ in range(2):
                assert await agent_of(policy).reply(HELLO) == OK
    assert [asked.connection for asked in server.requests] == [0, 0]


@pytest.mark.parametrize("client", ["lean", "aiohttp"])
async def test_a_closed_policy_cannot_be_asked(client: str) -> None:
    """Asking outside of the `async with` raises RuntimeError, which names the mistake."""
    policy = policy_of(client, base_url="http://127.0.0.1:1/v1")
    with pytest.raises(RuntimeError, match="outside of its `async with`"):
        await agent_of(policy).reply(HELLO)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (OpenAISettings("m"), "api_key: https://api.openai.com/v1 needs one"),
        (OpenAISettings("", base_url="http://x"), "model: must not be empty"),
        (OpenAISettings("m", base_url="x:80/v1"), "base_url: expected a URL such as"),
        (OpenAISettings("m", base_url="http:///v1"), "base_url: expected a URL such as"),
        (OpenAISettings("m", base_url="http://x:99999/v1"), "base_url: expected a URL such as"),
        (OpenAISettings("m", base_url="http://x/v1\r\nA: b"), "base_url: expected a URL such as"),
        (
            OpenAISettings("m", base_url="http://me:secret@x/v1"),
            "^base_url: must not hold a user, a",
        ),
        (OpenAISettings("m", base_url="http://x/v1?a=b"), "base_url: must not hold a user"),
        (
            OpenAISettings("m", base_url="http://x", api_key="a\r\nb"),
            "api_key: contains characters",
        ),
        (OpenAISettings("m", base_url="http://x", timeout_s=0), "timeout_s: must be above 0"),
        (OpenAISettings("m", base_url="http://x", max_attempts=0), "max_attempts: must be above"),
        (
            OpenAISettings("m", base_url="http://x", extra={"messages": []}),
            "extra_body: 'messages' cannot be set there",
        ),
        (
            OpenAISettings("m", base_url="http://x", extra={"n": 2}),
            "extra_body: 'n' cannot be set there",
        ),
    ],
)
def test_invalid_settings_are_refused(settings: OpenAISettings, sentence: str) -> None:
    """A setting that cannot be used is named before any request."""
    with pytest.raises(SettingsError, match=sentence):
        OpenAIPolicy(settings)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the openai package is chosen but not installed, the error names the setting."""
    monkeypatch.delitem(sys.modules, "rehearsal_room.harness.chat.transport_openai", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(SettingsError, match="client: 'package' needs the package openai: pip"):
        policy_of("package", base_url="http://x/v1")


def test_settings_win_over_the_environment() -> None:
    """The settings are used, whatever is in the environment."""
    environment = {"OPENAI_API_KEY": "sk-env", "OPENAI_BASE_URL": "http://env/v1"}
    chosen = endpoint_of(
        OpenAISettings("m", base_url="http://own/v1/", api_key="sk-own"), environment
    )
    assert (chosen.url, chosen.api_key) == ("http://own/v1/chat/completions", "sk-own")
    left = endpoint_of(OpenAISettings("m"), environment)
    assert (left.url, left.api_key) == ("http://env/v1/chat/completions", "sk-env")


def test_proxies_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is used for hosts that NO_PROXY does not name."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1,.inside")
    assert proxy_for("http://models.example/v1") == "http://proxy:3128"
    assert proxy_for("http://127.0.0.1:8000/v1") is None
    assert proxy_for("http://gpu.inside/v1") is None


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"])
def test_values_of_headers_hold_no_line_break(name: str) -> None:
    """Space around a value of the environment is dropped; a line break inside it is refused."""
    settings = OpenAISettings("m", base_url="http://x/v1")
    found = endpoint_of(settings, {name: " v-1\r\n"})
    assert [value for value in (found.api_key, found.organization, found.project) if value] == [
        "v-1"
    ]
    assert endpoint_of(settings, {name: "\n"}).headers.keys() == {"Content-Type", "Accept"}
    with pytest.raises(SettingsError, match="contains characters that an HTTP header cannot"):
        endpoint_of(settings, {name: "v-1\r\nX-Other: 1"})

"""The request before a run: which cause it names, and what it lets pass."""

import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rehearsal_room.harness.chat.completions import read_error
from rehearsal_room.harness.chat.preflight import (
    FoundServer,
    cause_of,
    cause_of_answer,
    cause_of_rehearsal,
    names_in,
)
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.core.errors import ModelServerError, SettingsError
from rehearsal_room.harness.policies.openai import OpenAIPolicy, OpenAISettings
from tests.support.model_server import Body, Completes, ModelServer, Status

UNKNOWN_MODEL = "the server does not have this model"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def preflight(url: str, **settings: Any) -> None:
    await OpenAIPolicy(OpenAISettings("m", base_url=url, api_key="sk-1", **settings)).preflight()


async def cause(server: ModelServer, **settings: Any) -> str:
    with pytest.raises(ModelServerError) as caught:
        await preflight(server.url, **settings)
    before = f"model 'm' at {server.url}: "
    assert str(caught.value).startswith(before)
    return str(caught.value).removeprefix(before)


@pytest.mark.parametrize("listed", [("a", "m"), ("*",), ("m*",)])
async def test_a_model_in_the_list_costs_nothing(
    listed: tuple[str, ...], server: ModelServer
) -> None:
    """Where the server lists the model, or a pattern that it fits, nothing is asked of it."""
    server.models = listed
    await preflight(server.url)
    assert (server.num_listings, server.requests) == (1, [])


@pytest.mark.parametrize("listed", [None, (), ("other",)])
async def test_without_the_model_in_a_list_one_token_is_asked_for(
    listed: tuple[str, ...] | None, server: ModelServer
) -> None:
    """A server without a list, or that answers to names outside of it, gets one small request."""
    server.models = listed
    server.default = Completes("H", finish="length")
    await preflight(server.url, max_tokens=500, extra={"service_tier": "flex"})
    [asked] = server.requests
    assert asked.body == {
        "model": "m",
        "max_tokens": 1,
        "service_tier": "flex",
        "messages": [{"role": "user", "content": "Hello"}],
    }


async def test_a_server_that_is_not_there(server: ModelServer) -> None:
    """A refused connection is named, with what to do."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        with pytest.raises(ModelServerError) as caught:
            await preflight(url)
    assert str(caught.value) == (
        f"model 'm' at {url}: no server answers (connection refused); start it, or correct the URL"
    )


async def test_a_refused_key(server: ModelServer) -> None:
    """A refused key is named, and never shown."""
    server.models = None
    server.default = Status(401, "Incorrect API key provided: sk-1")
    assert await cause(server) == (
        "the server refuses the API key (status 401: Incorrect API key provided: ***); set the"
        " right one, as in OPENAI_API_KEY"
    )


async def test_an_unknown_model(server: ModelServer) -> None:
    """A model that the server does not have is named, with those that it has."""
    server.models = ("small", "large")
    server.default = Status(404, "The model `m` does not exist.", "model_not_found")
    assert await cause(server) == (
        "the server does not have this model (status 404: The model `m` does not exist.); it"
        " serves small, large"
    )


@pytest.mark.parametrize(
    "behaviour",
    [
        Status(429),
        Status(503, "loading the model"),
        Status(500),
        Status(400, "max_tokens must be at least 16"),
        Body(b'{"error": {"message": "busy", "code": 503}}'),
        Completes(None),
    ],
)
async def test_what_may_pass_is_left_to_the_run(behaviour: Any, server: ModelServer) -> None:
    """A rate limit, a server that starts, and a refusal of the small request stop no run."""
    server.models = None
    server.default = behaviour
    await preflight(server.url)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            AttemptFailure("status", "Not Found", 404),
            "there is no chat endpoint (status 404: Not Found)",
        ),
        (AttemptFailure("status", "no money", 402), "the server refuses the account (status 402"),
        (
            AttemptFailure("status", "q", 429, "insufficient_quota"),
            "the server refuses the account",
        ),
        (
            AttemptFailure("status", "Model 'x' not found", 400),
            "the server does not have this model",
        ),
        (
            AttemptFailure("timeout", "no answer within 5 s", was_sent=False),
            "no server answers (no answer",
        ),
    ],
)
def test_causes(failure: AttemptFailure, text: str) -> None:
    """Each cause that lasts has its own sentence."""
    assert (cause_of(failure) or "").startswith(text)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"data": [{"id": 1}]}', b"\xff", b"[" * 9999]
)
def test_any_answer_to_the_list_is_read(body: bytes) -> None:
    """What is not a list of models has no names."""
    assert names_in(body) == ()


def test_names_are_read() -> None:
    """The names are those of the field `id`."""
    assert names_in(json.dumps({"data": [{"id": "a", "x": 1}, {"id": "b"}]}).encode()) == ("a", "b")


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (
            Body(b"\n<!doctype html><h1>Sign in</h1>"),
            "the server answers with a web page (HTML), and not with a reply; correct the URL,"
            " which usually ends in /v1",
        ),
        (Body(b"It works!"), "the server's answer is not JSON ('It works!'); correct the URL"),
        (Body(b'{"status": "ok"}'), "the server's answer is not a chat completion ({"),
        (
            Status(308, headers={"Location": "https://models.example/v1/chat/completions"}),
            "the server redirects to https://models.example/v1/chat/completions (status 308), and a"
            " run follows no redirects; use the URL of the server itself",
        ),
        (Status(301), "the server redirects (status 301), and a run follows no redirects"),
        (Status(405, "Method Not Allowed"), "there is no chat endpoint (status 405"),
        (Status(407, "denied"), "a proxy on the way wants a user and password (status 407"),
        (
            Status(200, headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b\x08"),
            "the server's answer cannot be read (content-encoding 'gzip' was not asked for)",
        ),
    ],
)
async def test_what_is_no_model_server(behaviour: Any, text: str, server: ModelServer) -> None:
    """A web page, another service, a redirect and a compressed answer are named for what they
    are."""
    server.models = None
    server.default = behaviour
    assert (await cause(server)).startswith(text)


def failed(status: int, message: str, code: str | None = None) -> AttemptFailure:
    error = {"error": {"message": message, "code": code}}
    return read_error(status, {}, json.dumps(error).encode())


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (failed(404, "No endpoints found that support tool use."), "the server refuses a request"),
        (failed(404, "No allowed providers are available"), "the server refuses a request"),
        (failed(404, "The API deployment for this resource does not exist."), UNKNOWN_MODEL),
        (failed(404, "model: claude-x"), UNKNOWN_MODEL),
        (failed(404, "Not found the model kimi-x or Permission denied"), UNKNOWN_MODEL),
        (failed(404, "Unable to access model x.", "model_not_available"), UNKNOWN_MODEL),
        (failed(400, "The provided model identifier is invalid."), UNKNOWN_MODEL),
        (failed(400, "x is not a valid model ID"), UNKNOWN_MODEL),
        (failed(404, "Not Found"), "there is no chat endpoint"),
        (failed(404, "File Not Found"), "there is no chat endpoint"),
        (failed(404, "Invalid URL (POST /v1/x/chat/completions)"), "there is no chat endpoint"),
        (read_error(404, {}, b"404 page not found"), "there is no chat endpoint"),
        (read_error(404, {}, b""), "there is no chat endpoint"),
        (read_error(403, {}, b"<html><title>Just a moment"), "the server answers with a web page"),
        (failed(400, "Failed to call a function.", "tool_use_failed"), None),
    ],
    ids=lambda one: str(getattr(one, "message", one)),
)
def test_refusals_are_named_for_what_they_are(failure: AttemptFailure, text: str | None) -> None:
    """A missing model, a missing path and a request that is refused are three causes; a generation
    that failed is none."""
    cause = cause_of_rehearsal(failure, FoundServer())
    assert cause is None if text is None else (cause or "").startswith(text)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "there is no chat"),
        (
            {"error": {"type": "authentication_error", "message": "no"}},
            "the server refuses the API",
        ),
        (
            {"base_resp": {"status_code": 1004, "status_msg": "no"}},
            "the server refuses the API key",
        ),
        ({"error": {"message": "Rate limit", "code": 429}}, None),
    ],
)
def test_errors_with_status_200_are_causes(answer: Any, text: str | None) -> None:
    """What a run cannot begin with is found, although its status is 200."""
    cause = cause_of_answer(json.dumps(answer).encode())
    assert cause is None if text is None else (cause or "").startswith(text)


@pytest.mark.parametrize("client", ["lean", "package"])
async def test_a_proxy_that_is_not_there(
    client: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that does not answer is named, without its password, and not the server."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
    assert await cause(server, client=client) == (
        "the proxy http://127.0.0.1:9 does not answer: connection refused; start it, or name the"
        " server in NO_PROXY"
    )


async def test_a_proxy_that_does_not_speak_http(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SOCKS proxy is refused by name."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "socks5://me:secret@127.0.0.1:9")
    with pytest.raises(SettingsError, match=r"proxy socks5://127\.0\.0\.1:9, and only HTTP"):
        await preflight(server.url)

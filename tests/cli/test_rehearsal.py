"""A run's first request, sent before its first episode, as the user of `run` sees it.

Where a web server or a proxy must take part, those of the standard library and of aiohttp do; the
model server is ours.
"""

import asyncio
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse
from tests.support.judged_runs import no_environment, served
from tests.support.model_server import Body, Completes, Cut, ReceivedRequest, Stall, Status

TASK = "shop_support:address-to-parents"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_environment(monkeypatch)
    monkeypatch.chdir(tmp_path)


def run_of(url: str, *more: object) -> tuple[object, ...]:
    model = ("-p", "openai", "-m", "m", "--base-url", url, "--max-attempts", 2)
    return ("run", TASK, *model, "-o", "r", *more)


@contextmanager
def real(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    """A server of the standard library; its URL."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Files(SimpleHTTPRequestHandler):
    """`python -m http.server`: the list of models is a file here."""

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Moved(BaseHTTPRequestHandler):
    """A web server that sends everything to another address."""

    def do_POST(self) -> None:
        self.send_response(307)
        self.send_header("Location", "https://elsewhere.example/login")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def test_the_request_is_the_first_of_the_run(rehearse: Rehearse) -> None:
    """It has the run's tools, seed, sampling, dialect and window, more fields and the stream, and
    is the first episode's: no request is sent twice, and its time is the reply's."""
    flags = ("--temperature", 0.5, "--max-tokens", 99, "--seed", 3, "--history", "last:2")
    more = ("--extra-body", '{"top_k": 20}', "--stream", "-n", 3, "-c", 1)
    with served(Completes("I cannot help.")) as server:
        assert rehearse(*run_of(server.url, *flags, *more))[0] == 0
        with_rehearsal = [request.body for request in server.requests]
        server.requests.clear()
        assert rehearse(*run_of(server.url, *flags, *more, "--no-preflight", "-o", "s"))[0] == 0
        without = [request.body for request in server.requests]
    assert with_rehearsal == without
    first = without[0]
    assert (first["temperature"], first["max_tokens"], first["top_k"]) == (0.5, 99, 20)
    assert first["tools"] and first["stream"] and isinstance(first["seed"], int)
    with open_reader(Path("r")) as reader:
        early = [reader.trajectory(f"e00000{n}").steps[0] for n in range(3)]
    assert [step.reply.early_s > 0 for step in early] == [True, False, False]
    assert early[0].policy_s > early[0].reply.early_s


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [
        (Body(b"<!doctype html><h1>Sign in</h1>"), "the server answers with a web page (HTML)"),
        (Body(b"\xef\xbb\xbf  <html>"), "the server answers with a web page (HTML)"),
        (Body(b'{"status": "ok"}'), "the server's answer is not a chat completion"),
        (
            Status(308, headers={"Location": "https://models.example/v1"}),
            "the server redirects to https://models.example/v1 (status 308)",
        ),
        (Status(405, "Method Not Allowed"), "there is no chat endpoint (status 405"),
        (Status(407, "denied"), "a proxy on the way wants a user and password"),
        (
            Status(200, headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b\x08"),
            "content-encoding 'gzip' was not asked for",
        ),
        (
            Status(400, "registry.ollama.ai/m does not have tools: the m model has none"),
            "the server refuses a request as the run sends it (status 400: registry.ollama.ai/m",
        ),
        (Status(401, "no such key"), "the server refuses the API key"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--stream",), ("--processes", 2)])
def test_no_episode_begins(
    rehearse: Rehearse, behaviour: Any, sentence: str, flags: tuple[object, ...]
) -> None:
    """What every episode would meet costs one request, one sentence and exit status 2, though the
    server lists the model; there is no folder."""
    with served(behaviour) as server:
        status, _, err = rehearse(*run_of(server.url, "-n", 4, *flags))
        assert (status, len(server.requests), Path("r").exists()) == (2, 1, False), err
    *_, last = err.splitlines()
    assert last.startswith("error: ") and sentence in last


@pytest.mark.parametrize(
    "behaviour",
    [
        *(Status(429), Status(500), Status(503), Cut(), Cut(b"HTTP/1.1 200 OK\r\n")),
        *(
            Completes(None, finish="content_filter"),
            Completes("a", finish="abort"),
        ),
        Status(400, "This model's maximum context length is 10 tokens."),
        Body(b'{"error": {"message": "busy", "code": 503}}'),
    ],
)
def test_what_may_pass_is_left_to_the_run(rehearse: Rehearse, behaviour: Any) -> None:
    """A failure that other requests need not have begins the run, as its first attempt."""
    with served(Completes("I cannot help.")) as server:
        server.plan(behaviour)
        _, _, err = rehearse(*run_of(server.url, "-n", 2, "-c", 1))
        asked = len(server.requests)
    assert "error:" not in err
    with open_reader(Path("r")) as reader:
        rows = list(reader.episodes())
        attempts = [
            step.reply.attempts for row in rows for step in reader.trajectory(row.episode).steps
        ]
    assert (len(rows), asked) == (2, 1 + len(attempts))
    assert attempts in ([2, 1], [1])  # asked again, or the first episode ended so


def test_what_is_learned_stays(rehearse: Rehearse) -> None:
    """A refused parameter is found before the first episode, and costs one request."""

    class NoSeed:
        async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
            behaviour: Any = Completes("I cannot help.")
            if "seed" in request.body:
                behaviour = Status(422, "seed: Extra inputs are not permitted")
            return bool(await behaviour.perform(request, writer))

    with served(NoSeed()) as server:
        assert rehearse(*run_of(server.url, "-n", 3, "-c", 3))[0] == 0
        assert ["seed" in request.body for request in server.requests] == [True, *[False] * 3]


def test_a_slow_first_reply_is_waited_for_in_the_run(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the reply takes long, the run begins, and its first episode takes that reply."""
    monkeypatch.setattr("rehearsal_room.harness.setup.rehearsal.PATIENCE", 0.05)

    class Slow:
        async def perform(self, request: ReceivedRequest, writer: asyncio.StreamWriter) -> bool:
            await asyncio.sleep(0.3)
            return await Completes("I cannot help.").perform(request, writer)

    with served(Slow()) as server:
        assert rehearse(*run_of(server.url))[0] == 0
        assert len(server.requests) == 1
    with served(Stall()) as server:
        status, out, _ = rehearse(
            *run_of(server.url, "-o", "s", "--request-timeout", 0.2, "--max-attempts", 1)
        )
    assert status == 1 and "no answer within 0.2 s" in out


def test_a_folder_of_files_is_no_model_server(rehearse: Rehearse) -> None:
    """A real web server that serves a list of models, and cannot be asked."""
    Path("v1").mkdir()
    Path("v1/models").write_text(json.dumps({"data": [{"id": "m"}]}))
    with real(Files) as url:
        status, _, err = rehearse(*run_of(f"{url}/v1"))
    assert (status, Path("r").exists()) == (2, False)
    assert "there is no chat endpoint (status 501: " in err


def test_a_real_redirect(rehearse: Rehearse) -> None:
    """A real web server that redirects everything is named, with its target."""
    with real(Moved) as url:
        status, _, err = rehearse(*run_of(f"{url}/v1", "--client", "package"))
    assert (status, Path("r").exists()) == (2, False)
    assert "the server redirects to https://elsewhere.example/login (status 307)" in err


@pytest.mark.parametrize("client", ["lean", "package"])
def test_proxies(rehearse: Rehearse, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run through a real forward proxy; one through a proxy that is dead, or that answers with a
    page of its own, ends with a sentence about it and without its password."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with served(Completes("I cannot help.")) as server, real(Forwards) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("//", "//me:secret@"))
        assert rehearse(*run_of(server.url, "--client", client))[0] == 0
        assert server.requests[0].headers["via"] == "test"
        monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:9")
        status, _, err = rehearse(*run_of(server.url, "--client", client, "-o", "s"))
    assert (status, "secret" in err) == (2, False)
    assert "the proxy http://127.0.0.1:9 does not answer: connection refused" in err
    with served(Completes("I cannot help.")) as server:
        monkeypatch.setenv("http_proxy", "socks5://me:secret@127.0.0.1:9")
        status, _, err = rehearse(*run_of(server.url, "--client", client, "-o", "t"))
    assert (status, "secret" in err) == (2, False)
    assert "proxy socks5://127.0.0.1:9, and only HTTP proxies are supported" in err


class Forwards(BaseHTTPRequestHandler):
    """A forward proxy, as RFC 9110 has it: the target is the whole URL."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        from urllib.request import ProxyHandler, Request, build_opener

        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {"Content-Type": "application/json", "Via": "test"}
        asked = Request(self.path, body or None, headers, method=self.command)
        with build_opener(ProxyHandler({})).open(asked) as answer:
            content = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

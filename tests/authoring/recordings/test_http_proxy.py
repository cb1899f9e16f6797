"""`rehearse new recording FILE --url URL` between clients and servers that speak HTTP.

The clients are the official SDK, fastmcp's and raw requests; the server is FastMCP's, or a plain
application of the test's.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from fastmcp.client import Client
from fastmcp.exceptions import ToolError
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from rehearsal_room.authoring.recordings.http_proxy import recording_of
from rehearsal_room.authoring.recordings.lines import read_recording
from rehearsal_room.envpool.server.http_server import listening
from tests.support.cli import Rehearse
from tests.support.paths import MCP_SERVERS
from tests.support.recorded_sessions import REHEARSE, environment


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def notes() -> Iterator[str]:
    """FastMCP's server over HTTP, in a process; its URL."""
    words = [sys.executable, str(MCP_SERVERS / "notes.py"), "--http"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow  # FastMCP's server starts in a process
async def test_sessions_are_recorded_and_become_tasks(tmp_path: Path, rehearse: Rehearse) -> None:
    """Two clients at once, the official SDK's and fastmcp's, of which one is refused: each session
    has its own calls with their answers, also where their ids are equal. A world's tasks come of
    it, and the URL is the server that plays them."""
    file = tmp_path / "r.jsonl"
    with notes() as url:
        async with (
            recording_of(url, file) as address,
            Client(address) as second,
            streamable_http_client(address) as streams,
            ClientSession(streams[0], streams[1]) as first,
        ):
            await first.initialize()
            await first.list_tools()
            made = await first.call_tool("add_note", {"text": "milk"})
            with pytest.raises(ToolError, match=r"A note needs a text\."):
                await second.call_tool("add_note", {"text": ""})
            listed = await first.call_tool("list_notes", {})
        assert (made.structured_content, listed.structured_content) == (
            {"number": 1},
            {"notes": ["milk"]},
        )
        found = read_recording(file)
        calls = [call for session in found.sessions for call in session]
        assert found.command == (url,)
        assert {tool["name"] for tool in found.tools} == {"add_note", "list_notes", "draw"}
        assert sorted((call.name, call.was_made, call.text) for call in calls) == [
            ("add_note", False, "A note needs a text."),
            ("add_note", True, '{"number":1}'),
            ("list_notes", True, '{"notes":["milk"]}'),
        ]
        status, out, err = await anyio.to_thread.run_sync(
            lambda: rehearse("new", "world", "kept", "--from-recording", file, "-o", tmp_path)
        )
        assert status == 0, err
        text = (tmp_path / "kept" / "tasks.toml").read_text()
        assert "milk" in text and url in out, (out, text)


@asynccontextmanager
async def told(answer: Any) -> AsyncIterator[str]:
    """A server that answers by a function; its URL."""
    methods = ["GET", "POST", "DELETE"]
    app = Starlette(routes=[Route("/{path:path}", answer, methods=methods)])
    async with listening(app, host="127.0.0.1", port=0, drain_s=1) as base:
        yield base


def call(request: int | str, name: str) -> dict[str, Any]:
    """A request for a call."""
    params = {"name": name, "arguments": {"q": "é"}}
    return {"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": params}


def answer_to(request: int | str, text: str) -> dict[str, Any]:
    """The answer to it."""
    result = {"content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request, "result": result}


async def test_what_is_passed_on(tmp_path: Path) -> None:
    """Method, path, query, token and body reach the server, its status, headers and bytes the
    client; a redirection leads through us again; the token is not recorded."""
    seen: list[Any] = []

    async def answer(request: Request) -> Response:
        headers = {name: request.headers.get(name) for name in ("authorization", "mcp-session-id")}
        url = request.url
        seen.append((request.method, url.path, url.query, headers, await request.body()))
        if url.path == "/mcp":
            return Response(status_code=307, headers={"Location": str(url.replace(path="/mcp/"))})
        return Response(b'{"odd":  1}\xff', 418, {"Content-Type": "x/y", "X-Own": "1"})

    file = tmp_path / "r.jsonl"
    async with (
        told(answer) as url,
        recording_of(f"{url}/mcp?a=%20b", file) as address,
        aiohttp.ClientSession() as http,
    ):
        given = {"Authorization": "Bearer s3cret", "Mcp-Session-Id": "7"}
        async with http.post(address, data=b"\xfe no JSON", headers=given) as response:
            facts = (response.status, response.headers["X-Own"], await response.read())
        assert facts == (418, "1", b'{"odd":  1}\xff')
    kept = {"authorization": "Bearer s3cret", "mcp-session-id": "7"}
    assert seen == [
        ("POST", "/mcp", "a=%20b", kept, b"\xfe no JSON"),
        ("POST", "/mcp/", "a=%20b", kept, b"\xfe no JSON"),
    ]
    assert "s3cret" not in file.read_text()


async def test_answers_belong_to_their_requests(tmp_path: Path) -> None:
    """Clients without sessions whose calls have one id, answered in another order, get their own
    answers in the recording; so does a call whose answer comes on a stream that was open before."""
    streams: asyncio.Queue[bytes] = asyncio.Queue()
    first_may_end = asyncio.Event()

    async def answer(request: Request) -> Response:
        if request.method == "GET":

            async def events() -> AsyncIterator[bytes]:
                yield b": hello\r\n\r\n"
                yield await streams.get()

            return StreamingResponse(events(), media_type="text/event-stream")
        asked = await request.json()
        name = asked["params"]["name"]
        if name == "slow":
            await first_may_end.wait()
        if name == "elsewhere":
            body = JSONResponse(answer_to(asked["id"], "elsewhere")).body
            await streams.put(b"event: message\r\ndata: " + bytes(body) + b"\r\n\r\n")
            return Response(status_code=202)
        return JSONResponse(answer_to(asked["id"], name))

    file = tmp_path / "r.jsonl"
    async with (
        told(answer) as url,
        recording_of(f"{url}/mcp", file) as address,
        aiohttp.ClientSession() as http,
        http.get(address) as stream,
    ):

        async def post(name: str) -> None:
            async with http.post(address, json=call(1, name)) as response:
                await response.read()

        async with anyio.create_task_group() as first:
            first.start_soon(post, "slow")
            await anyio.wait_all_tasks_blocked()
            await post("quick")
            first_may_end.set()
        await post("elsewhere")
        assert b"elsewhere" in await stream.read()
    (session,) = [session for session in read_recording(file).sessions if session]
    assert sorted((one.name, one.text) for one in session) == [
        (name, name) for name in ("elsewhere", "quick", "slow")
    ]


async def test_a_server_that_is_not_there_and_pages_of_others(tmp_path: Path) -> None:
    """A client reads why there is no answer. A page of another site, or of another name of this
    machine (DNS rebinding), reaches no server."""
    async with (
        recording_of("http://127.0.0.1:9/mcp", tmp_path / "r.jsonl") as address,
        aiohttp.ClientSession() as http,
    ):
        found = []
        for headers in ({}, {"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            async with http.post(address, json=call(1, "x"), headers=headers) as response:
                found.append((response.status, await response.text()))
    assert [status for status, _ in found] == [502, 403, 403]
    assert "http://127.0.0.1:9 cannot be reached" in found[0][1]
    (calls,) = read_recording(tmp_path / "r.jsonl").sessions
    assert [(one.name, one.text) for one in calls] == [("x", None)]


def test_the_command(tmp_path: Path, rehearse: Rehearse) -> None:
    """It prints the address, and ends with Ctrl-C; what is wrong is one sentence."""
    file = tmp_path / "r.jsonl"
    with subprocess.Popen(
        [*REHEARSE, "new", "recording", str(file), "--url", "http://127.0.0.1:9/x/mcp"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
    assert process.returncode == 0 and "/x/mcp takes the place of http://127.0.0.1:9/x/mcp" in said
    assert len(read_recording(file).sessions) == 1
    other = tmp_path / "other.txt"
    other.write_text("mine")
    for words, why in (
        ((file, "--url", "ops-mcp"), "--url: expected an http or https URL"),
        ((file, "--url", "http://[x/mcp"), "--url: expected an http or https URL"),
        ((file, "--url", "http://h/mcp", "--", "cmd"), "or --url URL"),
        ((file, "--port", "80", "--", "cmd"), "--port is for --url"),
        ((other, "--url", "http://h/mcp"), "is not a recording"),
    ):
        status, _, err = rehearse("new", "recording", *words)
        assert status == 2 and why in err and len(err.strip().splitlines()) == 1, err
    assert other.read_text() == "mine"

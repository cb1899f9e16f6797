"""Calls give what they give with fastapi-mcp (recorded by tests/fixtures/hosting/record.py)."""

import json
import math
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.envpool.hosting.app_loading import execute
from rehearsal_room.envpool.hosting.asgi import Caller, CheckedCall, ToolReply, _indent_json
from rehearsal_room.envpool.hosting.determinism.loop import VirtualAsyncio
from rehearsal_room.envpool.hosting.fastapi_compat import compat
from rehearsal_room.envpool.hosting.routes import compile_routes
from rehearsal_room.envpool.hosting.tool_listing import list_tools
from rehearsal_room.envpool.hosting.urls import InvalidURL, path_of, query_of
from tests.support.paths import FIXTURES

FOLDER = FIXTURES / "hosting"
PATH = Path("odd/server.py")
HEAD = """
import asyncio, sys
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
app = FastAPI()
"""


class AppCaller:
    """Calls an application's tools, one after the other."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def __call__(self, name: str, arguments: Any = None) -> ToolReply:
        request = self.caller.request(name, arguments)
        if isinstance(request, ToolReply):
            return request
        with VirtualAsyncio():
            return self.caller.answer(request)


@contextmanager
def called(code: str, *, compiled_routes: bool = True) -> Iterator[AppCaller]:
    with VirtualAsyncio(), compat():
        hosted = execute(code, "odd_called", PATH)
        tools = list_tools(hosted.app, PATH)
    if compiled_routes:
        compile_routes(hosted.app)
    with VirtualAsyncio():
        hosted.startup(PATH)
    try:
        yield AppCaller(Caller(hosted.app, tools, hosted.runner))
    finally:
        with VirtualAsyncio():
            hosted.close()


@pytest.mark.filterwarnings("ignore")  # warnings about what the applications do
@pytest.mark.parametrize("compiled_routes", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("name", ["shapes", "answers"])
def test_odd_calls_are_answered_as_genuine(name: str, compiled_routes: bool) -> None:
    """Odd paths, queries, headers, bodies, errors, streams and dependencies: every text, every
    error and everything that the application did (one call returns its log) equal the record."""
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    code = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    with called(code, compiled_routes=compiled_routes) as call:
        replies = [(tool, call(tool, arguments)) for tool, arguments, *_ in record["calls"]]
    assert [(tool, reply.error is not None, reply.text) for tool, reply in replies] == [
        (tool, is_error, text) for tool, _, is_error, text in record["calls"]
    ]


def test_errors_say_whose_fault_it_was() -> None:
    """Invalid arguments, an unknown tool, a refusal and a world's fault are different kinds."""
    code = (FOLDER / "answers.py").read_text(encoding="utf-8")
    calls: list[tuple[str, Any]] = [
        ("nope", {}),
        ("make", {}),
        ("make", ["id"]),
        ("path_str", {"value": "a\nb"}),
        ("again", {}),
        ("status", {"code": 404}),
        ("status", {"code": 405}),
        ("status", {"code": 503}),
        ("boom", {}),
        ("path_str", {"value": ""}),
        ("slash", {}),
    ]
    with called(code) as call:
        errors = [call(*named).error for named in calls]
    assert errors == [
        *("unknown_tool", "arguments", "arguments", "arguments", "arguments", "refused"),
        *("refused", "internal", "internal", "refused", None),
    ]


def test_the_later_tool_of_the_same_name_is_called() -> None:
    """Operation ids need not be unique; calls go to the last one, as in fastapi-mcp."""
    code = HEAD + (
        "@app.get('/a', operation_id='same')\nasync def a(): return 'a'\n"
        "@app.get('/b', operation_id='same')\nasync def b(): return 'b'\n"
    )
    with called(code) as call:
        assert call("same") == ToolReply('"b"')


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        ("sys.exit(3)", ToolReply("tool ended its own process: SystemExit", "internal")),
        (
            "raise KeyboardInterrupt",
            ToolReply("tool ended its own process: KeyboardInterrupt", "internal"),
        ),
        (
            "raise asyncio.CancelledError",
            ToolReply("tool ended its own process: CancelledError", "internal"),
        ),
        (
            "await asyncio.Event().wait()",
            ToolReply("tool does not end: it waits for something that never happens.", "timeout"),
        ),
        (
            "await asyncio.sleep(10**9)",
            ToolReply("tool does not end: it waits too long.", "timeout"),
        ),
        (
            "return StreamingResponse(iter(lambda: b'x' * 2**20, None))",
            ToolReply("tool answered with more than 16 MiB.", "internal"),
        ),
        ("return Response(b'\"\\\\ud800\"')", ToolReply('"?"')),
    ],
    ids=["exit", "interrupt", "cancelled", "never", "long", "endless", "half a character"],
)
def test_a_call_that_misbehaves_gives_a_reply(body: str, reply: ToolReply) -> None:
    """The next call works as usual."""
    code = HEAD + (
        f"@app.get('/tool', operation_id='tool')\nasync def tool():\n    {body}\n"
        "@app.get('/next', operation_id='next')\nasync def next_(): return 1\n"
    )
    with called(code) as call:
        assert call("tool") == reply
        assert call("next") == ToolReply("1")


def test_an_unfinished_response_is_an_error_without_a_text() -> None:
    """The genuine client asserts that the response is finished, and its assertion has no text."""
    code = HEAD + (
        "class Half(Response):\n"
        "    async def __call__(self, scope, receive, send):\n"
        "        await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "@app.get('/half', operation_id='half')\nasync def half(): return Half()\n"
    )
    with called(code) as call:
        assert call("half") == ToolReply("", "internal")


def test_leftovers_of_a_call_end_before_the_next_call() -> None:
    """Tasks and timers end with their call, in virtual time; endless tasks are cancelled."""
    code = HEAD + (
        "seen = []\n"
        "async def late():\n    await asyncio.sleep(60)\n    seen.append('late')\n"
        "async def endless():\n"
        "    try:\n        while True:\n            await asyncio.sleep(1)\n"
        "    finally:\n        seen.append('cancelled')\n"
        "@app.post('/start', operation_id='start')\n"
        "async def start():\n"
        "    app.state.tasks = [asyncio.create_task(late()), asyncio.create_task(endless())]\n"
        "    asyncio.get_running_loop().call_later(5, seen.append, 'timer')\n"
        "    return seen\n"
        "@app.get('/seen', operation_id='seen')\nasync def see(): return seen\n"
    )
    with called(code) as call:
        assert call("start") == ToolReply("[]")
        assert json.loads(call("seen").text) == ["timer", "late", "cancelled"]


def test_the_request_is_that_of_the_genuine_client() -> None:
    """Method, headers, path, query and body are those that httpx would send."""
    code = HEAD + (
        "@app.put('/x/{a}', operation_id='put')\n"
        "async def put(a: str, b: list[str], q: bool = False): ...\n"
    )
    with called(code) as call:
        request = call.caller.request("put", {"a": "é/..", "q": True, "c": "ü"})
    assert request == CheckedCall(
        "put",
        {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "PUT",
            "headers": [
                (b"host", b"apiserver"),
                (b"accept", b"*/*"),
                (b"accept-encoding", b"gzip, deflate"),
                (b"connection", b"keep-alive"),
                (b"user-agent", b"python-httpx/0.28.1"),
                (b"content-length", b"10"),
                (b"content-type", b"application/json"),
            ],
            "scheme": "http",
            "path": "/x",
            "raw_path": b"/x",
            "query_string": b"q=true",
            "server": ("apiserver", None),
            "client": ("127.0.0.1", 123),
            "root_path": "",
        },
        '{"c":"ü"}'.encode(),
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a-b_c~d.e/7", ("/a-b_c~d.e/7", b"/a-b_c~d.e/7")),
        ("/a b", ("/a b", b"/a%20b")),
        ("/a%20b%zz", ("/a b%zz", b"/a%20b%zz")),
        ("/a/./b/../c", ("/a/c", b"/a/c")),
        ("/../..", ("/", b"/")),
        ("/a?b#c", ("/a", b"/a")),
        ("//host:1/a", ("/a", b"/a")),
        ("/é", ("/é", b"/%C3%A9")),
    ],
)
def test_paths_are_parsed_as_httpx_does(text: str, path: tuple[str, bytes]) -> None:
    """The application gets the decoded path and its raw form."""
    assert path_of(text) == path


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("/a\x00", "Invalid non-printable ASCII character in URL, '\\x00' at position 2."),
        ("////x", "Relative URLs cannot have a path starting with '//'"),
        ("//a:b/", "Invalid port: 'b'"),
        ("//1.2.3.400/", "Invalid IPv4 address: '1.2.3.400'"),
        ("//[zz]/", "Invalid IPv6 address: '[zz]'"),
        ("/" + "a" * 65_536, "URL too long"),
        ("/" + "é" * 30_000, "URL component 'path' too long"),
    ],
)
def test_urls_that_httpx_refuses_are_refused_with_its_message(text: str, fault: str) -> None:
    """The agent reads httpx's message."""
    with pytest.raises(InvalidURL) as refused:
        path_of(text)
    assert str(refused.value) == fault


def test_queries_are_written_as_httpx_does() -> None:
    """Lists repeat their name, booleans are lower case, None is empty, all else is str()."""
    values = {"a": "x y&é", "b": [True, None, 1.5], "c": [], "d": {"k": 1}}
    assert query_of(values) == b"a=x+y%26%C3%A9&b=true&b=&b=1.5&d=%7B%27k%27%3A+1%7D"


def test_indented_json_is_written_as_python_writes_it() -> None:
    """Random documents with every kind of number and character give byte for byte the same text."""
    rng = random.Random(7)

    def value(depth: int) -> Any:
        kind = rng.randrange(9 if depth else 7)
        if kind == 0:
            return rng.choice([None, True, False, "", 0, -0.0, 2**63, -(2**64), 10**30])
        if kind == 1:
            number = struct.unpack("d", rng.randbytes(8))[0]
            return number if math.isfinite(number) else 0.5
        if kind == 2:
            return rng.choice([-1, 1]) * rng.random() * 10 ** rng.randint(-7, 20)
        if kind == 3:
            return rng.randint(-(10**18), 10**18)
        if kind == 4:
            return round(rng.uniform(-1000, 1000), rng.randint(0, 4))
        if kind in (5, 6):
            return "".join(chr(rng.choice([*range(128), 0xE9, 0x2028, 0x1F44D])) for _ in range(6))
        if kind == 7:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return {str(value(0)): value(depth - 1) for _ in range(rng.randrange(4))}

    for _ in range(3_000):
        document = value(3)
        for ascii_only in (True, False):
            body = json.dumps(document, ensure_ascii=ascii_only).encode()
            assert _indent_json(body) == json.dumps(document, indent=2, ensure_ascii=False)

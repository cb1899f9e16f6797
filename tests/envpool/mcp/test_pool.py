"""Foreign MCP servers as worlds: started, called, verified by their tools, and ended."""

import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR
from threading import Thread
from typing import Any
from urllib.parse import quote, unquote

import anyio
import msgspec
import psutil
import pytest

from rehearsal_room.envpool.core.errors import PoolError, StateError, WorldError
from rehearsal_room.envpool.core.types import Env, StoredState, ToolResult, ToolSpec
from rehearsal_room.envpool.mcp import client, process
from rehearsal_room.envpool.mcp.checks import require_known_calls, verify_by_calls
from rehearsal_room.envpool.mcp.client import McpSettings
from rehearsal_room.envpool.mcp.pool import McpPool
from rehearsal_room.envpool.mcp.unknown_states import UNKNOWN, is_known
from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.core.events import Ending, StepTaken, decode_event, encode
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.plan import plan_of
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.mcp_tasks import read_mcp_tasks
from tests.support.paths import MCP_SERVERS
from tests.support.run_context import (
    DONE,
    LOOK,
    MemorySink,
    MovesPolicy,
    calls,
    make_run_context,
    watchdog_running,
)

NOTES = f"{sys.executable} {MCP_SERVERS / 'notes.py'}"
PLAIN = f"{sys.executable} {MCP_SERVERS / 'plain.py'}"
TASKS = """
name = "notebook"
description = "Notes of one person"
policy = "Keep the notes."

[[task]]
id = "milk"
instruction = "Note milk, and say how many notes there are."
answer = "1"

[[task.check]]
name = "list_notes"
expect = { path = "notes", value = ["milk"] }

[[task.check]]
name = "add_note"
arguments = { text = "" }
expect = { fails = true }
kind = "guard"

[[task]]
id = "nothing"
instruction = "Add nothing."

[[task.check]]
name = "list_notes"
expect = { lacks = "milk" }
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def quick_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits less for a server that does not end by itself, for tests whose subject is another."""
    monkeypatch.setattr(client, "_EXIT_S", 0.1)
    monkeypatch.setattr(process, "_GRACE_S", 0.1)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS)
    return read_mcp_tasks(path, "a server")


def pool_of(target: str, **settings: Any) -> McpPool:
    return McpPool(McpSettings(target, **settings))


@contextmanager
def over_http() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The notebook at a URL, and its process."""
    command = [*NOTES.split(), "--http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp", server
        finally:
            server.kill()


def ended(pid: int) -> bool:
    """Whether a process has ended; it may still be a zombie."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# A server that a command starts -------------------------------------------------------------------


@pytest.mark.slow
async def test_a_command_is_a_world_for_each_lease(scenario: Scenario) -> None:
    """Every lease has its own server, whose notes no other lease sees; the tools are the server's,
    and every part of a result is rendered as text."""
    pool = pool_of(NOTES)
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        assert env.tools[0] == ToolSpec(
            "add_note",
            "Add a note; gives its number.",
            {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        )
        added = await env.call("add_note", {"text": "milk"}, "c0-0")
        assert added == ToolResult('{"number":1}')
        assert await env.call("add_note", {"text": "again"}, "c0-0") == added
        refused = await env.call("add_note", {"text": ""}, "c1-0")
        assert refused == ToolResult("A note needs a text.", "refused")
        assert (await env.call("draw", {}, "c2-0")).text.splitlines() == [
            "drawn",
            "[image/png image, 8 bytes]",
            "[notes://page]",
            "a page",
            "[link to notes://1, first note]",
            '{"pages":1}',
        ]
        assert (await env.call("list_notes", {}, "c3-0")).text == '{"notes":["milk"]}'
        assert (await other.call("list_notes", {}, "c0-0")).text == '{"notes":[]}'
        assert pool.statistics() == {
            "worlds": 0, "live": 2, "max_live": 2, "leases": 2, "starts": 2, "calls": 5,
        }  # fmt: skip
    assert pool.statistics()["live"] == 0


async def test_its_state_is_unknown(scenario: Scenario) -> None:
    """An unknown state is not a broken world: it is stored, read as empty, and never compared."""
    pool = pool_of(PLAIN)
    states = await pool.host(scenario)
    async with pool.lease(scenario) as env:
        await env.call("count", {}, "c0-0")
        assert (env.start_digest, env.digest, env.state()) == ("", "", UNKNOWN)
        with pytest.raises(WorldError, match="cannot be forked: its state is unknown"):
            env.fork()
    assert not is_known(UNKNOWN)
    assert (states.start_digest, states.start, states.tools) == ("", UNKNOWN, tuple(env.tools))
    assert states.states(UNKNOWN)[1].changes == ()
    assert states.dump(states.restored(UNKNOWN)) == {}
    with pytest.raises(StateError, match="the state of scenario 'notebook' is unknown"):
        states.restored(StoredState("aa", {}, 0, "00"))
    states.close()


async def test_an_older_server_is_a_world(scenario: Scenario) -> None:
    """A server of 2024-11-05 is used in its own era, and all pages of its tools are read; a failure
    reports whose fault it is, and the world continues."""
    found: list[tuple[str | None, str]] = []
    async with pool_of(PLAIN).lease(scenario) as env:
        assert len(env.tools) == 14
        assert env.tools[2].name == "odd_arguments"
        calls: list[tuple[str, Any]] = [
            ("erase", {}),
            ("echo", None),
            ("odd_arguments", {}),
            ("broken", {}),
            ("promise", {}),
            ("nonsense", {}),
            ("echo", {"text": "fine"}),
        ]
        for number, (name, arguments) in enumerate(calls):
            result = await env.call(name, arguments, f"c{number}-0")
            found.append((result.error, result.text.partition("\n")[0][:50]))
    assert found == [
        ("unknown_tool", "There is no tool 'erase'. Tools: echo, count, odd_"),
        ("arguments", "echo: expected an object of arguments, got null."),
        ("arguments", "no such note"),
        ("internal", "the disk is full"),
        (None, '{"n":"a word"}'),
        (None, "not a list"),
        (None, "fine"),
    ]


@pytest.mark.usefixtures("quick_end")
async def test_a_reset_is_a_new_server(scenario: Scenario) -> None:
    """After a reset the next call uses a server that was just started, also when the one before it
    was broken."""
    pool = pool_of(PLAIN)
    async with pool.lease(scenario) as env:
        counted = [(await env.call("count", {}, f"c{n}-0")).text for n in range(2)]
        env.reset()
        counted.append((await env.call("count", {}, "c0-0")).text)
        with pytest.raises(WorldError):
            await env.call("vanish", {}, "c1-0")
        env.reset()
        counted.append((await env.call("count", {}, "c0-0")).text)
    assert counted == ["1", "2", "1", "1"]
    assert pool.statistics()["starts"] == 3


@pytest.mark.slow
async def test_a_server_leaves_nothing(scenario: Scenario) -> None:
    """The server ends with the lease, even if it ignores SIGTERM, with its children, in its process
    group or not, and with its folder."""
    async with pool_of(PLAIN).lease(scenario) as env:
        folder = anyio.Path((await env.call("environment", {"text": "TMPDIR"}, "c0-0")).text)
        children = (await env.call("children", {}, "c1-0")).text
        pids = [int(pid) for pid in children.strip("[]").split(",")]
        await env.call("ignore_sigterm", {}, "c2-0")
        found = [not ended(pid) for pid in pids], await folder.is_dir()
    assert found == ([True] * 3, True)
    assert ([ended(pid) for pid in pids], await folder.exists()) == ([True] * 3, False)


async def test_a_command_has_its_folder(scenario: Scenario) -> None:
    """`{scratch}` in a command is the path of an empty folder, a different one for each lease."""
    touch = f"{PLAIN} once {{scratch}}/started"
    pool = pool_of(touch)  # a second start in one folder would fail
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        assert env.state() == other.state() == UNKNOWN


async def test_a_server_inherits_named_variables_only(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables are passed on by name only: the server does not see our other secrets."""
    monkeypatch.setenv("NOTES_KEY", "k1")
    monkeypatch.setenv("OTHER_KEY", "k2")
    async with pool_of(PLAIN, environment=("NOTES_KEY",)).lease(scenario) as env:
        names = ("NOTES_KEY", "OTHER_KEY")
        values = [(await env.call("environment", {"text": n}, n)).text for n in names]
    assert values == ["k1", "not set"]


async def test_noise_is_ignored(scenario: Scenario) -> None:
    """Floods of standard error and lines that are not MCP do not disturb a call."""
    async with pool_of(PLAIN).lease(scenario) as env:
        texts = [
            (await env.call(name, {"text": text}, name)).text
            for name, text in (("chatter", "1000000"), ("garbage", "so"), ("echo", "fine"))
        ]
    assert texts == ["1000000", "so", "fine"]


# Servers that fail --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("3", "it ended with status 3; its last output was: the notebook is on fire"),
        ("-9", "it was ended by SIGKILL; its last output was: the notebook is on fire"),
    ],
)
async def test_a_server_that_dies_breaks_its_world(scenario: Scenario, how: str, why: str) -> None:
    """The call in which a server dies reports how it died; the world is broken from then on, and
    other worlds continue."""
    pool = pool_of(PLAIN)
    async with pool.lease(scenario) as env, pool.lease(scenario) as other:
        with pytest.raises(WorldError, match=f"was lost in a call of die: {why}"):
            await env.call("die", {"text": how}, "c0-0")
        with pytest.raises(WorldError, match=why):
            await env.call("echo", {}, "c1-0")
        with pytest.raises(WorldError, match=why):
            env.state()
        assert (await other.call("echo", {"text": "fine"}, "c0-0")).text == "fine"


@pytest.mark.usefixtures("quick_end")
async def test_a_server_that_closes_its_output_breaks_its_world(scenario: Scenario) -> None:
    """A server that closes its output and keeps running is lost."""
    async with pool_of(PLAIN).lease(scenario) as env:
        with pytest.raises(WorldError, match="was lost in a call of vanish: Connection closed"):
            await env.call("vanish", {}, "c0-0")


@pytest.mark.usefixtures("quick_end")
async def test_a_stopped_call_breaks_its_world(scenario: Scenario) -> None:
    """It is unknown whether a cancelled call was executed, so its world cannot be used further."""
    async with pool_of(PLAIN).lease(scenario) as env:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(env.call, "wait", {}, "c0-0")
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with pytest.raises(WorldError, match="a call of wait was stopped before"):
            await env.call("echo", {}, "c1-0")
        with pytest.raises(WorldError, match="a call of wait was stopped before"):
            env.state()
        env.reset()
        assert (await env.call("echo", {"text": "back"}, "c0-0")).text == "back"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (f"{PLAIN} dying", "does not work: it ended with status 1; .* the notebook is lost"),
        (f"{PLAIN} toolless", "has no tools"),
        (f"{PLAIN} silent", "did not list its tools within 0.3 s"),
        ("http://127.0.0.1:9/mcp", "does not work: "),
        ("no-such-program --now", "there is no program 'no-such-program'"),
        ("ftp://127.0.0.1/mcp", "expected an http or https URL, or a command"),
        ("'unfinished", "is not a valid command: No closing quotation"),
        ("", "is empty: expected a URL or a command"),
    ],
    ids=["dying", "toolless", "silent", "no_server", "no_program", "ftp", "quotes", "empty"],
)
@pytest.mark.usefixtures("quick_end")
async def test_a_server_that_never_worked_is_a_pool_error(
    scenario: Scenario, target: str, why: str
) -> None:
    """A server that cannot be used is an error at the first start, with the reason."""
    timeout_s = 0.3 if "silent" in target else 30.0
    with pytest.raises(PoolError, match=why):
        await pool_of(target, start_timeout=timeout_s).host(scenario)


async def test_a_server_that_worked_once_is_a_broken_world(
    scenario: Scenario, tmp_path: Path
) -> None:
    """Once the server has worked, a start that fails ends only its own episode."""
    pool = pool_of(f"{PLAIN} once {tmp_path / 'started'}")
    await pool.host(scenario)
    async with pool.lease(scenario) as env:
        assert [tool.name for tool in env.tools][:2] == ["echo", "count"]
        with pytest.raises(WorldError, match="the notebook is lost"):
            await env.call("echo", {}, "c0-0")


# Servers that do what others do not ---------------------------------------------------------------

ODD = f"{sys.executable} {MCP_SERVERS / 'odd.py'}"


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("schema", "done"),  # clients should check structured results: the call was carried out
        ("block", '{"type":"json","json":{"id":1}}\ndone'),
        ("half", "done \ufffd"),
        ("control", "done\t\x01"),
        ("latin_1", "done\ufffd"),
        ("parts", '{"type":"image","data":"eA=="}\n{"type":"text"}\nplain\ndone'),
        ("values", 'done\n{"result":[1]}'),
        ("log", "done"),
        ("glued", "done"),
        ("bare", "done"),
        ("shapes", "done"),
        ("whole_float", "done"),
        ("batch", "done"),
        ("repr", "done"),
        ("text_alone", "done"),
        ("list_alone", '["done",1]'),
        ("structured_alone", '{"n":1}'),
        ("no_content", ""),
        ("talk", "done"),
        ("curt", "done"),
        ("extras", "done"),
    ],
)
async def test_an_odd_result_reaches_the_agent(
    scenario: Scenario, capfd: pytest.CaptureFixture[str], mode: str, text: str
) -> None:
    """A result that does not meet its schema, blocks without their parts, texts that are not JSON's
    or Unicode's, lines of a log between messages, a tool that is listed twice without a schema,
    entries without a name among the tools, and a server that says little of itself."""
    async with pool_of(f"{ODD} {mode}").lease(scenario) as env:
        assert await env.call("echo", {}, "c0-0") == ToolResult(text)
        assert "Traceback" not in capfd.readouterr().err
        assert [(tool.name, tool.schema["type"]) for tool in env.tools] == [("echo", "object")]


async def test_a_message_that_cannot_be_read_ends_the_wait(scenario: Scenario) -> None:
    """Nobody would answer its request: the world breaks at once, with the message's beginning."""
    for mode, why in (
        ("cut", "it sent a message that cannot be read.*: .*jsonrpc"),
        ("nobody", "it sent an error that.*: .*jsonrpc"),
    ):
        async with pool_of(f"{ODD} {mode}").lease(scenario) as env:
            with pytest.raises(WorldError, match=why):
                await env.call("echo", {}, "c0-0")


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("error", "the disk is full"),
        ("empty", "it sent what is not MCP: content: Field required"),
    ],
)
async def test_an_odd_failure_is_one_sentence(scenario: Scenario, mode: str, text: str) -> None:
    """An error that is only a text is quoted; the fault in a result is named by its place."""
    async with pool_of(f"{ODD} {mode}").lease(scenario) as env:
        assert await env.call("echo", {}, "c0-0") == ToolResult(text, "internal")


async def test_a_server_that_refuses_to_start_is_quoted(scenario: Scenario) -> None:
    """Its own reason, and not how its process ended when its input was closed; what it wrote to
    standard output counts, too."""
    for mode, why in (
        ("refuses", "licence expired on 1 May"),
        ("key", "it ended with status 1; its last output was: ACME_KEY is not set"),
        ("old", "Unsupported protocol version from the server: 2019-01-01"),
    ):
        with pytest.raises(PoolError, match=f"does not work: {why}"):
            await pool_of(f"{ODD} {mode}").host(scenario)


async def test_tools_that_come_later_can_be_called(scenario: Scenario) -> None:
    """A server says that its tools changed: from then on the new ones can be called."""
    async with pool_of(f"{ODD} late").lease(scenario) as env:
        assert (await env.call("undo", {}, "c0-0")).error == "unknown_tool"
        await env.call("echo", {}, "c1-0")
        assert await env.call("undo", {}, "c2-0") == ToolResult("done")
        assert [tool.name for tool in env.tools] == ["echo", "undo"]


# A server at a URL --------------------------------------------------------------------------------


class Refuses(BaseHTTPRequestHandler):
    """Answers every request with the status in its path, and with what is after it as login."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.keys.append(self.headers.get("x-api-key"))  # type: ignore[attr-defined]
        status, _, login = self.path.strip("/").partition("/")
        self.send_response(int(status))
        wait, _, date = login.partition("/")
        self.send_header("retry-after", unquote(date) if wait == "at" else "0")
        key = self.headers["x-api-key"].encode()  # what the user sees does not have it
        said = b"not from here with " + key if status in ("403", "429") else b""
        if said:
            self.send_header("content-type", "text/plain")
        if login and not date:
            self.send_header("www-authenticate", f'Bearer resource_metadata="http://x/{login}"')
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (401, r"status 401: it got no token; give one in \$REHEARSE_TOKEN, or .* --mcp-header"),
        (403, "status 403: it got no token, which may not use it; it said: not from here with …"),
        (204, "it answered with status 204, which has no reply"),
        (429, "status 429: too many requests, also after .*; it said: not from here with …"),
        (503, "answered with status 503"),
        ("429/at/Mon, 30 Nov 2020 09:00:00 GMT", "status 429: too many requests"),
        (404, "status 404: is the path right"),
        (502, "status 502: what is in front of it does not reach it"),
        (200, "answered with no content, which is not MCP: is the path right"),
        ("401/oauth", r"a login with OAuth \(see http://x/oauth\), .* an access token .*_TOKEN"),
    ],
)
async def test_a_refused_request_is_told_with_its_status(
    scenario: Scenario, status: int | str, why: str
) -> None:
    """And with what to do; the headers of the settings are sent, and 429 is obeyed."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Refuses) as server:
        server.keys = []  # type: ignore[attr-defined]
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/{quote(str(status))}"
        try:
            with pytest.raises(PoolError, match=why):
                await pool_of(url, headers=(("X-Api-Key", "k1"),)).host(scenario)
        finally:
            server.shutdown()
    keys = server.keys  # type: ignore[attr-defined]
    assert set(keys) == {"k1"}
    assert len(keys) >= (5 if "status 429" in why or status == 503 else 1)


class Replies(BaseHTTPRequestHandler):
    """Replies to calls with what its path names, as JSON or as an event."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])))
        _, kind, what = self.path.split("/")
        reply = b'{"jsonrpc": "2.0", "id": %d, ' % request.get("id", 0)
        match request["method"]:
            case "initialize":
                about = b'"capabilities": {"tools": {}}, "serverInfo": {"name": "r", "version": ""}'
                reply += b'"result": {"protocolVersion": "2025-06-18", ' + about + b"}}"
            case "tools/list":
                reply += b'"result": {"tools": [{"name": "echo", "inputSchema": null}]}}'
            case "tools/call" if what == "nothing":
                self.close_connection = True
                self.connection.shutdown(SHUT_RDWR)
                return
            case "tools/call" if what == "plain":
                reply += b'"result": {"content": [{"type": "text", "text": "done"}]}}'
            case "tools/call" if what == "batch":
                talk = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}'
                reply += b'"result": {"content": [{"type": "text", "text": "done"}]}}'
                reply = b"[" + talk + b", " + reply + b"]"
            case "tools/call":
                end = b'"}]}}' if what == "half" else b""
                reply += b'"result": {"content": [{"type": "text", "text": "done \\ud83d' + end
            case _:
                reply += b'"error": {"code": -32601, "message": "Method not found"}}'
        if kind == "events":
            reply = b": hello\n\nevent: message\ndata: " + reply + b"\n\n"
        if kind == "unended":
            reply = BOM_UTF8 + b"data: " + reply
        self.send_response(200 if "id" in request else 202)
        types = {"json": "application/json", "untyped": ""}
        if given := types.get(kind, "text/event-stream"):
            self.send_header("content-type", given)
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_a_reply_over_http_is_mended_or_ends_the_wait(scenario: Scenario, kind: str) -> None:
    """Half of a surrogate pair and a tool without a schema are mended; a cut reply and a broken
    connection end the wait at once. The server is ours: SDKs do not send such replies."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Replies) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/{kind}"
        try:
            async with pool_of(f"{url}/half").lease(scenario) as env:
                assert await env.call("echo", {}, "c0-0") == ToolResult("done \ufffd")
            async with pool_of(f"{url}/batch").lease(scenario) as env:
                assert await env.call("echo", {}, "c0-0") == ToolResult("done")
            async with pool_of(f"{url}/cut").lease(scenario) as env:
                with pytest.raises(WorldError, match="it sent a message that cannot be read: "):
                    await env.call("echo", {}, "c0-0")
            async with pool_of(f"{url}/nothing").lease(scenario) as env:
                with pytest.raises(WorldError, match="the connection broke"):
                    await env.call("echo", {}, "c0-0")
        finally:
            server.shutdown()


@pytest.mark.parametrize("kind", ["json", "events", "untyped", "unended"])
async def test_a_reply_is_read_in_each_form(scenario: Scenario, kind: str) -> None:
    """As JSON, as an event, without a content type, and as an event after a byte order mark that
    the end of the stream ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Replies) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/{kind}/plain"
        try:
            async with pool_of(url).lease(scenario) as env:
                assert await env.call("echo", {}, "c0-0") == ToolResult("done")
        finally:
            server.shutdown()


@pytest.mark.slow
async def test_a_url_is_a_world(scenario: Scenario) -> None:
    """Each lease of a server at a URL has its own connection; such a server cannot be reset, and
    when it is gone the world is broken."""
    with over_http() as (url, server):
        pool = pool_of(url)
        async with pool.lease(scenario) as env:
            added = await env.call("add_note", {"text": "milk"}, "c0-0")
            assert added == ToolResult('{"number":1}')
            refused = await env.call("add_note", {"text": ""}, "c1-0")
            assert refused == ToolResult("A note needs a text.", "refused")
            with pytest.raises(WorldError, match="cannot be reset"):
                env.reset()
        async with pool.lease(scenario) as env:
            assert (await env.call("list_notes", {}, "c0-0")).text == '{"notes":["milk"]}'
            server.kill()
            server.wait()
            with pytest.raises(WorldError, match=f"'{url}' was lost in a call of list_notes: "):
                await env.call("list_notes", {}, "c1-0")
            with pytest.raises(WorldError, match="was lost"):
                env.state()


async def test_the_protocols_are_complete(scenario: Scenario) -> None:
    """The pool and its worlds have all members of their Protocols; calls await, no code is
    isolated, and there is no stored state to verify."""
    pool = pool_of(PLAIN)
    async with pool.lease(scenario) as env:
        members = [(env, name) for name in vars(Env)] + [(pool, name) for name in vars(Pool)]
        assert [name for one, name in members if name[0] != "_" and not hasattr(one, name)] == []
        assert (env.awaits, pool.isolates(scenario)) == (True, False)
        with pytest.raises(PoolError, match="are checked by tool calls in the live world"):
            await pool.verify(scenario, scenario.task("milk"), UNKNOWN, "")


@pytest.mark.usefixtures("quick_end")
async def test_episodes_are_played_on_it(scenario: Scenario) -> None:
    """An episode on a foreign world ends as any other, its state unknown; one whose call runs past
    its limit, without ending there, continues and learns that its world is broken."""
    sink = MemorySink()
    policy = MovesPolicy(calls("count", "broken"), DONE, by_episode={"e2": (calls("wait"), LOOK)})
    plans = plan_of([(scenario, scenario.task("milk"))], episodes=2, group_size=1, seed=1)
    for name, plan, timeout_s in zip(("e1", "e2"), plans, (30.0, 0.3), strict=True):
        limits = Limits(call_timeout=timeout_s, world_stop=False)
        context = make_run_context(policy, sink, pool=pool_of(PLAIN), limits=limits)
        async with watchdog_running(context):
            await run_episode(msgspec.structs.replace(plan, episode=name), context)
    steps = [event for event in sink.events("e1") if isinstance(event, StepTaken)]
    assert [(result.text, result.error) for result in steps[0].results] == [
        ("1", None),
        ("the disk is full", "internal"),
    ]
    ended = sink.ended("e1")
    assert (ended.ending, ended.state) == (Ending.ANSWERED, UNKNOWN)
    assert decode_event(encode(ended)) == ended
    slow = [event for event in sink.events("e2") if isinstance(event, StepTaken)]
    assert [result.error for step in slow for result in step.results] == ["timeout"]
    assert (sink.ended("e2").ending, sink.ended("e2").error, sink.ended("e2").state) == (
        Ending.WORLD_ERROR,
        "a call of wait was stopped before the MCP server had answered it",
        None,
    )


@pytest.mark.usefixtures("quick_end")
async def test_a_failure_of_the_server_ends_the_episode(scenario: Scenario) -> None:
    """Where the server breaks or is too slow, the episode ends there, without further calls or
    checks."""
    sink = MemorySink()
    policy = MovesPolicy(calls("broken"), DONE, by_episode={"e2": (calls("wait"), DONE)})
    plans = plan_of([(scenario, scenario.task("milk"))], episodes=2, group_size=1, seed=1)
    for name, plan, timeout_s in zip(("e1", "e2"), plans, (30.0, 0.3), strict=True):
        limits = Limits(call_timeout=timeout_s)
        context = make_run_context(policy, sink, pool=pool_of(PLAIN), limits=limits)
        async with watchdog_running(context):
            await run_episode(msgspec.structs.replace(plan, episode=name), context)
    found = [
        (end.ending, end.error, end.state, end.checked, end.num_steps)
        for end in map(sink.ended, ("e1", "e2"))
    ]
    failed, late = (f"the world failed in a call of {name}: " for name in ("broken", "wait"))
    assert found == [
        (Ending.WORLD_ERROR, f"{failed}the disk is full", UNKNOWN, (), 1),
        (Ending.WORLD_ERROR, f"{late}wait took longer than 0.3 s and was stopped.", None, (), 1),
    ]


# Tasks --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_task_is_verified_by_calls(scenario: Scenario) -> None:
    """The checks of a task are made in the world of its episode, by `Env.check`; each is a finding,
    and so is the check of the answer."""
    milk = scenario.task("milk")
    async with pool_of(NOTES).lease(scenario, milk) as env:
        idle = await env.check(milk, "")
        await env.call("add_note", {"text": "milk"}, "c0-0")
        done = await env.check(milk, "There is 1 note.")
        nothing = await env.check(scenario.task("nothing"), "")
    expected = 'notes = ["milk"]'
    refusal = "error: A note needs a text."
    call = 'add_note({"text":""}): an error'
    assert idle == (
        Finding("answer says '1'", False, "'1'", "", "goal"),
        Finding(f"list_notes(): {expected}", False, expected, "[]", "goal"),
        Finding(call, True, "an error", refusal, "guard"),
    )
    assert done == (
        Finding("answer says '1'", True, "'1'", "There is 1 note.", "goal"),
        Finding(f"list_notes(): {expected}", True, expected, '["milk"]', "goal"),
        Finding(call, True, "an error", refusal, "guard"),
    )
    assert nothing == (
        Finding("list_notes(): lacks 'milk'", False, "lacks 'milk'", '{"notes":["milk"]}', "goal"),
    )


@pytest.mark.usefixtures("quick_end")
async def test_a_check_that_hangs_breaks_the_world(tmp_path: Path) -> None:
    """A check without an answer in time is the world's fault, not the agent's."""
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS.replace("list_notes", "wait"))
    scenario = read_mcp_tasks(path, PLAIN)
    milk = scenario.task("milk")
    async with pool_of(PLAIN).lease(scenario, milk) as env:
        with pytest.raises(WorldError, match="the check by wait took longer than"):
            await verify_by_calls(env, scenario, milk, "", timeout_s=0.2)


# Checks that break, and checks that can see nothing -----------------------------------------------

CHECK = """
name = "notebook"
description = "Notes"
[[task]]
id = "milk"
instruction = "Note milk."
oracle = [{ name = "echo", arguments = { text = "milk" } }]
[[task.check]]
name = "count"
expect = { matches = "." }
[[task.check]]
"""


def checked_by(folder: Path, check: str) -> Scenario:
    """A scenario whose second check is this one."""
    path = folder / "tasks.toml"
    path.write_text(CHECK + check)
    return read_mcp_tasks(path, PLAIN)


@pytest.mark.parametrize(
    ("check", "why"),
    [
        ('name = "broken"\nexpect = { contains = "milk" }', "the disk is full"),
        ('name = "broken"\nexpect = { fails = true }', "the disk is full"),
        ('name = "broken"\nexpect = { lacks = "milk" }\nkind = "guard"', "the disk is full"),
        ('name = "die"\narguments = { text = "1" }\nexpect = { fails = true }', "status 1"),
        ('name = "wait"\nexpect = { contains = "milk" }', "took longer than 0.2 s"),
    ],
)
async def test_a_check_that_breaks_is_the_worlds_fault(
    tmp_path: Path, quick_end: None, check: str, why: str
) -> None:
    """Neither a failure of the agent nor a success, whatever the check expects."""
    scenario = checked_by(tmp_path, check)
    pool = pool_of(PLAIN)
    await pool.host(scenario)
    async with pool.lease(scenario) as env:
        with pytest.raises(WorldError, match=why):
            await verify_by_calls(env, scenario, scenario.tasks[0], "milk", timeout_s=0.2)


@pytest.mark.parametrize(
    ("check", "why"),
    [
        (
            'name = "cuont"\nexpect = { equals = "1" }',
            r"check\[1\]: there is no tool 'cuont'; tools",
        ),
        ('name = "cuont"\nexpect = { fails = true }', "there is no tool 'cuont'"),
        (
            'name = "echo"\narguments = { txet = "a" }\nexpect = { equals = "a" }',
            "echo has no argument 'txet'; arguments: text",
        ),
    ],
)
async def test_a_check_of_what_does_not_exist_is_refused(
    tmp_path: Path, quick_end: None, check: str, why: str
) -> None:
    """Before the first episode, with the task and what there is; an oracle likewise."""
    scenario = checked_by(tmp_path, check)
    with pytest.raises(PoolError, match=why) as caught:
        await RoutingPool(elsewhere=pool_of(PLAIN)).host(scenario)
    assert f"{scenario.path}: task 'milk': " in str(caught.value)
    text = CHECK.replace('"echo"', '"ehco"').rpartition("[[task.check]]")[0]
    scenario.path.write_text(text)
    with pytest.raises(PoolError, match=r"oracle\[0\]: there is no tool 'ehco'"):
        await RoutingPool(elsewhere=pool_of(PLAIN)).host(read_mcp_tasks(scenario.path, PLAIN))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {}, "anyOf": [{"properties": {"text": {}}}]},
        {"properties": {"text": {}}, "required": ["text"]},
    ],
)
def test_arguments_that_a_schema_allows_are_not_refused(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    """Only those that it cannot have."""
    scenario = checked_by(tmp_path, 'name = "count"\nexpect = { equals = "1" }')
    tools = [ToolSpec("echo", "", schema), ToolSpec("count", "", {"type": "object"})]
    require_known_calls(scenario, tools)

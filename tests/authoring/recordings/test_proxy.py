"""`rehearse new recording FILE -- CMD` between a client and its server.

The client of most tests is the official SDK, or a pipe; `cat` stands where any bytes may come. The
servers are FastMCP's and our help desk.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from rehearsal_room.authoring.recordings.lines import read_recording
from rehearsal_room.authoring.recordings.recorder import Recorder
from tests.support.cli import Rehearse
from tests.support.desk_worlds import DESK
from tests.support.paths import MCP_SERVERS
from tests.support.recorded_sessions import HELLO, Session, environment, line, recording


@pytest.fixture
def anyio_backend() -> str:
    """The official client's transport starts a process; once is enough."""
    return "asyncio"


HALF = b'{"recorded":"asked","session":"0", "na'  # what a killed session may leave
INPUTS = {
    "bytes": os.urandom(300_000) + b"\n\xff\xfe no end of line",
    "long": b'{"jsonrpc":"2.0","id":1,"result":{"content":"' + b"x" * 10_000_000 + b'"}}\n',
    "lines": b'not json\n{"half": \n[]\n[1, {"id": 2, "method": "tools/call"}]\n\n{"id":NaN}\n',
    "deep": b"[" * 100_000 + b"\n",
    "nothing": b"",
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_byte_is_passed_on(name: str, tmp_path: Path) -> None:
    """Random bytes, ten megabytes in a line, lines that are not JSON, nothing: `cat` in the
    server's place gets what was sent, the client what `cat` sent, and nothing of it is a call."""
    file = tmp_path / "r.jsonl"
    done = subprocess.run(
        recording(file, "cat"),
        input=INPUTS[name],
        capture_output=True,
        env=environment(),
        timeout=30,
    )
    assert (done.returncode, done.stdout == INPUTS[name], done.stderr) == (0, True, b"")
    assert [call.name for call in read_recording(file).sessions[0] if call.was_made] == []


def desk_input(*calls: tuple[str, dict[str, Any]]) -> bytes:
    """The bytes of a client that does not wait for its answers."""
    lines = [line(0, "initialize", HELLO), line(None, "notifications/initialized", {})]
    for index, (name, arguments) in enumerate(calls, start=1):
        lines.append(line(index, "tools/call", {"name": name, "arguments": arguments}))
    return b"".join(lines)


SESSIONS = {
    "plain": desk_input(("close_ticket", {"ticket_id": "T-1"}), ("close_ticket", {})),
    "dies": desk_input(("list_tickets", {}), ("crash", {}), ("list_tickets", {})),
    "unreadable": desk_input(("list_tickets", {})) + b"{ half of JSON\n",
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_as_without_us(name: str, tmp_path: Path) -> None:
    """Output, standard error and status are those of the server alone, also where it dies in a call
    or on a line that it cannot read; the calls before that are recorded with their answers."""
    file = tmp_path / "r.jsonl"
    seen = []
    for words in (DESK.split(), recording(file, *DESK.split())):
        database = str(tmp_path / f"{len(seen)}.db")
        done = subprocess.run(
            [*words, database], input=SESSIONS[name], capture_output=True, env=environment()
        )
        seen.append((done.returncode, done.stdout, done.stderr))
    assert seen[0] == seen[1]
    (calls,) = read_recording(file).sessions
    assert [(call.name, call.was_made) for call in calls][:2] == {
        "plain": [("close_ticket", True), ("close_ticket", False)],
        "dies": [("list_tickets", True), ("crash", False)],
        "unreadable": [("list_tickets", True)],
    }[name]


async def test_the_server_may_ask_and_notify(tmp_path: Path) -> None:
    """The official client over us: elicitation and sampling requests reach it, its answers the
    server; a tool that comes later is listed; all is recorded, with each name once."""
    file = tmp_path / "r.jsonl"
    words = recording(file, sys.executable, str(MCP_SERVERS / "asking.py"))
    given = {"order_id": "o1", "day": "Friday", "parcels": 2, "is_gift": True}

    async def elicit(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content=given)

    async def sample(*_: object) -> CreateMessageResult:
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="all"), model="none"
        )

    server = StdioServerParameters(command=words[0], args=list(words[1:]), env=environment())
    async with (
        # Its default is the standard error at its import, which another test may have had.
        stdio_client(server, errlog=sys.__stderr__ or sys.stderr) as (incoming, outgoing),
        ClientSession(
            incoming, outgoing, elicitation_callback=elicit, sampling_callback=sample
        ) as session,
    ):
        await session.initialize()
        before = len((await session.list_tools()).tools)
        texts = []
        for name, arguments in (("deliver", {}), ("summarise", {"text": "a"}), ("unlock", {})):
            result = await session.call_tool(name, arguments)
            texts.append(result.content[0].text)
        assert len((await session.list_tools()).tools) == before + 1
    assert (json.loads(texts[0])["data"], texts[1:]) == (given, ["summary: all", "unlocked"])
    found = read_recording(file)
    assert [call.text for call in found.sessions[0]] == texts
    assert len(found.tools) == before + 1


def test_a_killed_session_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After kill -9 the server ends by itself, and the file has the calls so far; half a line is
    left out, and the next session appends. Nobody else can read the file, and it has no value of
    the environment."""
    file = tmp_path / "r.jsonl"
    monkeypatch.setenv("DESK_KEY", "s3cret-value")
    words = recording(file, *DESK.split(), str(tmp_path / "desk.db"))
    session = Session(words).__enter__()
    session.call("take", sku="pen", qty=3)
    (server,) = children(session.process.pid)
    session.process.kill()
    session.process.communicate()
    wait_for(lambda: not is_running(server))
    with file.open("ab") as appended:
        appended.write(HALF)
    with Session(words) as second:
        second.call("list_tickets")
    found = read_recording(file)
    assert [[call.name for call in calls] for calls in found.sessions] == [
        ["take"],
        ["list_tickets"],
    ]
    assert (found.num_unread, file.stat().st_mode & 0o777) == (1, 0o600)
    assert b"s3cret-value" not in file.read_bytes()


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


def wait_for(is_so: Any) -> None:
    until = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_end_of_one_side_ends_the_other(tmp_path: Path) -> None:
    """A server that never reads its input is ended once its client is gone; and a signal to us is
    one to the server, whose end by it is ours."""
    sleeper = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)")
    for number in (None, signal.SIGTERM):
        process = subprocess.Popen(
            recording(tmp_path / f"{number}.jsonl", *sleeper),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        (server,) = children(process.pid)
        if number is None:
            process.stdin.close()
            process.stdout.close()
        else:
            process.send_signal(number)
        assert process.wait(30) == -signal.SIGTERM
        assert not is_running(server)
        process.stdin.close()
        process.stdout.close()


def test_odd_messages_are_recorded(tmp_path: Path) -> None:
    """Half of a surrogate pair becomes U+FFFD, and a whole float is the id that it is; the session
    goes on. A byte order mark, which an editor added, is read."""
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path, ("desk",))
    call = b'{"id": 2.0, "method": "tools/call", "params": {"name": "tag", "arguments": %s}}'
    recorder.from_client(call % b'{"word": "red \\ud83d"}')
    recorder.from_server(b'{"id": 2, "result": {"content": [{"type": "text", "text": "ok"}]}}')
    recorder.close(0)
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    recording = read_recording(path)
    ((made,),) = recording.sessions
    assert (made.name, made.arguments, made.text) == ("tag", {"word": "red \ufffd"}, "ok")
    assert recording.num_unread == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["taken.txt", "--", "cat"], "this file is not a recording; choose another name"),
        (["r.jsonl", "--", "no-such-server"], "the server 'no-such-server' cannot start: No such"),
        (["r.jsonl"], "expected a command after `--`, or --world FOLDER"),
        (["no/folder/r.jsonl", "--", "cat"], "cannot be written: No such file"),
    ],
)
def test_what_cannot_be_recorded(
    words: list[str],
    said: str,
    tmp_path: Path,
    rehearse: Rehearse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sentence, and a file that is there is kept."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.txt").write_text("mine\n")
    status, _, err = rehearse("new", "recording", *words)
    assert (status, err.count("\n"), said in err) == (2, 1, True), err
    assert (tmp_path / "taken.txt").read_text() == "mine\n"

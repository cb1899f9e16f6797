"""Agents that work against the run: each would have got a reward or no verdict, stopped the run, or
reached another episode. The enemies are programs of this file, run as commands or functions."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rehearsal_room.envpool.workers.sandbox import why_no_bubblewrap
from tests.harness.agents.test_runs import OWN, episodes_of, played
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY

POSTS = """
import json, os, socket, sys, time, urllib.error, urllib.parse, urllib.request

MCP = os.environ["REHEARSE_MCP_URL"]

def post(url, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"

def call(name, arguments, **more):
    params = {"name": name, "arguments": arguments, **more}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
"""

LEAVES = """
url, data = urllib.parse.urlparse(MCP), json.dumps(
    call("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"})
).encode()
connection = socket.create_connection((url.hostname, url.port))
head = f"POST {url.path} HTTP/1.1\\r\\nHost: {url.netloc}\\r\\n"
connection.sendall(f"{head}Content-Length: {len(data)}\\r\\n\\r\\n".encode() + data)
time.sleep(0.1)
print("Anna Soll's fine of 3.50 is paid by card; she owes nothing now.")
"""

ODD = """
base, own = MCP.removesuffix("/mcp"), {"rehearsal/call": {"id": "a", "arguments": [1]}}
for body in ({"type": "reasoning", "summary": 5}, {"type": "reasoning", "content": True}):
    post(f"{base}/v1/responses", {"input": [body]})
post(MCP, call("give_answer", {}, _meta=own))
post(MCP, call("talk_to_user", {"text": "hello"}))
post(MCP, call("give_answer", {"answer": "first"}))
post(MCP, call("pay_fine", {"member_id": 2, "amount_cents": 350, "method": "card"}))
post(MCP, call("give_answer", {"answer": "second"}))
"""

LOOKS = """
found = set()
for _ in range(10):
    for path in __import__("pathlib").Path(os.environ["REHEARSE_START"]).rglob("task.json"):
        if os.environ["REHEARSE_EPISODE"] not in str(path):
            found.add(path.name)
    time.sleep(0.05)
print(sorted(found))
"""


def program(folder: Path, text: str) -> str:
    """The command of an enemy."""
    file = folder / "enemy.py"
    file.write_text(POSTS + text)
    return f"{sys.executable} {file}"


def test_a_call_under_way_at_the_end_is_logged(tmp_path: Path, rehearse: Rehearse) -> None:
    """A command that ends while its call is under way gets what the log has: a row that it changed
    is in a step of its episode, or the row is as it was."""
    world = shutil.copytree(LIBRARY, tmp_path / "library")
    tools = (world / "tools.py").read_text()
    slow = (
        '    for _ in range(8):\n        db.one("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL '
        'SELECT x + 1 FROM c WHERE x < 60000) SELECT count(*) FROM c")\n'
    )
    begins = "    fine = _member(db, member_id)"
    assert tools.count(begins) == 1
    (world / "tools.py").write_text(tools.replace(begins, slow + begins))
    words = ("-n", 1, "--isolate", "--agent", program(tmp_path, LEAVES), "-o", tmp_path / "run")
    status, _, err = rehearse("run", f"{world}:pay-fine", *words)
    assert status == 0, err
    (one,) = episodes_of(tmp_path / "run")
    assert one.ended is not None
    assert one.ended.state is not None
    changes = [change for step in one.steps for result in step.results for change in result.changes]
    assert (one.ended.state.digest != one.started.start_digest) is bool(changes)


def test_odd_requests_stop_nothing(tmp_path: Path, rehearse: Rehearse) -> None:
    """Requests that make no sense are refused, and end neither run nor episode; the first answer
    that is given counts, and no call after it is made."""
    words = ("-n", 1, "-p", "oracle", "--agent-answer", "tool")
    (one,) = played(rehearse, tmp_path / "run", *words, "--agent", program(tmp_path, ODD))
    assert one.ended is not None
    assert (one.ended.ending, one.ended.answer) == ("answered", "first")
    calls = [call.name for step in one.steps for call in step.executed_calls]
    assert calls == ["talk_to_user"]  # a tool that this world has not, refused as such
    assert one.asked == ()


def test_texts_of_a_subclass_are_texts(tmp_path: Path, rehearse: Rehearse) -> None:
    """A framework's own kind of str, as the name of a tool and as the answer, is logged as text."""
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", f"{OWN}:own_texts")
    assert one.ended is not None
    assert (one.ended.answer, one.steps[0].executed_calls[0].name) == ("done", "list_overdue")


def test_a_function_that_never_ends(tmp_path: Path) -> None:
    """A function that blocks its thread for ever is cut off by the time limit, and the command
    ends. (A process of its own, because only its end shows it.)"""
    words = ("run", LIBRARY, "-n", "1", "--time-limit", "0.5", "--agent", f"{OWN}:blocks")
    command = [sys.executable, "-m", "rehearsal_room", *words, "-o", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ})
    assert done.returncode == 0, done.stderr
    (one,) = episodes_of(tmp_path / "run")
    assert one.ended is not None
    assert one.ended.ending == "time_limit"


@pytest.mark.skipif(bool(why_no_bubblewrap()), reason="bubblewrap is not available here")
def test_isolated_episodes_do_not_see_each_other(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bubblewrap no command reads the folder of another one, which has that episode's key,
    even if all of them are below the folder of the run's start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = ("-n", 2, "--agent-isolation", "bubblewrap", "--agent", program(tmp_path, LOOKS))
    found = played(rehearse, tmp_path / "run", *words)
    assert [one.ended.answer for one in found if one.ended] == ["[]", "[]"]

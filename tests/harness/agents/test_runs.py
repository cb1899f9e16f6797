"""Runs of agents of the user's own: functions and commands that the tests run as programs of their
own. The model that they ask is the policy `oracle`, or a server of this file; real clients and
frameworks take part in `just agents`."""

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.settings.agent import AgentSettings
from tests.support.chaos import write_chaos
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY

HERE = Path(__file__).parent
LOOP = f"{sys.executable} {HERE / 'loop.py'}"
OWN = "tests.harness.agents.own"


def played(rehearse: Rehearse, folder: Path, *words: object) -> list[Trajectory]:
    """The episodes of a run of the mini world."""
    status, _, err = rehearse("run", LIBRARY, "-o", folder, *words)
    assert status == 0, err
    return episodes_of(folder)


def episodes_of(folder: Path) -> list[Trajectory]:
    """The episodes of a run."""
    with open_reader(folder) as reader:
        return [reader.trajectory(row.episode) for row in reader.episodes()]


def outcome(one: Trajectory) -> tuple[Any, ...]:
    """What an episode did: calls, results, changed rows, answer, label."""
    assert one.ended is not None
    results: list[ToolResult] = [result for step in one.steps for result in step.results]
    calls = [(call.name, call.arguments) for step in one.steps for call in step.executed_calls]
    changes = [change for result in results for change in result.changes]
    return calls, changes, one.ended.answer, one.ended.state, one.judged[-1].label


@pytest.mark.parametrize("agent", [LOOP, f"{OWN}:loop"], ids=["command", "function"])
def test_an_agent_does_what_the_policy_alone_does(
    agent: str, tmp_path: Path, rehearse: Rehearse
) -> None:
    """A command and a function that do what their model says make the calls, change the rows and
    get the labels of the policy without them; each request goes on after the one before it, and
    its reply is in the log before the call that came of it. The log names agent and model."""
    alone = played(rehearse, tmp_path / "alone", "-p", "oracle")
    own = played(rehearse, tmp_path / "own", "-p", "oracle", "--agent", agent)
    assert list(map(outcome, own)) == list(map(outcome, alone))
    name = "loop.py" if "loop.py" in agent else "loop"
    assert {one.started.policy for one in own} == {f"agent:{name}+oracle"}
    for one in own:
        assert [asked.parent for asked in one.asked] == [None, *range(len(one.asked) - 1)]
        assert [asked.turn for asked in one.asked] == list(range(len(one.steps)))
        assert all(len(asked.messages) == 1 for asked in one.asked)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python bot.py --fast", "bot.py"),
        ("PATH=/opt/node/bin:$PATH sh agents/claude_code.sh", "claude_code.sh"),
        ("KEY=1", "command"),
    ],
)
def test_a_command_has_the_name_of_its_program(command: str, name: str) -> None:
    """Not of what starts it, and not of a variable that is set for it."""
    assert AgentSettings(target=command).shown_name == name


def test_several_processes_and_a_resumed_run_play_the_same(
    tmp_path: Path, rehearse: Rehearse
) -> None:
    """Two processes play what one plays, and a run that is resumed with more episodes plays only
    those."""
    words = ("-p", "oracle", "--agent", f"{OWN}:loop", "-g", 2)
    some = played(rehearse, tmp_path / "one", *words, "-n", 4)
    one = played(rehearse, tmp_path / "one", *words, "--resume", "-n", 8)
    two = played(rehearse, tmp_path / "two", *words, "--processes", 2, "-n", 8)
    assert list(map(outcome, two)) == list(map(outcome, one))
    assert one[:4] == some


SHELL_FAILURES = {
    "true": "the command printed nothing, and wrote no $REHEARSE_ANSWER",
    "echo words; echo oh no >&2; exit 3": "the command ended with status 3; its last words: oh no",
    "kill -9 $$": "the command was ended by SIGKILL",
    "for i in 1 2 3; do dd if=/dev/zero of=x$i bs=1M count=1; done; sleep 60": "MiB, more than 2",
    "head -c 3000000 /dev/zero > big": "status 153",
    f"{sys.executable} -c 'input()'": "status 1",  # nobody types
    f"{sys.executable} -c 'x = bytearray(90 << 20); import time; time.sleep(60)'": "MiB of memory",
}


@pytest.mark.parametrize("command", SHELL_FAILURES)
def test_a_command_that_fails(command: str, tmp_path: Path, rehearse: Rehearse) -> None:
    """A command that says nothing, fails, is killed or breaks a limit ends its episode as the
    agent's failure, with one sentence; what it wrote is in the log."""
    limits = ("--agent-disk-mb", 2, "--agent-memory-mb", 64)
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", command, *limits)
    assert one.ended is not None
    assert one.ended.ending == "agent_failed"
    assert SHELL_FAILURES[command] in (one.ended.error or "")
    assert one.output is not None
    assert ("oh no" in one.output.stderr) is ("oh no" in command)


def test_an_answer_in_a_file(tmp_path: Path, rehearse: Rehearse) -> None:
    """The file $REHEARSE_ANSWER counts, whatever was printed; output that is too long is cut."""
    command = 'echo 42 > "$REHEARSE_ANSWER"; head -c 2000000 /dev/zero | tr "\\0" x'
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", command)
    assert one.ended is not None
    assert one.ended.answer == "42"
    assert one.output is not None
    assert (len(one.output.stdout), one.output.left_out) == (1 << 20, 2_000_000 - (1 << 20))


@pytest.mark.parametrize("ends_by", ["itself", "a time limit"])
def test_nothing_of_a_command_stays(ends_by: str, tmp_path: Path, rehearse: Rehearse) -> None:
    """Children end with their command, also those that left its process group and those whose
    parent has ended, however the command ends."""
    start = (
        "setsid sh -c 'sleep 971 & sleep 972' </dev/null >/dev/null 2>&1 & sleep 973 & sleep 0.3"
    )
    command = f"{start}; {'echo done' if ends_by == 'itself' else 'sleep 974'}"
    limit = () if ends_by == "itself" else ("--time-limit", 1)
    (one,) = played(rehearse, tmp_path / "run", "-n", 1, "--agent", command, *limit)
    assert one.ended is not None
    assert one.ended.ending == ("answered" if ends_by == "itself" else "time_limit")
    left = [found.info["cmdline"] for found in psutil.process_iter(["cmdline"])]
    assert not [words for words in left if words and words[0] == "sleep" and words[1:2] > ["970"]]


def test_an_episode_is_reached_by_its_own_key_alone(tmp_path: Path, rehearse: Rehearse) -> None:
    """A key that was guessed, and one whose episode has ended, reach nothing."""
    program = tmp_path / "spy.py"
    program.write_text(
        "import os, pathlib, sys, urllib.error, urllib.request\n"
        "seen = pathlib.Path(sys.argv[1])\n"
        "mine = os.environ['REHEARSE_MCP_URL']\n"
        "others = seen.read_text().split() if seen.exists() else []\n"
        "tried = [*others, mine.replace(os.environ['REHEARSE_KEY'], 'x' * 24)]\n"
        "for url in tried:\n"
        "    try:\n"
        "        urllib.request.urlopen(urllib.request.Request(url, b'{}'))\n"
        "        print('open', end=' ')\n"
        "    except urllib.error.HTTPError as error:\n"
        "        print(error.code, end=' ')\n"
        "seen.write_text(' '.join([*others, mine]))\n"
    )
    command = f"{sys.executable} {program} {tmp_path / 'seen'}"
    found = played(rehearse, tmp_path / "run", "-n", 2, "-c", 1, "--agent", command)
    assert [one.ended.answer for one in found if one.ended] == ["404", "404 404"]


BAD_AGENTS = {
    "nowhere.at_all:agent": "is not there (looked in",
    f"{OWN}:nothing": "has no 'nothing'",
    f"{OWN}:__doc__": "is a str, not a function",
    f"{OWN}:three": "expected (task, env) or (task)",
    "missing.py:agent": "there is no file missing.py",
    "no-such-program --fast": "there is no program 'no-such-program'",
    "http://127.0.0.1:9/v1": "nothing answers at http://127.0.0.1:9/v1",
    "": "the agent is empty",
    "it's": "the command cannot be read",
}


@pytest.mark.parametrize("agent", BAD_AGENTS)
def test_an_agent_that_is_not_there(agent: str, tmp_path: Path, rehearse: Rehearse) -> None:
    """Each is refused before the first episode by one sentence, and leaves no folder."""
    folder = tmp_path / "run"
    status, _, err = rehearse("run", LIBRARY, "--agent", agent, "-o", folder)
    assert status == 2
    assert BAD_AGENTS[agent] in " ".join(err.split())
    assert not folder.exists()


BAD_SETTINGS: list[tuple[Sequence[object], str]] = [
    (("-p", "agent"), "needs the agent"),
    (("--agent", LOOP, "--history", "last:2"), "no model is named"),
    (("--agent", LOOP, "-p", "oracle", "--history", "summary:2"), "cannot be asked for summaries"),
    (("--agent", LOOP, "--dialect", "hermes"), "the dialect is native"),
    (("--agent", f"{OWN}:loop", "--agent-env", "HOME"), "the agent is none"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD_SETTINGS)
def test_settings_that_do_not_go_together(
    words: Sequence[object], sentence: str, tmp_path: Path, rehearse: Rehearse
) -> None:
    """Each is refused by name."""
    status, _, err = rehearse("run", LIBRARY, "-o", tmp_path / "run", *words)
    assert status == 2
    assert sentence in " ".join(err.split())


class _Broken(BaseHTTPRequestHandler):
    """A model server that lists a model, and answers what its server's `answers` say."""

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": "m"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        server.bodies.append(body)
        self._send(*server.answer(body))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class _Waits(_Broken):
    """A model server that answers nothing, and gives its `answer` the connection."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        server.answer(self.connection)
        self.close_connection = True


@contextmanager
def model_server(
    answer: Any, handler: type[BaseHTTPRequestHandler] = _Broken
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A model server in a thread: its URL, and the bodies that it got."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.answer, server.bodies = answer, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server.bodies
    finally:
        server.shutdown()
        server.server_close()


def said(text: str, calls: list[dict[str, Any]] | None = None) -> tuple[int, dict[str, Any]]:
    """A completion."""
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return 200, {"choices": [{"message": message, "finish_reason": "stop"}]}


def picky(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Takes numbers as temperatures."""
    if isinstance(body.get("temperature", 0), str):
        return 422, {"error": {"message": "temperature: expected a number"}}
    return said("hello")


def poisoned(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Fails on one word."""
    return down(body) if "poison" in str(body["messages"]) else said("hello")


def sensitive(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Has a filter for one word."""
    return filters(body) if "poison" in str(body["messages"]) else said("hello")


def filters(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Has a filter that takes nothing."""
    return 400, {"error": {"message": "Content Exists Risk", "code": "content_filter"}}


def down(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Is out of order."""
    return 500, {"error": {"message": "out of memory"}}


@pytest.mark.parametrize(
    ("agent", "answer", "ending", "is_judged"),
    [
        ("crashes", picky, "agent_failed", True),
        ("asks_after_help", picky, "answered", True),
        ("asks_after_help", down, "policy_error", False),
        ("asks_badly", picky, "agent_failed", True),
        ("poisons", poisoned, "answered", True),
        ("poisons_and_fails", poisoned, "agent_failed", True),
        ("poisons_and_fails", down, "policy_error", False),
        ("poisons", sensitive, "answered", True),
        ("poisons_and_fails", sensitive, "agent_failed", True),
        ("asks_after_help", filters, "model_refused", False),
    ],
)
def test_who_is_to_blame(
    agent: str, answer: Any, ending: str, is_judged: bool, tmp_path: Path, rehearse: Rehearse
) -> None:
    """An agent that crashes has failed; where its model's server is out of order, there is no
    verdict; and a request that a server refuses for its form, or on which it fails while it answers
    others, is the agent's own failure: with it nobody escapes a verdict."""
    with model_server(answer) as (url, _):
        words = ("--agent", f"{OWN}:{agent}", "--base-url", url, "--max-attempts", 1)
        rehearse("run", LIBRARY, "-n", 1, "-o", tmp_path / "run", *words)
    (one,) = episodes_of(tmp_path / "run")
    assert one.ended is not None
    assert one.ended.ending == ending
    assert (one.judged[-1].label is not None) is is_judged


def test_an_agent_that_leaves_is_not_answered(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request of an agent that has closed its connection is given up, while its episode goes
    on: the model's server sees its own connection end."""
    asked, given_up = tmp_path / "asked", tmp_path / "given_up"
    monkeypatch.setenv("ASKED", str(asked))
    monkeypatch.setenv("GIVEN_UP", str(given_up))

    def wait(connection: socket.socket) -> None:
        asked.touch()
        if not connection.recv(1):
            given_up.touch()

    with model_server(wait, _Waits) as (url, _):
        words = ("-m", "m", "--base-url", url, "--agent", f"{OWN}:leaves")
        (one,) = played(rehearse, tmp_path / "run", "-n", 1, *words)
    assert one.ended is not None
    assert (one.ended.answer, one.asked) == ("True", ())


def test_replies_after_the_end_are_reported(
    tmp_path: Path, rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is under way when its agent returns is not logged, and a notice counts it."""
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))

    def wait(connection: socket.socket) -> None:
        (tmp_path / "asked").touch()
        connection.recv(1)

    with model_server(wait, _Waits) as (url, _):
        words = ("-m", "m", "--base-url", url, "--agent", f"{OWN}:ends_early")
        status, _, err = rehearse("run", LIBRARY, "-o", tmp_path / "run", "-n", 1, *words)
    assert status == 0, err
    (one,) = episodes_of(tmp_path / "run")
    assert one.ended is not None
    assert (one.ended.answer, one.asked) == ("done", ())
    assert "replies_after_the_end" in err
    assert "replies=1" in err


def test_an_agent_that_only_asks_comes_to_an_end(tmp_path: Path, rehearse: Rehearse) -> None:
    """Requests to the model have a limit, eight for each step that the episode may have."""
    with model_server(picky) as (url, bodies):
        words = ("--agent", f"{OWN}:never_stops", "--base-url", url, "--max-steps", 3)
        (one,) = played(rehearse, tmp_path / "run", "-n", 1, *words)
    assert one.ended is not None
    assert (one.ended.ending, one.ended.error) == ("step_limit", "24 requests to the model")
    assert len(bodies) == len(one.asked) == 24


def test_milestones_are_without_what_an_agent_asks(tmp_path: Path, rehearse: Rehearse) -> None:
    """A search for starts, ends and verdicts reads neither the requests to the model nor what an
    agent prints."""
    played(rehearse, tmp_path / "run", "-n", 1, "-p", "oracle", "--agent", f"{LOOP}")
    with open_reader(tmp_path / "run") as reader:
        kinds = [type(record.event).__name__ for record in reader.records()]
        found = [type(record.event).__name__ for record in reader.milestones()]
    assert {"ModelAsked", "AgentOutput"} < set(kinds)
    assert found == ["EpisodeStarted", "EpisodeEnded", "Judged"]


def test_a_window_at_the_url_of_the_model(tmp_path: Path, rehearse: Rehearse) -> None:
    """With `--history last:1` the server gets what the agent was asked and the latest turn alone,
    whatever the agent sends; the log has all of it, and what was shown."""
    call = {"id": "", "type": "function", "function": {"name": "list_books", "arguments": "{}"}}

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return said("", [call]) if len(bodies) < 4 else said("done")

    with model_server(answer) as (url, bodies):
        words = ("--agent", f"{OWN}:loop", "--base-url", url, "--history", "last:1", "-n", 1)
        (one,) = played(rehearse, tmp_path / "run", *words)
    roles = [[message["role"] for message in body["messages"]] for body in bodies]
    assert roles == [["user"], *[["user", "assistant", "tool"]] * 3]
    assert [asked.first_turn for asked in one.asked] == [0, 0, 1, 2]
    assert [asked.shared for asked in one.asked] == [0, 2, 4, 6]
    assert one.started.history == "last:1"


def test_faults_reach_an_agent(tmp_path: Path, rehearse: Rehearse) -> None:
    """Faults on purpose in model and tools hit an agent's own requests and calls; the episodes end
    as without them, and the log says what was injected."""
    tables = {"policy": {"cut": {"share": 0.2}}}
    file = write_chaos(tmp_path / "chaos.toml", tables)
    alone = played(rehearse, tmp_path / "alone", "-p", "oracle")
    words = ("-p", "oracle", "--agent", f"{OWN}:loop", "--chaos", file)
    own = played(rehearse, tmp_path / "own", *words)
    assert list(map(outcome, own)) == list(map(outcome, alone))
    with open_reader(tmp_path / "own") as reader:
        assert len(list(reader.faults())) > 0
    assert os.environ.get("OPENAI_BASE_URL") is None

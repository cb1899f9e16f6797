"""The command line on worlds of an MCP server, or of another process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from rehearsal_room.harness.log.reader import open_reader
from tests.support.attempts import cut_off
from tests.support.cli import Rehearse, json_of
from tests.support.paths import MCP_SERVERS

PLAIN = MCP_SERVERS / "plain.py"
TASKS = """
name = "notebook"
description = "Notes of one person."

[[task]]
id = "once"
instruction = "Count once."
oracle = [{ name = "count", arguments = {} }]
[[task.check]]
name = "count"
expect = { contains = "2" }

[[task]]
id = "twice"
instruction = "Count twice."
oracle = [{ name = "count", arguments = {} }]
[[task.check]]
name = "count"
expect = { contains = "3" }
"""


@pytest.fixture
def serving() -> Iterator[str]:
    """The URL of `rehearse serve shop_support` in another process."""
    command = [
        sys.executable,
        "-m",
        "rehearsal_room",
        "serve",
        "shop_support",
        "--http",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        yield line.removeprefix("serving on ").strip()
        server.terminate()
        assert server.wait(30) == 0


@pytest.mark.slow
def test_an_mcp_server_is_a_world(rehearse: Rehearse, tmp_path: Path) -> None:
    """`run --mcp COMMAND TASKS` starts a fresh server for each episode; tool calls verify it."""
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(TASKS)
    target = f"{sys.executable} {PLAIN}"
    run = tmp_path / "run"
    report = json_of(rehearse, "run", "--mcp", target, tasks, "-n", 4, "-o", run)
    assert report["labels"] == {"completed": 2, "agent_error": 2}
    assert report["endings"] == {"answered": 4}
    judged = json_of(rehearse, "judge", run)
    assert (judged["unjudged"], judged["disagreements"]) == (0, 0)
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["calls"], again["divergences"]) == (4, 4, [])


@pytest.mark.slow
def test_worlds_of_another_process(rehearse: Rehearse, serving: str, tmp_path: Path) -> None:
    """`run --pool URL` leases its worlds there; log, judge and replay work as with local worlds."""
    run = tmp_path / "run"
    report = json_of(
        rehearse, "run", "shop_support", "--pool", serving, "-n", 20, "-c", 8, "-o", run
    )
    assert report["labels"] == {"completed": 20}
    again = json_of(rehearse, "replay", run)
    assert (again["episodes"], again["divergences"]) == (20, [])


@pytest.mark.slow
def test_a_server_that_is_not_there(rehearse: Rehearse, tmp_path: Path) -> None:
    """A pool or an MCP server that cannot be reached is one sentence, and no run folder."""
    run = tmp_path / "run"
    status, _, err = rehearse("run", "shop_support", "--pool", "http://127.0.0.1:9", "-o", run)
    assert (status, run.exists()) == (2, False)
    assert "127.0.0.1:9" in err and len(err.strip().splitlines()) == 1
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(TASKS)
    status, _, err = rehearse("run", "--mcp", "no-such-server", tasks, "-o", run)
    assert (status, run.exists()) == (2, False)
    assert "no-such-server" in err and len(err.strip().splitlines()) == 1


def test_an_interrupted_run_of_an_mcp_server(rehearse: Rehearse, tmp_path: Path) -> None:
    """Worlds whose state is not known cannot be forked from, by a sentence, and `--resume` starts
    their episodes from the beginning."""
    tasks = tmp_path / "tasks.toml"
    tasks.write_text(TASKS)
    target = f"{sys.executable} {PLAIN}"
    run, cut = tmp_path / "run", tmp_path / "cut"
    assert rehearse("run", "--mcp", target, f"{tasks}:once", "-o", run)[0] == 0
    status, _, err = rehearse("run", "--from", f"{run}/e000000@1", "-o", tmp_path / "fork")
    assert status == 2
    assert "do not reveal their state" in err
    anyio.run(cut_off, run, cut, 2)  # the start and one turn
    assert rehearse("run", "-o", cut, "--resume")[0] == 0
    with open_reader(cut) as reader:
        (again,) = reader.trajectories()
    assert (again.attempt, again.started.kept, len(again.steps)) == (2, 0, 2)
    assert [step.results[0].text for step in again.steps[:1]] == ["1"]

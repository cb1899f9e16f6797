"""Tasks as task folders of Harbor. Harbor's own models read them in tests/integrations; here their
scripts run, without a container."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rehearsal_room.scenarios.catalogue import find
from tests.support.cli import Rehearse
from tests.support.paths import AWM, LIBRARY
from tests.support.warm_process import WarmProcess

CLIENT = "/opt/client/client.py"
ANSWER = "/app/answer.txt"
TASK = "shop_support:address-to-parents"
TALK = "shop_support:which-boots"
Run = Callable[..., str]


@pytest.fixture
def folders(rehearse: Rehearse, tmp_path: Path) -> Path:
    """The folders of three tasks."""
    path = tmp_path / "tasks"
    status, out, err = rehearse(
        "export", TASK, TALK, f"{LIBRARY}:blocked", "--to", "harbor", "-o", path
    )
    assert (status, out) == (0, f"3 tasks in {path}\n"), err
    return path


def test_a_folder_has_the_parts_of_a_task(folders: Path) -> None:
    """Each task has configuration, instruction, image, verifier and solution; a package that is not
    bundled is copied; nothing that the agent reads has the solution."""
    world = find("shop_support")
    task = world.task("address-to-parents")
    folder = folders / "shop_support__address-to-parents"
    config = tomllib.loads((folder / "task.toml").read_text())
    assert (config["schema_version"], config["task"]["name"]) == ("1.4", f"rehearsal/{folder.name}")
    assert config["metadata"]["scenario_digest"] == world.digest
    (server,) = config["environment"]["mcp_servers"]
    assert (server["transport"], server["args"]) == ("stdio", [CLIENT, "mcp"])
    instruction = (folder / "instruction.md").read_text()
    assert instruction.startswith(task.instruction) and world.rules in instruction
    assert task.answer not in instruction
    for script in ("environment/entrypoint.sh", "tests/test.sh", "solution/solve.sh"):
        assert os.access(folder / script, os.X_OK)
    assert not (folder / "environment" / "world").exists()
    copied = folders / "library__blocked" / "environment"
    assert (copied / "world" / "library" / "tools.py").exists()
    assert "/opt/world/library:blocked" in (copied / "entrypoint.sh").read_text()


@pytest.fixture
def played(
    warm_cli: WarmProcess, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Begins an episode as entrypoint.sh does, and gives a function that runs the folder's scripts
    with the paths of the container replaced."""
    monkeypatch.setenv("REHEARSE_TOKEN", "secret")

    @contextmanager
    def begin(task: str) -> Iterator[tuple[Run, Path]]:
        folder = folders / task.replace(":", "__")
        output, episode = tmp_path / "output.txt", tmp_path / "episode.json"
        arguments = ("play", task, "--http", 0, "-o", tmp_path / "run", "--json", episode)
        child = warm_cli.start_command(*arguments, output=output)
        try:
            deadline = time.monotonic() + 30
            while not (found := re.search(r"127\.0\.0\.1:(\d+)", output.read_text())):
                assert child.poll() is None and time.monotonic() < deadline, output.read_text()
                time.sleep(0.01)
            variables = {
                "WORLD_URL": f"http://127.0.0.1:{found[1]}",
                "WORLD_TOKEN": "secret",
                "ANSWER": str(tmp_path / "answer.txt"),
                "EPISODE": str(episode),
                "REWARD": str(tmp_path / "reward.json"),
                "WORLD_HAS_USER": "1",
                "PATH": os.environ["PATH"],
            }

            def run(script: str, given: str = "") -> str:
                text = (folder / script).read_text() if script.endswith(".sh") else script
                client = str(folder / "environment" / "client.py")
                text = text.replace(f"python3 {CLIENT}", f"{sys.executable} {client}")
                text = text.replace(ANSWER, variables["ANSWER"])
                done = subprocess.run(
                    ["sh", "-c", text],
                    input=given,
                    capture_output=True,
                    text=True,
                    env=variables,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                return done.stdout

            yield run, tmp_path / "reward.json"
        finally:
            child.kill()

    return begin


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, TALK])
def test_the_solution_gets_the_whole_reward(played: Callable[..., Any], task: str) -> None:
    """solve.sh and then test.sh give reward 1, in a dialogue, too."""
    with played(task) as (run, reward):
        run("solution/solve.sh")
        assert json.loads(run("tests/test.sh"))["label"] == "completed"
        assert json.loads(reward.read_text()) == {"reward": 1.0}


@pytest.mark.slow
def test_doing_nothing_gets_nothing(played: Callable[..., Any]) -> None:
    """test.sh alone gives reward 0."""
    with played(TASK) as (run, reward):
        run("tests/test.sh")
        assert json.loads(reward.read_text()) == {"reward": 0.0}


def test_the_tools_are_served_over_mcp(played: Callable[..., Any]) -> None:
    """The agent's MCP server lists the world's tools and calls them; a refusal is an error."""
    asked = [
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "tools/list"},
        {
            "method": "tools/call",
            "params": {"name": "get_ticket", "arguments": {"ticket_id": 3001}},
        },
        {"method": "tools/call", "params": {"name": "get_ticket", "arguments": {"ticket_id": 1}}},
        {"method": "resources/list"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, **one}) for n, one in enumerate(asked)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    with played(TASK) as (run, _):
        out = run(f"python3 {CLIENT} mcp", "\n".join(lines) + "\n")
    begun, listed, found, refused, unknown = map(json.loads, out.splitlines())
    assert begun["result"]["protocolVersion"] == "2025-06-18"
    names = [one["name"] for one in listed["result"]["tools"]]
    assert {"get_ticket", "talk_to_user"} <= set(names)
    assert json.loads(found["result"]["content"][0]["text"])["id"] == 3001
    assert (found["result"]["isError"], refused["result"]["isError"]) == (False, True)
    assert unknown["error"]["message"] == "there is no method 'resources/list' here"


@pytest.mark.slow
def test_worlds_that_a_model_wrote_are_refused(rehearse: Rehearse, tmp_path: Path) -> None:
    """Their code needs a sandbox: one sentence, and nothing is written."""
    worlds = tmp_path / "worlds"
    assert rehearse("worlds", "import", "awm", AWM, "-o", worlds, "--no-examine")[0] == 0
    (record,) = worlds.iterdir()
    out = tmp_path / "tasks"
    status, _, err = rehearse("export", record, "--to", "harbor", "-o", out)
    assert (status, "a model wrote the code" in err, out.exists()) == (2, True, False), err

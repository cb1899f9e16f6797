"""`rehearse run --openenv URL` in environments that OpenEnv's own server serves, one with tools
and one without, and the labels that they get."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.integrations.serving import report

SERVER = "tests/integrations/openenv/official_server.py"
COUNTER = """
name = "counter"
description = "Sums of numbers."
[[task]]
id = "right"
instruction = "Add 2 and 3, then state their sum."
oracle = [{ name = "add", arguments = { n = 2 } }, { name = "add", arguments = { n = 3 } },
          { name = "finish", arguments = { n = 5 } }]
[[task]]
id = "wrong"
instruction = "Add 2 and 3, then state their sum."
oracle = [{ name = "add", arguments = { n = 2 } }, { name = "finish", arguments = { n = 5 } }]
"""
TRIVIAL = """
name = "trivial"
description = "Returns what it gets."
[[task]]
id = "any"
instruction = "Send a 3."
reward = 0.0
oracle = [{ name = "step", arguments = { value = 3 } }]
"""


def labels(python: str, kind: str, tasks: str, episodes: int) -> dict[str, int]:
    """The labels of a run of the oracle in an environment of the official server."""
    server = [python, SERVER, kind]
    with TemporaryDirectory() as name, subprocess.Popen(server, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            file, result = Path(name) / "tasks.toml", Path(name) / "report.json"
            file.write_text(tasks)
            words = ["run", str(file), "--openenv", url, "-p", "oracle", "-n", str(episodes)]
            words += ["-o", f"{name}/run", "--json", str(result)]
            run = [sys.executable, "-m", "rehearsal_room", *words]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            made: dict[str, int] = msgspec.json.decode(result.read_bytes())["labels"]
            return made
        finally:
            process.terminate()


def run_on_official(python: str) -> None:
    """Check both environments."""
    found = labels(python, "counter", COUNTER, 32)
    assert found["completed"] == 16, found
    assert found["agent_error"] == 16, found
    report(f"--openenv, an environment with tools on the official server: {found}")
    found = labels(python, "trivial", TRIVIAL, 8)
    assert found["completed"] == 8, found
    report(f"--openenv, an environment without tools on the official server: {found}")

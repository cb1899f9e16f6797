"""Programs that answer a line with a line, asked with moments: as a server is, call by call."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rehearsal_room.envpool.seeded.moments import Moments

CLOCK = "2026-01-05T09:00:00Z"
_PYTHON = """
import json, sys
{start}
def answer():
{answer}
print("ready", flush=True)
for line in sys.stdin:
    print(json.dumps(answer(), default=str), flush=True)
"""
_NODE = """
{start}
const answer = async () => {{ {answer} }}
console.log('ready')
createInterface({{ input: process.stdin }}).on('line', async () => {{
  console.log(JSON.stringify(await answer()))
}})
"""


def python_program(start: str, answer: str) -> str:
    """A program that runs `start`, then the body `answer` for each line; it prints what that
    returns."""
    body = "\n".join(f"    {line}" for line in answer.strip().splitlines())
    return _PYTHON.format(start=start, answer=body)


def node_program(start: str, answer: str) -> str:
    """The same for Node."""
    return _NODE.format(start=start, answer=answer)


def asked(
    command: Sequence[str],
    calls: Sequence[int],
    given: Mapping[str, str] | None = None,
    *,
    seed: str = "a seed",
) -> tuple[list[Any], list[str]]:
    """What a new process answers to these calls, and the interpreters that took the moments. Before
    a call 1 that is not the first, the moments begin again, as for a server that is reset."""
    with tempfile.TemporaryDirectory() as folder:
        moments = Moments(Path(folder) / "moments", seed=seed, clock=CLOCK)
        variables = {"PATH": os.environ["PATH"], **(given or {}), **moments.variables(given)}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            answers: list[Any] = []
            for number in calls:
                if number == 1 and answers:
                    moments.restart()
                moments.begin_call(number)
                process.stdin.write("\n")
                process.stdin.flush()
                answers.append(json.loads(process.stdout.readline()))
            loaded = moments.loaded()
            process.stdin.close()
        moments.close()
        return answers, loaded


def pythons() -> list[str]:
    """The interpreters of Python 3.8 and later that are beside ours or on the PATH, ours first."""
    found = {sys.version_info.minor: sys.executable}
    for path in sorted(Path(sys.base_prefix).parent.glob("*/bin/python3.*")):
        if match := re.fullmatch(r"python3\.(\d+)", path.name):
            found.setdefault(int(match[1]), str(path))
    for minor in range(8, 16):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0:
            found.setdefault(minor, path)
    return [path for minor, path in found.items() if minor >= 8]

"""What the doors share: a server of worlds, the model that plays oracles, and counted checks."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def served(*worlds: str, flags: Sequence[str] = ()) -> Iterator[str]:
    """`rehearse serve` for the duration of the block; yields its URL. At the end no world and no
    session may be left."""
    words = ["serve", *worlds, "--http", "127.0.0.1:0", "--drain", "1", *flags]
    command = [sys.executable, "-m", "rehearsal_room", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = _line(process.stderr, "serving on ")
            yield url
            health = get(f"{url}/health")
            assert health["worlds"] == 0, health
            assert health["sessions"] == 0, health
        finally:
            process.terminate()


@contextmanager
def oracle_model(*worlds: str) -> Iterator[str]:
    """The model server of tests.integrations.oracle_model; yields its URL."""
    command = [sys.executable, "-m", "tests.integrations.oracle_model", *worlds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _line(process.stdout, "")
        finally:
            process.terminate()


def get(url: str) -> Any:
    """The JSON at a URL."""
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def _line(stream: Any, start: str) -> str:
    """What follows `start` in the first line that begins with it."""
    for line in stream:
        if line.startswith(start):
            return str(line.removeprefix(start).strip())
    raise RuntimeError("the server ended before it listened")


def client(python: str, module: str, *words: str) -> None:
    """Run a program with the Python of a door's environment; raises where it fails."""
    subprocess.run([python, module, *words], check=True)


def report(line: str) -> None:
    """Print a line of the door's result."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()

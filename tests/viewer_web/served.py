"""`rehearse view` as a process of its own."""

import json
import os
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from typing import Any
from urllib.error import HTTPError


@dataclass(frozen=True)
class Served:
    """A viewer that runs: its URL with the token."""

    url: str

    def at(self, view: str) -> str:
        """The URL of a view, as in `#/runs`."""
        return f"{self.url}{view}"

    def get(self, path: str) -> Any:
        """What the interface answers."""
        base, token = re.fullmatch(r"(http://[^/]+)/\?token=(.+)", self.url).groups()  # type: ignore[union-attr]
        request = urllib.request.Request(
            f"{base}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def answer(self, path: str) -> Any:
        """The same; None where it refuses."""
        try:
            return self.get(path)
        except HTTPError:
            return None

    def run_id(self, name: str) -> str:
        """The id of the run of this name."""
        runs = self.get("/api/runs")["runs"]
        return str(next(run["id"] for run in runs if run["name"] == name))

    def episodes(self, name: str, query: str = "") -> list[dict[str, Any]]:
        """Rows of a run's episodes."""
        found = self.get(f"/api/runs/{self.run_id(name)}/episodes?{query}")["rows"]
        assert isinstance(found, list)
        return found


@contextmanager
def serving(
    *runs: Path, cwd: Path, state: Path | None = None, python: Path | str = sys.executable
) -> Iterator[Served]:
    """Serve runs until the block is left; what is played goes into a folder below `cwd`. `state` is
    the folder with the user's key, from which the address is kept; None: a free port."""
    command = [
        str(python),
        "-m",
        "rehearsal_room",
        "view",
        *map(str, runs),
        "--no-open",
        *(() if state else ("--port", "0")),
    ]
    env = os.environ | ({"XDG_STATE_HOME": str(state)} if state else {})
    with Popen(command, cwd=cwd, env=env, stdout=PIPE, stderr=STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            found = None
            for line in process.stdout:
                if found := re.search(r"http://\S+token=\S+", line):
                    break
            assert found, "the viewer printed no URL"
            yield Served(found[0])
        finally:
            process.terminate()
            process.stdout.close()
            process.wait(timeout=20)

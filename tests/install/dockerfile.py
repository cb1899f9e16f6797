"""The Dockerfile without Docker: its steps are run in a folder, as far as they can be.

    python tests/install/dockerfile.py SOURCE FOLDER

SOURCE has the files in git. COPY copies below FOLDER, which stands for the root of both stages; RUN
runs with absolute paths moved there. Packages of Debian and the user are looked up or left out.
Then the default command serves, and the health check must pass, and fail once the server has ended.
What it cannot show: that the base image exists, and that the image builds.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PORT = "8765"
MOVED = ("/dist", "/opt/rehearsal", "/source", "/data")  # absolute paths of the image that we write
_SECONDS_TO_START = 60


class Step(NamedTuple):
    """One instruction."""

    name: str
    text: str


def steps_of(text: str) -> list[Step]:
    """The instructions of a Dockerfile, with continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [Step(*line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stages_of(text: str) -> list[list[Step]]:
    """The instructions of each stage, its FROM first."""
    stages: list[list[Step]] = []
    for step in steps_of(text):
        if step.name == "FROM":
            stages.append([])
        if stages:
            stages[-1].append(step)
    return stages


def command_of(stage: list[Step], name: str) -> list[str]:
    """The words of an ENTRYPOINT, CMD or HEALTHCHECK in its JSON form."""
    text = next(step.text for step in stage if step.name == name)
    words: list[str] = json.loads(text[text.index("[") :])
    return words


def arguments_of(stage: list[Step]) -> dict[str, str]:
    """The defaults of a stage's ARGs."""
    pairs = (step.text.partition("=") for step in stage if step.name == "ARG")
    return {name: value for name, _, value in pairs}


def copied_of(stage: list[Step]) -> Iterator[str]:
    """What a stage copies from the context."""
    for step in stage:
        if step.name == "COPY" and "--from" not in step.text:
            yield from step.text.split()[:-1]


class Image:
    """The folder that stands for the image."""

    def __init__(self, source: Path, folder: Path) -> None:
        self._source, self._folder = source, folder
        self._port = str(_free_port())
        python = folder / "python"  # the base image's
        subprocess.run([sys.executable, "-m", "venv", python], check=True)
        self._environment = os.environ | {
            "PATH": f"{python / 'bin'}:{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def moved(self, text: str) -> str:
        """The text with the image's paths and its port replaced."""
        for path in MOVED:
            text = re.sub(rf"(?<![\w.]){path}\b", str(self._folder) + path, text)
        return text.replace(PORT, self._port)

    def build(self, stages: list[list[Step]]) -> None:
        """Do every COPY, RUN, WORKDIR and ENV, in order. A COPY from the first stage is done
        already: both stages have one root."""
        for stage in stages:
            arguments, workdir = arguments_of(stage), self._folder
            for step in stage:
                if step.name == "WORKDIR":
                    workdir = Path(self.moved(step.text))
                    workdir.mkdir(parents=True, exist_ok=True)
                elif step.name == "COPY" and "--from" not in step.text:
                    self._copy(step, workdir)
                elif step.name == "RUN":
                    self._run(step.text, workdir, arguments)
                elif step.name == "ENV":
                    self._set(step.text)

    def _copy(self, step: Step, workdir: Path) -> None:
        *sources, target = step.text.split()
        for name in sources:
            path = self._source / name
            if path.is_dir():
                shutil.copytree(path, workdir / target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(path, workdir / target)

    def _run(self, text: str, workdir: Path, arguments: dict[str, str]) -> None:
        if "apt-get" in text:
            _look_up(text)
            return
        if "useradd" in text:
            return
        print(f"  RUN {text[:90]}", flush=True)
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.moved(text)],
            cwd=workdir,
            env=self._environment | arguments,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _set(self, text: str) -> None:
        for name, value in re.findall(r"(\w+)=(\S+)", self.moved(text)):
            self._environment[name] = value.replace("$PATH", self._environment["PATH"])

    def serve(self, stage: list[Step]) -> None:
        """Run the default command until the health check passes; then it must fail."""
        command = [*command_of(stage, "ENTRYPOINT"), *command_of(stage, "CMD")]
        print(f"  {' '.join(command)}", flush=True)
        server = subprocess.Popen(
            [self.moved(word) for word in command], cwd=self._folder, env=self._environment
        )
        try:
            deadline = time.monotonic() + _SECONDS_TO_START
            while not self._is_healthy(stage):
                assert server.poll() is None, f"the server ended with status {server.returncode}"
                assert time.monotonic() < deadline, "the server is not healthy"
                time.sleep(0.2)
        finally:
            server.terminate()
            server.wait()
        assert not self._is_healthy(stage), "the health check passes without a server"

    def _is_healthy(self, stage: list[Step]) -> bool:
        command = [self.moved(word) for word in command_of(stage, "HEALTHCHECK")]
        done = subprocess.run(command, env=self._environment, capture_output=True, check=False)
        return done.returncode == 0


def _look_up(text: str) -> None:
    """Check that apt knows the packages, where there is apt with its lists."""
    if shutil.which("apt-cache") is None:
        return
    packages = re.findall(r"[a-z0-9.+-]+", text.partition("no-install-recommends")[2])
    for name in packages[: packages.index("rm")]:
        found = subprocess.run(["apt-cache", "show", name], capture_output=True, check=False)
        print(f"  apt package {name}: {'known' if found.returncode == 0 else 'not known here'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(source: Path, folder: Path) -> None:
    """Build below the folder and serve."""
    folder.mkdir()
    stages = stages_of((source / "Dockerfile").read_text(encoding="utf-8"))
    image = Image(source, folder)
    image.build(stages)
    image.serve(stages[-1])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Run `rehearse` commands in a subprocess: every stage of the demonstration is a user's command."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from rehearsal_room.learner.core.errors import LearnerError


def rehearse(command: str, config: Path, output: Path) -> None:
    """Run a `rehearse` command to its end, or resume it. Its output is appended to a log file next
    to its settings. Raises LearnerError when it fails."""
    log = config.with_suffix(".log")
    settings = ["--config", str(config)] if command == "run" else [str(config)]
    resume = ["--resume"] if output.exists() else []
    arguments = [command, *settings, "-o", str(output), *resume]
    with log.open("ab") as file:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rehearsal_room", *arguments],
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise LearnerError(f"rehearse {command} {config} failed: {last} (full output: {log})")


def write_config(path: Path, table: Mapping[str, Any]) -> Path:
    """Write a command's settings; returns the file. Raises LearnerError when the file has other
    settings already: results made with those must not be reported as made with these."""
    data = tomli_w.dumps(table).encode()
    if path.exists() and path.read_bytes() != data:
        raise LearnerError(
            f"{path}: has the settings of another recipe or folder; choose another output folder"
        )
    path.write_bytes(data)
    return path

"""The command line, as the demonstration calls it: every stage is a verb that a user has, too."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from learner.core.errors import LearnerError


def rehearse(verb: str, config: Path, output: Path) -> None:
    """Run a verb to its end, or go on with it; what it says goes to a file beside its settings.
    Raises LearnerError when it fails."""
    log = config.with_suffix(".log")
    given = ["--config", str(config)] if verb == "run" else [str(config)]
    goes_on = ["--resume"] if output.exists() else []
    command = [sys.executable, "-m", "harness", verb, *given, "-o", str(output), *goes_on]
    with log.open("ab") as told:
        done = subprocess.run(command, stdout=told, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise LearnerError(f"rehearse {verb} {config} failed: {last} (all of it: {log})")


def write_config(path: Path, table: Mapping[str, Any]) -> Path:
    """Write a verb's settings; gives their file. Raises LearnerError where others stand there:
    what was made with them would be told as made with these."""
    data = tomli_w.dumps(table).encode()
    if path.exists() and path.read_bytes() != data:
        raise LearnerError(f"{path}: it is of another recipe or place; name another output folder")
    path.write_bytes(data)
    return path

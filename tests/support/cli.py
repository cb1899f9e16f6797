"""The command line, run in this process."""

import json
from collections.abc import Callable
from typing import Any

Rehearse = Callable[..., tuple[int, str, str]]  # exit status, standard output, standard error


def json_of(rehearse: Rehearse, *arguments: object) -> Any:
    """What a command that succeeds writes with `--json -`."""
    status, out, err = rehearse(*arguments, "--json", "-")
    assert status == 0, err
    return json.loads(out)


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    """What a run printed with `--json`, as its report.json has it."""
    tasks = [{**task, "seconds": None} for task in report["tasks"]]
    return {**report, "reply_times": None, "tasks": tasks}


def without_trust_line(err: str) -> str:
    """Standard error without the line that names the packages that run in this process."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("trusted like rehearse itself"))

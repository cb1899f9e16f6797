"""Harbor's own config models accept our task folders.

    python tests/integrations/harbor/tasks.py FOLDER

Runs in the environment of the door, which has Harbor without its dependencies.
"""

import sys
import tomllib
import typing
from pathlib import Path

if not hasattr(typing, "override"):  # Harbor asks for Python 3.12, which has it
    typing.override = lambda method: method  # type: ignore[attr-defined]

from harbor.models.task.config import TaskConfig
from harbor.models.task.task import Task


def main(folder: Path) -> None:
    """Open every task."""
    tasks = sorted(one for one in folder.iterdir() if one.is_dir())
    for one in tasks:
        assert Task.is_valid_dir(one), one
        task = Task(one)
        assert task.name == f"rehearsal/{one.name}" and task.instruction.strip()
        known = set(TaskConfig.model_fields)
        written = tomllib.loads((one / "task.toml").read_text())
        assert set(written) <= known, set(written) - known
        for part in ("environment", "agent", "verifier"):
            fields = set(getattr(task.config, part).__class__.model_fields)
            assert set(written[part]) <= fields, (part, set(written[part]) - fields)
        (server,) = task.config.environment.mcp_servers
        assert (server.name, server.transport) == ("world", "stdio")
        assert task.config.environment.healthcheck is not None
        assert task.paths.solution_dir.joinpath("solve.sh").stat().st_mode & 0o111
    sys.stdout.write(f"{len(tasks)} task folders accepted\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

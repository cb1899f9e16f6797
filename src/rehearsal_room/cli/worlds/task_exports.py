"""`rehearse export SCENARIO... --to gym|harbor`: tasks of worlds, not episodes of a run.

A further format is a module of `rehearsal_room.interop.task_exports` and a line in `TASK_FORMATS`.
"""

from collections.abc import Sequence
from pathlib import Path

import click

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.worlds import pool_of, world_source
from rehearsal_room.harness.users.left_out import left_out_line
from rehearsal_room.interop.task_exports.gym import GYM
from rehearsal_room.interop.task_exports.harbor import HARBOR
from rehearsal_room.interop.task_exports.world_tasks import ChosenTasks, TaskFormat, hosted_tasks

TASK_FORMATS: dict[str, TaskFormat] = {"gym": GYM, "harbor": HARBOR}


def export_tasks(names: Sequence[str], to: str, output: Path | None) -> None:
    """Write the tasks of scenarios in one of TASK_FORMATS, and print how many there are, and
    how many dialogues are left out. Raises
    SettingsError, ScenarioError and PoolError."""
    wanted = TASK_FORMATS[to]
    path = output or Path(wanted.output)
    for name in names:
        if (Path(name) / "run.toml").exists():
            raise SettingsError(
                f"{name}: it is a run, and --to {to} writes tasks of worlds; name scenarios"
            )
    chosen: ChosenTasks = run(_hosted, names)
    count = wanted.write(path, chosen.worlds)
    click.echo(f"{count} tasks in {path}")
    for left_out, why in (
        (chosen.num_unnamed, "a dialogue is written where it is named, as in WORLD:TASK"),
        (chosen.num_unserved, "their users are not automata, and no server plays them"),
    ):
        if line := left_out_line(left_out, why):
            click.echo(line)


async def _hosted(names: Sequence[str]) -> ChosenTasks:
    settings = Settings()
    async with pool_of(settings) as pool:
        return await hosted_tasks(pool, names, world_source(settings.worlds).find)

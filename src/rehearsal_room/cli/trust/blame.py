"""The command `failures blame`: which turn of a failed episode is to blame."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from rehearsal_room.cli.core.flags import flags_of
from rehearsal_room.cli.core.help import SectionedCommand
from rehearsal_room.cli.core.local_policy import local_policy
from rehearsal_room.cli.core.options import (
    JSON,
    TRUST_RUN,
    console_of,
    fork_of_others,
    settings_of,
    write_json,
)
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.logged_runs.logged_run import log_folder, run_settings
from rehearsal_room.harness.rollout.process import run
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_folder import removed_if_nothing_happened, require_new
from rehearsal_room.judge.blame.asking import blame_one, episode_named, require_blame
from rehearsal_room.judge.blame.forks import Origin
from rehearsal_room.judge.blame.render import render_blame
from rehearsal_room.judge.blame.report import Blame

_FLAGS = (
    *("policy", "script", "model", "base_url", "temperature", "top_p", "max_tokens"),
    *("request_timeout", "extra_body", "history", "seed", "concurrency"),
    *("isolate", "workers", "sandbox"),
)


@click.command("blame", cls=SectionedCommand)
@click.argument("episode", metavar="RUN/EPISODE")
@click.option(
    "-n",
    "--forks",
    "tries",
    type=click.IntRange(0, 1_000),
    default=8,
    show_default=True,
    help="Number of episodes that are forked from each turn for the chance of success; 0: none, "
    "only the oracle plays.",
)
@flags_of(Settings, only=_FLAGS)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder that keeps the forks, as a run (default: they are not kept).",
)
@TRUST_RUN
@JSON
def blame_command(
    episode: str, tries: int, output: Path | None, json_file: str | None, **flags: Any
) -> None:
    """Find the turn of a failed episode after which it could not be won any more.

    \b
        rehearse failures blame runs/x/e000003
        rehearse failures blame runs/x/e000003 -p oracle -n 1
        rehearse failures blame runs/x/e000003 -m MODEL -n 16 -o runs/forks

    From each turn episodes are forked: by the policy of the run, or the one that -p or -m names,
    for the chance of success, and by an oracle that knows the task's solution. Where the oracle
    finds no way any more, the turn before is to blame; the smallest edit of it that rescues the
    episode is shown with the command that plays it.
    """
    folder, name = episode_named(episode)
    folder = log_folder(folder)
    with open_reader(folder) as reader:
        trajectory = reader.trajectory(name)
    require_blame(f"{folder}/{name}", trajectory)
    if output is not None:
        require_new(output, resume=False)
    flags |= {"forked_from": f"{folder}/{name}@0", "processes": 1}
    if _needs_policy(folder, flags, tries):
        settings = fork_of_others(flags)
    else:
        settings = settings_of(None, None, False, flags)
    ((scenario, task),) = planned(settings)[0]
    origin = Origin(str(folder), trajectory, scenario, task)
    ask = partial(blame_one, tries=tries, folder=output, local_policy=local_policy, progress=True)
    if output is None:
        found: Blame = run(ask, origin, settings)
    else:
        with removed_if_nothing_happened(output):
            found = run(ask, origin, settings)
    render_blame(found, console_of(json_file))
    write_json(found, json_file)


def _needs_policy(folder: Path, flags: dict[str, Any], tries: int) -> bool:
    """Whether the run was played by an agent of the user's own, or a person, who cannot begin in
    the middle. Raises SettingsError where nobody else is named."""
    settings = run_settings(folder)
    if not settings.agent.target and settings.policy.name != "human":
        return False
    if tries and not any(flags.get(key) for key in ("policy", "model", "base_url")):
        who = "an agent of your own" if settings.agent.target else "a person"
        raise SettingsError(
            f"{folder} was played by {who}, which cannot begin in the middle of an episode: name "
            "who plays the forks (-m MODEL, -p oracle), or leave the chances out (-n 0)"
        )
    return True

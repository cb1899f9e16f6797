"""What commands read of a finished run: its settings and its scenarios."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from rehearsal_room.harness.core.errors import LogError, SettingsError
from rehearsal_room.harness.core.events import Ending
from rehearsal_room.harness.following.copied import read_copied
from rehearsal_room.harness.log.reader import LogReader, open_reader, require_format
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.harness.logged_runs.unknown_world import is_unknown, scenario_in
from rehearsal_room.harness.settings.judge import Rewards, read_judge
from rehearsal_room.harness.settings.run import Settings, saved
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.run_trust import (
    RUN_FILE,
    harmless,
    require_play,
    require_worlds,
    strangers,
)
from rehearsal_room.harness.setup.worlds import world_source
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.format import Scenario


def run_settings(folder: Path) -> Settings:
    """The settings of a logged run, for work on this machine: worlds are not leased from the pool
    that the run may have had. A run without run.toml has the defaults. Pools of its worlds are
    opened with `hosting_settings`. Raises SettingsError, and LogError for a run of another log
    format."""
    require_format(folder)
    settings = harmless(_said(folder), folder / RUN_FILE)
    worlds = msgspec.structs.replace(settings.worlds, pool="")
    return msgspec.structs.replace(settings, worlds=worlds)


def hosting_settings(folder: Path, *, starts_servers: bool) -> Settings:
    """The settings of a logged run, to open its worlds here; `starts_servers`: those of an MCP
    server or an OpenEnv environment, too. Raises SettingsError for a run of somebody else that
    names a command or an address (see harness.setup.run_trust), and LogError."""
    settings, began = _said(folder), folder / RUN_FILE
    if not starts_servers:
        worlds = msgspec.structs.replace(settings.worlds, mcp=(), openenv="")
        settings = msgspec.structs.replace(settings, worlds=worlds)
    require_worlds(settings, began)
    settings = harmless(settings, began, _packages(folder))
    worlds = msgspec.structs.replace(settings.worlds, pool="")
    return msgspec.structs.replace(settings, worlds=worlds)


def playing_settings(folder: Path) -> Settings:
    """The settings of a logged run, to play it on here. Raises SettingsError for a run of somebody
    else that names a command or an address, and LogError."""
    settings, began = _said(folder), folder / RUN_FILE
    require_play(settings, began, given=None)
    settings = harmless(settings, began, _packages(folder))
    worlds = msgspec.structs.replace(settings.worlds, pool="")
    return msgspec.structs.replace(settings, worlds=worlds)


def strangers_of(folder: Path) -> list[str]:
    """The packages of a logged run that are not the user's (see harness.setup.run_trust). Raises
    SettingsError and LogError."""
    return strangers(_said(folder), folder / RUN_FILE, _packages(folder))


def _said(folder: Path) -> Settings:
    """The settings as the run has them."""
    began = folder / RUN_FILE
    return saved(began) if began.is_file() else Settings()


def _packages(folder: Path) -> list[tuple[str, str]]:
    """The packages in the log, by digest and by each name under which they are looked for."""
    with open_reader(folder) as reader:
        return [
            (world.scenario_digest, name)
            for world in reader.scenarios().values()
            for name in (world.source_path, world.scenario)
            if name
        ]


def log_folder(folder: Path) -> Path:
    """The folder of the log: the run's own, or that of a training run's rollouts. Raises
    SettingsError for a training run without rollouts."""
    rollouts = folder / "rollouts"
    if (folder / LOG_NAME).exists() or not (folder / "train.toml").exists():
        return folder
    if not (rollouts / LOG_NAME).exists():
        raise SettingsError(
            f"{folder}: this training run has no rollouts of its own (it learned from logs, or it "
            f"has not begun); its evaluations are runs in {folder / 'evaluations'}"
        )
    return rollouts


def rewards_of(folder: Path) -> Rewards:
    """The reward profile of the run's latest judging. Raises SettingsError."""
    judge = read_judge(folder)
    return run_settings(folder).judge.rewards if judge is None else judge.rewards


def num_planned(folder: Path) -> int:
    """How many episodes a run planned; 0: it is not known any more, or the run plays as many as a
    training run needs. Raises LogError."""
    if (copied := read_copied(folder)) is not None:
        return copied.episodes
    is_rollouts = (folder.parent / "train.toml").exists()
    if is_rollouts or not (folder / RUN_FILE).is_file():
        return 0
    try:
        return len(planned(run_settings(folder))[1])
    except (ScenarioError, SettingsError):
        return 0


def is_complete(folder: Path, reader: LogReader) -> bool:
    """Whether every episode that a run planned has ended, so that --resume would play none. Raises
    LogError."""
    ended = sum(row.ending not in (None, Ending.CANCELLED) for row in reader.episodes())
    return ended >= num_planned(folder)


def scenario_finder(folder: Path) -> Callable[[str, str], Scenario]:
    """A function that finds the package of a logged world by name and digest: where it was when the
    run began, or among the bundled ones; a suite's where the suite is now; of an imported, unknown
    world what the log has. Raises ScenarioError for a suite whose data is not found."""
    settings = run_settings(folder)
    find_logged = world_source(settings.worlds).logged_finder()
    with open_reader(folder) as reader:
        worlds = reader.scenarios()
        paths = {world.scenario_digest: world.source_path for world in worlds.values()}
        imported = {
            world.scenario_digest: scenario_in(
                world,
                (
                    row.task
                    for row in reader.episodes()
                    if row.scenario_digest == world.scenario_digest
                ),
            )
            for world in worlds.values()
            if is_unknown(world)
        }

    def scenario_of(name: str, digest: str) -> Scenario:
        if digest in imported:
            return imported[digest]
        path = paths.get(digest) or name
        found = [_find(place, find_logged) for place in (path, name)]
        known = [scenario for scenario in found if scenario is not None and scenario.name == name]
        for scenario in known:
            if scenario.digest == digest:
                return scenario
        if not known:
            raise LogError(
                f"{folder}: the package of scenario {name!r} (digest {digest}) is no longer at "
                f"{path}; put it back there, or replay with --world FOLDER to compare with another "
                "package"
            )
        raise LogError(
            f"{folder}: scenario {name!r} has changed since the run: its package at {path} had the "
            f"digest {digest} and has {known[0].digest} now; replay with --world {path} to see "
            "what would change"
        )

    return scenario_of


def found_scenarios(
    reader: LogReader, scenario_of: Callable[[str, str], Scenario]
) -> list[Scenario]:
    """The packages of a log that are still there."""
    found = []
    for world in reader.scenarios().values():
        with suppress(LogError):
            found.append(scenario_of(world.scenario, world.scenario_digest))
    return found


def _find(name: str, find_one: Callable[[str], Scenario]) -> Scenario | None:
    try:
        return find_one(name)
    except ScenarioError:
        return None

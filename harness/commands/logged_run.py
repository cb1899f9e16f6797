"""What verbs need of a run that is there: its settings, and its scenarios."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from harness.core.errors import LogError
from harness.log.reader import open_reader
from harness.settings.judge import Rewards, read_judge
from harness.settings.run import Settings, resolve
from scenarios.catalogue import find
from scenarios.errors import ScenarioError
from scenarios.format import Scenario
from scenarios.mcp_tasks import read_mcp_tasks


def run_settings(folder: Path) -> Settings:
    """The run's settings, as far as they matter now; its worlds are made here."""
    began = folder / "run.toml"
    settings = resolve(began, {}) if began.is_file() else Settings()
    return msgspec.structs.replace(settings, pool="")


def rewards_of(folder: Path) -> Rewards:
    """The profile by which the run was judged last. Raises SettingsError."""
    judge = read_judge(folder)
    return run_settings(folder).rewards if judge is None else judge.rewards


def scenario_finder(folder: Path) -> Callable[[str, str], Scenario]:
    """Finds the package of a logged world: where it was when the run began, or bundled."""
    mcp = run_settings(folder).mcp
    with open_reader(folder) as reader:
        places = {world.scenario_digest: world.source_path for world in reader.scenarios().values()}

    def scenario_of(name: str, package: str) -> Scenario:
        found = [_found(place, mcp) for place in (places.get(package) or name, name)]
        known = [scenario for scenario in found if scenario is not None and scenario.name == name]
        for scenario in known:
            if scenario.digest == package:
                return scenario
        if not known:
            raise LogError(f"{folder}: the package of scenario {name!r} is no longer where it was")
        raise LogError(
            f"{folder}: scenario {name!r} has changed since the run: its package was {package}, "
            f"and is {known[0].digest} now (replay --world asks what would change)"
        )

    return scenario_of


def _found(place: str, mcp: str) -> Scenario | None:
    try:
        return read_mcp_tasks(Path(place), mcp) if mcp else find(place)
    except ScenarioError:
        return None

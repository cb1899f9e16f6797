"""Launching a run whose episodes are played by actors of a Ray cluster.

Only leases, records and heartbeats travel: each actor hosts its worlds itself. This process is the
coordinator, as with several processes of one machine.
"""

import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.fleet.launch import launch_workers
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.launch import Launched
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.distribution import missing_package


def launch_on_ray(
    settings: Settings, folder: Path, *, policy: OpenPolicy | None = None, **arguments: Any
) -> Launched:
    """Run the episodes of the settings in `settings.processes` actors; the same as
    `rehearsal_room.harness.fleet.launch.launch_processes` otherwise. A `policy` is pickled for the
    actors.

    Raises also SettingsError where Ray is not installed, the cluster cannot be reached or has no
    room, and ProcessError where a node lacks what the run needs.
    """
    if settings.policy.name == "local":
        raise SettingsError(
            "engine: policy 'local' has its model in the process that plays; serve the model with "
            "`rehearse serve-policy` and play with --policy openai, or leave --engine out"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        engine = import_module("rehearsal_room.harness.cluster.engine").ray_engine
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("engine: 'ray'", exc, "ray")) from exc
    return launch_workers(
        settings,
        folder,
        engine=partial(engine, policy=policy),
        names_trusted_here=True,
        policy=policy,
        **arguments,
    )

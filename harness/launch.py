"""Launching a run: from its settings to the processes that play it.

This process plays it, or coordinates workers: processes of this machine, or actors of a Ray
cluster. The composition root passes in `open_judge`, which opens the judge of a run.
"""

import os
from functools import partial
from pathlib import Path

from rehearsal_room.harness.agents.opening import check_agent
from rehearsal_room.harness.bus.mqtt_settings import broker_of
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.chaos.settings import ChaosFile, read_chaos
from rehearsal_room.harness.chat.prices import read_prices
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.fleet.coordinated import play_in_workers, worker_spec
from rehearsal_room.harness.fleet.engine import OpenEngine, forked, require_divisible
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.process import raise_file_limit, run
from rehearsal_room.harness.rollout.session import unwrapped
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.launching import After, Launch, Launched, play_here
from rehearsal_room.harness.setup.parts import OpenJudge
from rehearsal_room.harness.setup.planning import planned, with_task_order
from rehearsal_room.harness.setup.policies import OpenLocalPolicy, open_policy
from rehearsal_room.harness.setup.run_folder import (
    keep_plan,
    removed_if_nothing_happened,
    require_new,
)
from rehearsal_room.scenarios.distribution import missing_package


def launch(
    settings: Settings,
    folder: Path,
    *,
    resume: bool,
    open_judge: OpenJudge | None,
    local_policy: OpenLocalPolicy | None = None,
    policy: OpenPolicy | None = None,
    after: After | None = None,
    progress: bool = True,
    engine: OpenEngine | None = None,
) -> Launched:
    """Run the episodes of the settings into a folder. `open_judge` None: the episodes stay
    unjudged. `local_policy` makes policy `local`; `policy` acts in place of the one that the
    settings name (a copy of it in each worker). `after` gets a pool of this process. `progress`
    goes to standard error. `engine` starts the workers (None: as the settings say).

    A run that fails before its first fact leaves no folder. Before the first episode one request
    checks each model server that will be asked (setting `preflight`). Raises HarnessError,
    ScenarioError and PoolError; ModelOutageError where the model server goes away in the run.
    """
    require_new(folder, resume=resume)
    check_agent(settings.agent)
    engine = engine or _engine_of(settings, policy)
    tasks, plans = planned(settings)
    if not resume:
        settings = with_task_order(settings, tasks)
        tasks, plans = planned(settings) if settings.task_order == "sampled" else (tasks, plans)
    opened_policy = policy or open_policy(settings, plans, local_policy)
    if settings.bus.url:
        broker_of(settings.bus)  # before any file is written
    parse_history(settings.history)
    if settings.model.prices:
        read_prices(Path(settings.model.prices))
    file = read_chaos(settings) or ChaosFile()
    chaos = Chaos(file, settings.model, "run" if engine is None else "coordinator")
    raise_file_limit(settings.max_concurrency + 256)
    tune_garbage_collector()
    beginning = Launch(
        settings=settings,
        folder=folder,
        tasks=tasks,
        plans=plans,
        policy=opened_policy,
        open_judge=chaos.judge(open_judge),
        chaos=chaos,
        resume=resume,
        after=after,
        progress=progress,
    )
    if resume:
        keep_plan(folder, settings)
    with removed_if_nothing_happened(folder), unwrapped():
        if engine is None:
            return run(play_here, beginning)
        with engine(worker_spec(beginning, file)) as start:
            announces = settings.cluster.engine == "ray"
            return run(partial(play_in_workers, announces=announces), beginning, start)


def _engine_of(settings: Settings, policy: OpenPolicy | None) -> OpenEngine | None:
    """What starts the workers; None: this process plays. Raises SettingsError."""
    if settings.cluster.engine == "ray":
        require_divisible(settings, setting="engine")
        return _ray_engine(policy)
    if settings.processes == 1:
        return None
    require_divisible(settings, setting="processes")
    return forked


def _ray_engine(policy: OpenPolicy | None) -> OpenEngine:
    """Actors of a Ray cluster. A `policy` is pickled for them."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from rehearsal_room.harness.cluster.engine import ray_engine
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("engine: 'ray'", exc, "ray")) from exc
    return partial(ray_engine, policy=policy)

"""Which tasks a run plays, and its episodes, from the settings alone."""

from pathlib import Path

import msgspec

from rehearsal_room.harness.continuation.forks import seed_of
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.allow_list import read_allow_list
from rehearsal_room.harness.rollout.plan import EpisodePlan, plan_of, select_tasks, with_sources
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.exclusions import without
from rehearsal_room.harness.setup.profile import check_profile
from rehearsal_room.harness.setup.worlds import world_source
from rehearsal_room.scenarios.format import Scenario, Task

Tasks = list[tuple[Scenario, Task]]


def planned(settings: Settings) -> tuple[Tasks, list[EpisodePlan]]:
    """The tasks and episodes of the settings. Raises SettingsError and ScenarioError."""
    if not settings.scenarios:
        raise SettingsError("scenarios: name at least one scenario")
    allowed = read_allow_list(Path(settings.allow)) if settings.allow else None
    source = world_source(settings.worlds)
    if settings.policy.name in ("oracle", "mutant") and not source.has_solutions:
        raise SettingsError(  # before a suite lists its tasks, which may take a minute
            f"policy: suite {settings.worlds.suite!r} has no reference solutions that "
            f"{settings.policy.name!r} could play; -p noop plays nothing, and -p scripted a file "
            "of calls"
        )
    names = source.names(settings.scenarios)
    tasks = select_tasks(
        names,
        source.find,
        allowed,
        dialogues=settings.dialogue,
        is_sampled=settings.task_order == "sampled",
    )
    if settings.exclude:
        tasks = without(tasks, settings.exclude)
    if not tasks and not settings.dialogue:
        raise SettingsError(
            "scenarios: no task is left to run without the dialogues; --dialogue plays them"
        )
    check_profile(settings, tasks)
    if settings.policy.name in ("oracle", "mutant"):
        _require_solutions(settings.policy.name, tasks)
    plans = plan_of(
        tasks,
        episodes=settings.episodes,
        group_size=settings.group_size,
        seed=seed_of(settings),
    )
    if settings.forked_from or not any(task.follows for _, task in tasks):
        return tasks, list(plans)  # the turns that a fork keeps begin where their episode began
    _require_sequels(settings)
    chained = list(with_sources(plans, source.find, num_tasks=len(tasks), seed=seed_of(settings)))
    known = {(scenario.digest, task.id) for scenario, task in tasks}
    sources = [
        (plan.scenario, plan.task)
        for plan in chained
        if (plan.scenario.digest, plan.task.id) not in known
    ]
    return [*tasks, *sources], chained


def _require_sequels(settings: Settings) -> None:
    """Refuse what does not go together with tasks that begin where others ended."""
    if settings.processes > 1 or settings.cluster.engine != "local":
        raise SettingsError(
            "processes: some of these tasks begin in the final state of others, which one process "
            "plays; leave --processes and --engine out"
        )
    if settings.agent.target:
        raise SettingsError(
            "agent: some of these tasks begin in the final state of others, and an agent of your "
            "own may keep a memory beside it; leave --agent out"
        )


def require_same_beginning(settings: Settings, *, episodes: int | None, group_size: int) -> None:
    """Check that the plan of a run that is resumed begins with the one with which the run began,
    which had these numbers. Raises SettingsError."""
    if (settings.episodes, settings.group_size) == (episodes, group_size):
        return
    began = msgspec.structs.replace(settings, episodes=episodes, group_size=group_size)
    before, now = planned(began)[1], planned(settings)[1]
    if len(now) < len(before):
        raise SettingsError(
            f"episodes: the run began with {len(before)} episodes; a run that is resumed may have"
            f" more, not {len(now)}"
        )
    if list(map(_identity, now[: len(before)])) != list(map(_identity, before)):
        raise SettingsError(
            f"group_size: with groups of {settings.group_size} the first {len(before)} episodes"
            f" would not be those of the run, which began with groups of {group_size}; keep"
            f" -g {group_size}, and choose a larger multiple of it for -n"
        )


def _identity(plan: EpisodePlan) -> tuple[str, str, str, str, int, int]:
    """What must not change of an episode that may have been played."""
    scenario, task = plan.scenario.digest, plan.task.id
    return plan.episode, scenario, task, plan.group, plan.member, plan.seed


def with_task_order(settings: Settings, tasks: Tasks) -> Settings:
    """The settings of a run that begins, with the order of its tasks: sampled where it plays a part
    of them. A run that goes on has the order of its beginning, however many its episodes are."""
    if settings.task_order is not None or settings.episodes is None:
        return settings
    if settings.episodes >= len(tasks) * settings.group_size:
        return settings
    return msgspec.structs.replace(settings, task_order="sampled")


def _require_solutions(policy: str, tasks: Tasks) -> None:
    """Raise SettingsError where the policy could not play a task's oracle."""
    for scenario, task in tasks:
        if task.kind == "open" and not task.oracle and scenario.suite is None:
            raise SettingsError(
                f"policy: {policy!r} plays the oracle of a task, and {scenario.name}:{task.id} has "
                "no oracle"
            )

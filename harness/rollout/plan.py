"""The episodes of a run: a pure function of its settings, so that a run that is resumed after a
crash has the same episodes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from os import PathLike, fspath

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.rollout.allow_list import AllowList
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Scenario, Task


class EpisodePlan(msgspec.Struct, frozen=True):
    """One episode to run."""

    episode: str
    scenario: Scenario
    task: Task
    group: str
    member: int
    group_size: int
    seed: int  # of this episode's own randomness, below 2^48
    attempt: int = 1
    source: str = ""  # the episode in whose final state it begins; empty: at the world's start


def names_of(scenarios: object) -> tuple[str, ...]:
    """The names of scenarios that a program gives: one of them, or several. Raises SettingsError.

    Example: "shop_support" -> ("shop_support",)
    """
    several: Iterable[object] = (scenarios,)
    if isinstance(scenarios, Iterable) and not isinstance(scenarios, str | PathLike):
        several = scenarios
    names: list[str] = []
    for one in several:
        if not isinstance(one, str | PathLike):
            found = type(one).__name__
            raise SettingsError(f"scenarios: expected names or paths of scenarios, found {found}")
        names.append(str(fspath(one)))
    return tuple(names)


def select_tasks(
    names: str | Sequence[str],
    find: Callable[[str], Scenario] = find,
    allowed: AllowList | None = None,
    *,
    dialogues: bool = False,
    is_sampled: bool = False,
) -> list[tuple[Scenario, Task]]:
    """The tasks of scenarios given as `name`, `path` or `name:task`, alternating between them.

    `find` finds a scenario by the text before the colon. Where a whole scenario is named, tasks
    that `allowed` does not list are left out (None: all tasks are allowed), and so are the
    dialogues of our own worlds, unless `dialogues`. `is_sampled`: the scenarios, and the tasks of
    each, come in an order that has nothing to do with where they stand, so that the first ones are
    a sample of all; it is always the same. Raises ScenarioError; SettingsError for a
    scenario, or a task given by name, that is not allowed.

    Example: ["shop", "desk:late"] -> [(shop, first task), (desk, late), (shop, second task), …]
    """
    scenarios: dict[str, Scenario] = {}
    columns: list[list[tuple[Scenario, Task]]] = []
    for name in names_of(names):
        source, _, task_id = name.partition(":")
        if source not in scenarios:  # a package is read once, however many of its tasks are named
            scenarios[source] = find(source)
        scenario = scenarios[source]
        if task_id:
            tasks: tuple[Task, ...] = (scenario.task(task_id),)
        else:
            tasks = scenario.tasks if dialogues else scenario.default_tasks
        if allowed is not None:
            tasks = allowed.permitted(scenario, tasks, named=bool(task_id))
        columns.append([(scenario, task) for task in tasks])
    if is_sampled:
        columns = [sorted(column, key=_sampling_key) for column in columns]
        columns.sort(key=lambda column: _sampling_key(column[0]) if column else b"")
    return [
        column[row]
        for row in range(max(map(len, columns), default=0))
        for column in columns
        if row < len(column)
    ]


def _sampling_key(one: tuple[Scenario, Task]) -> bytes:
    scenario, task = one
    return blake2b(f"{scenario.name}:{task.id}".encode(), digest_size=8).digest()


MAX_EPISODES = 10_000_000  # a plan is kept in memory, some 500 bytes for each episode


def plan_of(
    tasks: Sequence[tuple[Scenario, Task]], *, episodes: int | None, group_size: int, seed: int
) -> Iterator[EpisodePlan]:
    """The episodes in order: one group of each task, then again from the first task until there
    are enough.

    `episodes` is the total, at most MAX_EPISODES; None: one group of each task. Raises
    SettingsError.
    """
    if not tasks:
        raise SettingsError("scenarios: there is no task to run")
    if group_size < 1:
        raise SettingsError(f"group_size: must be at least 1, not {group_size}")
    total = len(tasks) * group_size if episodes is None else episodes
    if total < 1:
        raise SettingsError(f"episodes: must be at least 1, not {total}")
    if total > MAX_EPISODES:
        raise SettingsError(
            f"episodes: the plan has {total:,} of them; a run has at most {MAX_EPISODES:,}"
        )
    if total % group_size:
        raise SettingsError(f"episodes: {total} is not a multiple of the group size {group_size}")
    return _plans(tasks, total, group_size, seed)


def _plans(
    tasks: Sequence[tuple[Scenario, Task]], episodes: int, group_size: int, seed: int
) -> Iterator[EpisodePlan]:
    for index in range(episodes):
        group, member = divmod(index, group_size)
        scenario, task = tasks[group % len(tasks)]
        yield EpisodePlan(
            episode=f"e{index:06d}",
            scenario=scenario,
            task=task,
            group=f"g{group:06d}",
            member=member,
            group_size=group_size,
            seed=episode_seed(seed, group, member),
        )


def with_sources(
    plans: Iterable[EpisodePlan], find: Callable[[str], Scenario], *, num_tasks: int, seed: int
) -> Iterator[EpisodePlan]:
    """The plans, and before each that begins in the final state of another episode that one, where
    no plan before it is it. `num_tasks` plans of groups make a round; the episodes of a round begin
    in the states that the same episodes left. Raises SettingsError and ScenarioError.

    Example: a task `b` that follows `a`, with two episodes: e000000, e000001 -> s000000 of `a`,
    then e000000 and e000001, which both begin where s000000 ended
    """
    known: dict[tuple[int, str, str], str] = {}  # round, scenario, task -> the episode
    made = 0

    def sources(scenario: Scenario, task: Task, turn: int) -> Iterator[EpisodePlan]:
        """The plans that are missing, of the task that this one follows, the first one first."""
        nonlocal made
        missing: list[tuple[Scenario, Task]] = []
        while task.follows:
            scenario, task = followed(scenario, task, find)
            if (turn, scenario.name, task.id) in known:
                break
            if (scenario, task) in missing:
                raise SettingsError(f"task {scenario.name}:{task.id} follows itself")
            missing.append((scenario, task))
        for one, source in reversed(missing):
            name = f"s{made:06d}"
            yield EpisodePlan(
                episode=name,
                scenario=one,
                task=source,
                group=f"gs{made:06d}",
                member=0,
                group_size=1,
                seed=episode_seed(seed, -1 - made, 0),
                source=source_of(one, source, turn),
            )
            known[turn, one.name, source.id] = name
            made += 1

    def source_of(scenario: Scenario, task: Task, turn: int) -> str:
        if not task.follows:
            return ""
        scenario, task = followed(scenario, task, find)
        return known[turn, scenario.name, task.id]

    for number, plan in enumerate(plans):
        turn = number // plan.group_size // num_tasks
        yield from sources(plan.scenario, plan.task, turn)
        source = source_of(plan.scenario, plan.task, turn)
        known.setdefault((turn, plan.scenario.name, plan.task.id), plan.episode)
        yield msgspec.structs.replace(plan, source=source) if source else plan


def followed(
    scenario: Scenario, task: Task, find: Callable[[str], Scenario]
) -> tuple[Scenario, Task]:
    """The scenario and the task that a task follows. Raises ScenarioError."""
    other, colon, name = task.follows.rpartition(":")
    found = find(other) if colon else scenario
    return found, found.task(name)


def episode_seed(seed: int, group: int, member: int) -> int:
    """The seed of an episode's own randomness, below 2^48."""
    text = f"{seed} {group} {member}".encode()
    return int.from_bytes(blake2b(text, digest_size=6).digest(), "big")

"""Which episodes a run consists of: a pure function of its settings, so that a run that goes on
after a crash has the same episodes."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import msgspec

from harness.core.errors import SettingsError
from harness.rollout.allow_list import AllowList
from scenarios.catalogue import find
from scenarios.format import Scenario, Task


class EpisodePlan(msgspec.Struct, frozen=True):
    """One episode that shall be run."""

    episode: str
    scenario: Scenario
    task: Task
    group: str
    member: int
    group_size: int
    seed: int  # of this episode's own randomness, below 2^48
    attempt: int = 1


def chosen_tasks(
    names: Sequence[str],
    find: Callable[[str], Scenario] = find,
    allowed: AllowList | None = None,
) -> list[tuple[Scenario, Task]]:
    """The tasks of scenarios given as `name`, `path` or `name:task`, alternating between them.

    `find` finds a scenario by what stands before the colon. Tasks that are not on the list of
    those allowed (None: all are) are left out of whole scenarios. Raises ScenarioError, and
    SettingsError where what was named is not allowed.

    Example: ["shop", "desk:late"] -> [(shop, first task), (desk, late), (shop, second task), …]
    """
    scenarios: dict[str, Scenario] = {}
    columns: list[list[tuple[Scenario, Task]]] = []
    for name in names:
        place, _, task_id = name.partition(":")
        scenario = scenarios.setdefault(place, find(place))
        tasks = (scenario.task(task_id),) if task_id else scenario.tasks
        if allowed is not None:
            tasks = allowed.sound(scenario, tasks, named=bool(task_id))
        columns.append([(scenario, task) for task in tasks])
    return [
        column[row]
        for row in range(max(map(len, columns), default=0))
        for column in columns
        if row < len(column)
    ]


def plan_of(
    tasks: Sequence[tuple[Scenario, Task]], *, episodes: int | None, group_size: int, seed: int
) -> Iterator[EpisodePlan]:
    """The episodes in order: one group of each task, and round again until there are enough.

    `episodes` None: one group a task. Raises SettingsError.
    """
    if not tasks:
        raise SettingsError("scenarios: there is no task to run")
    if group_size < 1:
        raise SettingsError(f"group_size: must be at least 1, not {group_size}")
    wanted = len(tasks) * group_size if episodes is None else episodes
    if wanted < 1:
        raise SettingsError(f"episodes: must be at least 1, not {wanted}")
    if wanted % group_size:
        raise SettingsError(f"episodes: {wanted} is no multiple of the group size {group_size}")
    return _plans(tasks, wanted, group_size, seed)


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
            seed=_seed(seed, group, member),
        )


def _seed(seed: int, group: int, member: int) -> int:
    text = f"{seed} {group} {member}".encode()
    return int.from_bytes(blake2b(text, digest_size=6).digest(), "big")

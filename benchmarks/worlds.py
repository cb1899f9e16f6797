"""The bundled worlds and the calls of their oracles, for all benchmarks."""

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import msgspec

from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.inprocess.world import HostedScenario, Lease
from rehearsal_room.harness.rollout.plan import select_tasks
from rehearsal_room.scenarios.format import Scenario, Task

NAMES = ("shop_support", "flight_desk", "claims_desk")


class Call(msgspec.Struct, frozen=True):
    """One oracle call of one live world."""

    episode: int
    scenario: str
    name: str
    arguments: Any
    id: str


def tasks() -> list[tuple[Scenario, Task]]:
    """Every task of the bundled worlds, alternating between the worlds."""
    return select_tasks(NAMES)


def host_worlds(pool: LocalPool) -> dict[str, HostedScenario]:
    """The bundled worlds of a pool, by name."""
    return {scenario.name: pool.world(scenario) for scenario, _ in tasks()}


def episode_tasks(count: int) -> list[tuple[Scenario, Task]]:
    """The tasks of `count` episodes: all tasks in order, repeated as often as needed."""
    return list(islice(cycle(tasks()), count))


def lease_worlds(worlds: dict[str, HostedScenario], count: int, *, first: int = 0) -> list[Lease]:
    """Fresh worlds for the episodes from number `first` to `count` - 1."""
    return [worlds[scenario.name].lease() for scenario, _ in episode_tasks(count)[first:]]


def calls_in_order(count: int) -> list[list[Call]]:
    """The oracle's calls of `count` episodes, a list for each episode."""
    return [
        [
            Call(number, scenario.name, call.name, call.arguments, f"c{turn}-0")
            for turn, call in enumerate(task.oracle)
        ]
        for number, (scenario, task) in enumerate(episode_tasks(count))
    ]


def interleaved_calls(count: int, seed: int) -> Iterator[Call]:
    """Yield the same calls in the order in which thousands of live episodes make them.

    The first calls of all episodes come first, in random order, then their second calls, and so on.
    So nearly every call works on another world than the call before it.
    """
    random = Random(seed)
    episodes = calls_in_order(count)
    for turn in range(max(map(len, episodes))):
        calls = [calls[turn] for calls in episodes if turn < len(calls)]
        random.shuffle(calls)
        yield from calls

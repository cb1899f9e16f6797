"""The bundled worlds and their oracles' calls, as all benchmarks use them."""

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Any

import msgspec

from envpool.inprocess.pool import LocalPool
from envpool.inprocess.world import HostedScenario, Lease
from harness.rollout.plan import select_tasks
from scenarios.format import Scenario, Task

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


def hosted(pool: LocalPool) -> dict[str, HostedScenario]:
    """The bundled worlds, by name."""
    return {scenario.name: pool.world(scenario) for scenario, _ in tasks()}


def episodes(count: int) -> list[tuple[Scenario, Task]]:
    """So many episodes: the tasks, round and round."""
    return list(islice(cycle(tasks()), count))


def leases(worlds: dict[str, HostedScenario], count: int) -> list[Lease]:
    """Fresh worlds for so many episodes."""
    return [worlds[scenario.name].lease() for scenario, _ in episodes(count)]


def in_order(count: int) -> list[list[Call]]:
    """The oracle's calls of so many episodes, one episode after the other."""
    return [
        [
            Call(number, scenario.name, call.name, call.arguments, f"c{turn}-0")
            for turn, call in enumerate(task.oracle)
        ]
        for number, (scenario, task) in enumerate(episodes(count))
    ]


def interleaved(count: int, seed: int) -> Iterator[Call]:
    """The same calls as thousands of live episodes make them: the first call of each, in random
    order, then the second of each, and so on; so nearly every call works on another world than
    the one before it."""
    random = Random(seed)
    played = in_order(count)
    for turn in range(max(map(len, played))):
        calls = [calls[turn] for calls in played if turn < len(calls)]
        random.shuffle(calls)
        yield from calls

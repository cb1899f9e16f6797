"""The unit of generalisation: what else a run's intervals speak about, other tasks or other worlds.

Tries at a task resemble each other, and so do the tasks of a world. An interval whose unit is the
task is about further tasks of the same worlds; one whose unit is the world is about other worlds,
too, and wider. Where tasks come ten to a world, the first is far too narrow for what a run is taken
to say, so the world is then the unit, if there are enough worlds to see how much they differ.

The unit is chosen from the tasks that were played, with or without a verdict, so that an agent that
breaks its world does not choose it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Unit = Literal["task", "world"]
LEAST_WORLDS = 8
LEAST_TASKS = 10  # in the world of a task, on average


class UnitChoice(msgspec.Struct, frozen=True):
    """The unit of a report, and what it was chosen from."""

    unit: Unit
    tasks: int
    worlds: int
    is_given: bool  # False: it follows from the tasks
    # The tasks in the world of a task, itself included, on average over the tasks: one world with a
    # hundred tasks among many small ones counts.
    together: float

    @property
    def about(self) -> str:
        """What the intervals are about, in a sentence without its full stop.

        Example: "the unit is the world: the intervals are about other worlds like these 12"
        """
        these = "this one" if self.worlds == 1 else f"these {self.worlds:,}"
        if self.unit == "world":
            text = f"the unit is the world: the intervals are about other worlds like {these}"
            if self.worlds == 1:
                return f"{text}, of which one says next to nothing"
            if self.worlds < LEAST_WORLDS:
                return f"{text}; with so few of them, 95 % intervals hold in 90 to 98 %"
            return text
        if self.worlds == self.tasks or self.together < LEAST_TASKS:
            return "the unit is the task: the intervals are about other tasks like these"
        these = "this world" if self.worlds == 1 else f"these {self.worlds:,} worlds"
        text = f"the unit is the task: the intervals are about further tasks of {these} alone"
        if self.is_given:
            return f"{text}, as asked"
        return f"{text}; {LEAST_WORLDS} worlds would let them speak of others"


def choose_unit(keys: Iterable[tuple[str, str]], asked: Unit | None = None) -> UnitChoice:
    """The unit for these tasks, each a scenario and a task; `asked`: the one that the user chose
    (None: none).

    Example: 100 tasks, ten in each of ten worlds -> world; 100 tasks in five worlds -> task
    """
    sizes = Counter(world for world, _ in set(keys))
    tasks, worlds = sizes.total(), len(sizes)
    together = sum(size**2 for size in sizes.values()) / max(1, tasks)
    by_world = together >= LEAST_TASKS and worlds >= LEAST_WORLDS
    return UnitChoice(
        asked or ("world" if by_world else "task"), tasks, worlds, asked is not None, together
    )


def by_unit(tries: Mapping[tuple[str, str], Sequence[float]], unit: Unit) -> dict[Any, list[float]]:
    """The tries of each unit, from those of each task."""
    found: dict[Any, list[float]] = {}
    for key, values in tries.items():
        found.setdefault(key if unit == "task" else key[0], []).extend(values)
    return found

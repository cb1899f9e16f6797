"""Designs of evaluations with a known share: tasks of differing difficulty, each tried several
times."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple


class Design(NamedTuple):
    """Tasks, tries, and how much the tries at one task resemble each other."""

    tasks: int
    tries: tuple[int, ...]  # of the tasks in turn: one number, or several where unbalanced
    share: float
    likeness: float  # intraclass correlation of the tries at one task

    def draw(self, random: Random) -> dict[int, list[float]]:
        """The tries of each task, 1 or 0: a task's own share follows a beta distribution."""
        found = {}
        for task in range(self.tasks):
            own = self._own_share(random)
            tries = self.tries[task % len(self.tries)]
            found[task] = [float(random.random() < own) for _ in range(tries)]
        return found

    def _own_share(self, random: Random) -> float:
        if self.likeness == 0:
            return self.share
        size = (1 - self.likeness) / self.likeness
        return random.betavariate(self.share * size, (1 - self.share) * size)


class WorldDesign(NamedTuple):
    """Worlds, tasks in each, and tries at each task. The tasks of a world resemble each other, and
    so do, more, the tries at a task."""

    worlds: int
    tasks: int
    tries: int
    share: float
    likeness: float  # intraclass correlation of the tasks of a world

    def draw(self, random: Random) -> dict[int, list[float]]:
        """The tries in each world, 1 or 0: the world is the unit."""
        found: dict[int, list[float]] = {}
        for world in range(self.worlds):
            own = _near(random, self.share, self.likeness)
            shares = [_near(random, own, _OF_A_TASK) for _ in range(self.tasks)]
            found[world] = [
                float(random.random() < one) for one in shares for _ in range(self.tries)
            ]
        return found


_OF_A_TASK = 0.5  # the likeness of the tries at one task of a world


def _near(random: Random, share: float, likeness: float) -> float:
    """A share from a beta distribution with this mean."""
    size = (1 - likeness) / likeness
    if not 1e-12 < share < 1 - 1e-12:
        return share
    return random.betavariate(share * size, (1 - share) * size)


DESIGNS = (
    Design(10, (4,), 0.5, 0.3),
    Design(20, (1,), 0.8, 0.0),
    Design(20, (4,), 0.5, 0.6),
    Design(30, (8,), 0.7, 0.3),
    Design(50, (1,), 0.95, 0.0),
    Design(50, (4,), 0.3, 0.3),
    Design(50, (1, 2, 8), 0.5, 0.3),
    Design(100, (1,), 0.05, 0.0),
    Design(100, (4,), 0.9, 0.6),
    Design(100, (16,), 0.5, 0.1),
    Design(200, (2,), 0.6, 0.6),
    Design(200, (1, 4), 0.2, 0.3),
)


# What an evaluation of agents can look like at its ends, and with the world as the unit.
HARD = tuple(
    Design(tasks, (tries,), share, likeness)
    for tasks in (10, 40, 130)
    for tries in (1, 4, 16)
    for share in (0.02, 0.5, 0.99)
    for likeness in (0.0, 0.6)
)
OF_WORLDS = tuple(
    WorldDesign(*size, share, likeness)
    for size in ((10, 10, 1), (10, 10, 4), (100, 10, 1), (10, 30, 4), (3, 10, 4), (5, 20, 2))
    for share in (0.1, 0.5, 0.9)
    for likeness in (0.1, 0.2)
)


def samples(
    design: Design | WorldDesign, count: int, seed: int = 0
) -> Iterator[dict[int, list[float]]]:
    """So many evaluations of one design."""
    random = Random(f"{design} {seed}")
    for _ in range(count):
        yield design.draw(random)

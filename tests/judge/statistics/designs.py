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


def samples(design: Design, count: int, seed: int = 0) -> Iterator[dict[int, list[float]]]:
    """So many evaluations of one design."""
    random = Random(f"{design} {seed}")
    for _ in range(count):
        yield design.draw(random)

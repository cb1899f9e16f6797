"""The chance of a simulation: one seed gives every choice, and each can be taken back.

A *choice point* is a place where something other than the usual may happen: another order of tasks,
a delay, a fault, a crash. Points are numbered by kind. The usual is option 0; anything else is a
*deviation* `(kind, number)`. A simulation with the same seed in which only some of the deviations
are allowed takes the usual option at all others, so a failing seed can be shrunk to the few
deviations that it needs.
"""

from collections import Counter
from collections.abc import Callable, Collection
from random import Random

Deviation = tuple[str, int]  # kind of choice point, its number from 0
Attempt = Callable[[frozenset[Deviation]], bool]  # runs a simulation; True: it fails the same way


class Choices:
    """The choices of one simulation."""

    def __init__(self, seed: int | str, allowed: Collection[Deviation] | None = None) -> None:
        """`allowed`: the deviations that may be taken; None: all."""
        self._seed = seed
        self._allowed = allowed
        self._sources: dict[str, Random] = {}
        self._numbers: Counter[str] = Counter()
        self.deviations: list[Deviation] = []  # those that were taken, in order

    def option(self, kind: str, count: int, *, rate: float) -> int:
        """An option from 0 to `count` - 1, which is not 0 in a share `rate` of the cases."""
        source = self._source(kind)
        number = self._numbers[kind]
        self._numbers[kind] = number + 1
        # Two numbers are drawn at every point, so that a choice does not depend on others.
        drawn, which = source.random(), source.random()
        if drawn >= rate or count < 2 or not self._is_allowed(kind, number):
            return 0
        self.deviations.append((kind, number))
        return 1 + int(which * (count - 1))

    def amount(self, kind: str, most: float, *, rate: float) -> float:
        """0, or in a share `rate` of the cases a number up to `most`."""
        return self.option(kind, 1_001, rate=rate) * most / 1_000

    def _source(self, kind: str) -> Random:
        source = self._sources.get(kind)
        if source is None:
            source = self._sources[kind] = Random(f"{self._seed} {kind}")
        return source

    def _is_allowed(self, kind: str, number: int) -> bool:
        return self._allowed is None or (kind, number) in self._allowed


class Fails:
    """Whether a simulation fails in the same way with some deviations; remembers what it tried."""

    def __init__(self, attempt: Attempt, most: int = 400) -> None:
        self._attempt = attempt
        self._known: dict[frozenset[Deviation], bool] = {}
        self._most = most  # simulations that shrinking may run

    def __call__(self, allowed: Collection[Deviation]) -> bool:
        key = frozenset(allowed)
        if key not in self._known:
            if len(self._known) >= self._most:
                return False
            self._known[key] = self._attempt(key)
        return self._known[key]


def shrink(fails: Fails, deviations: Collection[Deviation]) -> list[Deviation]:
    """The deviations that a failure needs, by delta debugging: taking away any one of them makes
    it disappear. `fails` runs the simulation with these deviations allowed.

    Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
    """
    left = list(dict.fromkeys(deviations))
    parts = 2
    while len(left) >= 2:
        size = -(-len(left) // parts)
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        for number, chunk in enumerate(chunks):
            rest = [one for other in chunks[:number] + chunks[number + 1 :] for one in other]
            if fails(chunk):
                left, parts = chunk, 2
                break
            if fails(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(left):
                break
            parts = min(2 * parts, len(left))
    if left and fails([]):
        return []
    return left

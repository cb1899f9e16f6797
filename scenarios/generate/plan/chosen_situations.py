"""Drawing the situations of a world: by kind as the knobs require, by length, the rare ones first.

Every situation is used once before one is used again.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from random import Random

from rehearsal_room.scenarios.generate.core.situations import Situation
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names

_QUESTIONS = 0.17  # share of the tasks that are neither forbidden nor of memory
_PULL = 0.3  # of the square of the wished number: at 6 calls, 9 are aimed at, as most have fewer
_SPREAD = 0.3  # of the number of calls: standard deviation of its logarithm
_SHORTER, _LONGER = 18.0, 0.3  # how strongly a situation that is shorter, or longer, is avoided
_CHOICE = 6  # with fewer situations of a kind, those of the next kind are drawn now and then
_RARE = 1.25  # how strongly a situation that suits few worlds is preferred there
_EVERYWHERE = 0.05  # the weight of a situation that every world suits
_OFTEN = 3.0  # the weight of a situation that people ask for all the time
_SELDOM = 0.001  # of one that they seldom ask for
_DRAWN = 0.22  # about the share of a trade's worlds that have one of its modules

Fits = Callable[[Situation], bool]


class SituationDraw:
    """Draws situations one after the other."""

    def __init__(self, suitable: Sequence[Situation], knobs: Knobs, rng: Random) -> None:
        self._suitable = [one for one in suitable if not one.dialogue]
        self._left = list(self._suitable)
        self._talks = [one for one in suitable if one.dialogue]
        self._talks_left: list[Situation] = []
        self._knobs = knobs
        self._rng = rng

    def draw(self) -> Situation | None:
        """The next situation; None: there is none at all."""
        share = self._knobs.dialogue  # without dialogues, the same draws as before there were any
        if share and self._talks and self._rng.random() < share:
            return self._draw_talk()
        found: list[Situation] = []
        for fits in self._wanted():
            fitting = [one for one in self._left if fits(one)]
            found = fitting or found
            if self._rng.random() * _CHOICE < sum(not one.rare for one in fitting):
                break
        if not self._left:
            return None
        chosen = self._weighted(found or self._left)
        self._left.remove(chosen)
        return chosen

    def _draw_talk(self) -> Situation:
        """The next dialogue; when all were drawn, they are drawn again."""
        self._talks_left = self._talks_left or list(self._talks)
        chosen = self._rng.choices(self._talks_left, list(map(_rarity, self._talks_left)))[0]
        self._talks_left.remove(chosen)
        return chosen

    def start_again(self) -> bool:
        """Let every situation be drawn again; return False when there is none."""
        self._left = list(self._suitable)
        return bool(self._left)

    def _wanted(self) -> tuple[Fits, ...]:
        """The kind of the next situation by the knobs' shares, and what else would do."""
        knobs, rng = self._knobs, self._rng
        draw = rng.random()
        if draw < knobs.forbidden:
            because = "permission" if rng.random() < knobs.permissions else "policy"
            return (lambda one: _declines(one) and one.because == because, _declines, _is_plain)
        if draw < knobs.forbidden + knobs.memory:
            return (lambda one: one.memory, _is_plain)
        kind = "question" if rng.random() < _QUESTIONS else "change"
        return (lambda one: _is_plain(one) and one.kind == kind, _is_plain)

    def _weighted(self, found: Sequence[Situation]) -> Situation:
        length = _PULL * self._knobs.steps**2 * self._rng.lognormvariate(0, _SPREAD)
        weights = [_rarity(one) * _closeness(one.steps, length) for one in found]
        return self._rng.choices(found, weights)[0]


def _closeness(steps: int, length: float) -> float:
    return math.exp(-_SHORTER * max(0, math.log(length / steps))) * math.exp(
        -_LONGER * max(0, math.log(steps / length))
    )


@cache
def _rarity(one: Situation) -> float:
    """How rarely a world suits a situation: otherwise those of the modules that every world has
    would make up a large share of all tasks."""
    suits = [
        name
        for name in trade_names()
        if set(one.modules) <= set(trade(name).modules)
        and (not one.trades or name in one.trades)
        and name not in one.without
    ]
    share = max(1, len(suits)) / len(trade_names()) * _DRAWN ** len(one.modules)
    frequency = _SELDOM if one.rare else _OFTEN if one.common else 1.0
    return float(share**-_RARE) * (1.0 if one.modules else _EVERYWHERE) * frequency * one.weight


def _declines(one: Situation) -> bool:
    return one.kind == "decline"


def _is_plain(one: Situation) -> bool:
    return one.kind != "decline" and not one.memory

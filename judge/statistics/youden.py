"""Youden's J of a judge: the share of right work that it accepts, less the share of wrong work.

    J = TPR - FPR        W. J. Youden, "Index for rating diagnostic tests" (1950)

A judge that pays everything has J = 0, as has one that pays nothing. The interval is R. G.
Newcombe's for the difference of two shares (1998, method 10), from the intervals of both.

Tries at one task or in one world resemble each other, so Korn and Graubard's effective number of
tries is used (see judge.statistics.intervals). Where no try or every try counted, that number is
not known. The interval of 0 in n is then no wider than that of 2 in n which are spread over two
units: seeing less of a fault never bounds it more loosely.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.statistics.intervals import LEVEL, share_interval

MANY_WORLDS = 20  # from then on the world is the unit, below the task
Tries = Mapping[Any, Sequence[float]]  # by unit (a task or a world): 1 where the judge accepted


class Youden(msgspec.Struct, frozen=True):
    """J with its two parts."""

    tpr: Interval[float]  # of right work
    fpr: Interval[float]  # of adversaries
    j: Interval[float]  # TPR - FPR
    unit: str  # what the interval counts as independent: "task" or "world"

    @property
    def may_be_blind(self) -> bool:
        """Whether it may accept as much wrong work as right work: the interval reaches 0."""
        return self.j.lower <= 0


class JudgeSoundness(NamedTuple):
    """J of a judge, as a file has it."""

    judge: str  # as in `hybrid:gpt-5`; `code` where the gate wrote the file
    youden: Youden


class _JudgedFile(msgspec.Struct, frozen=True):
    """What is read of the files that have J."""

    judge: str = "code"  # a study's; the gate measures code
    j: Youden | None = None  # of the gate: `rehearse worlds check --json`
    j_against: dict[str, Youden] = {}  # of a study, by who knows the truth: `people`, `code`


def read_youden(path: Path) -> JudgeSoundness:
    """J from a file of `rehearse judge study --json` (against people, else against code) or of
    `rehearse worlds check --json`. Raises SettingsError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_JudgedFile)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise SettingsError(f"{path}: J cannot be read: {exc}") from exc
    for one in (found.j_against.get("people"), found.j_against.get("code"), found.j):
        if one is not None:
            _check(path, one.j)
            return JudgeSoundness(found.judge, one)
    raise SettingsError(
        f"{path}: there is no J; `rehearse judge study --json FILE` and `rehearse worlds check "
        "--json FILE` write it, where there was right and wrong work"
    )


def _check(path: Path, j: Interval[float]) -> None:
    if not -1 <= j.lower <= j.value <= j.upper <= 1:
        raise SettingsError(
            f"{path}: J is {j.value:g} from {j.lower:g} to {j.upper:g}; expected an interval in -1 "
            "to 1"
        )


def youden(right: Tries, wrong: Tries, *, unit: str, level: float = LEVEL) -> Youden | None:
    """J of a judge; None where it saw no right or no wrong work.

    Example: 154 tasks of which all are accepted, with 10 wrong tries each, none of them accepted
    -> J = 1 from 0.993 to 1
    """
    tpr, fpr = bounded_share(right, level=level), bounded_share(wrong, level=level)
    if tpr is None or fpr is None:
        return None
    value = tpr.value - fpr.value
    below = math.hypot(tpr.value - tpr.lower, fpr.upper - fpr.value)
    above = math.hypot(tpr.upper - tpr.value, fpr.value - fpr.lower)
    bounds = Interval(value, max(-1.0, value - below), min(1.0, value + above))
    return Youden(tpr, fpr, bounds, unit)


def bounded_share(tries: Tries, *, level: float = LEVEL) -> Interval[float] | None:
    """The share of accepted tries; None: there are none."""
    found = share_interval(tries, level=level)
    if found is None or 0 < found.value < 1:
        return found
    total = sum(map(len, tries.values()))
    few = share_interval({n: [float(n < 2)] for n in range(total)}, level=level)
    if few is None or total < 3:
        return found
    if found.value == 0:
        return Interval(0.0, 0.0, min(found.upper, few.upper))
    return Interval(1.0, max(found.lower, 1 - few.upper), 1.0)

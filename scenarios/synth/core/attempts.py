"""One stage's answer, asked for until it holds: try it, say what is wrong, ask again.

The author sees its last answer and a summary of what is wrong with it. Of answers that do not hold,
the one with the fewest faults is kept.
"""

import re
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar
from zlib import crc32

import msgspec

from scenarios.synth.core.protocols import Author, Purpose, Turn

T = TypeVar("T")
TRIES = 5  # as in AWM: the first, and four corrections
_SHOWN_FAULTS = 12  # of one answer
_SHOWN_LENGTH = 8_000  # characters of one fault: a solver's whole transcript may be one
_SHOWN_ANSWER = 120_000  # characters of the author's own last answer
_NUMBER = re.compile(r"\d+")


class Attempt(msgspec.Struct, frozen=True):
    """One answer, and what was wrong with it."""

    faults: tuple[str, ...] = ()  # summarised; empty: it held
    num_faults: int = 0


class Checked(msgspec.Struct, Generic[T], frozen=True):
    """What became of an answer. `value` None: nothing could be made of it."""

    value: T | None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what is odd, but no fault
    bearable: bool = False  # the faults may stay, as notes, if one correction does not mend them


class Outcome(msgspec.Struct, Generic[T], frozen=True):
    """The best of all answers. `ok`: it has no fault."""

    value: T | None
    ok: bool
    attempts: tuple[Attempt, ...]
    notes: tuple[str, ...] = ()
    answer: str = ""  # the text of it


class Step(Protocol[T]):
    """What a stage asks, how it tries an answer, and what it says of one that does not hold."""

    @property
    def purpose(self) -> Purpose:
        """What its requests are for."""

    def opening(self) -> tuple[Turn, ...]:
        """The question."""

    async def check(self, text: str) -> Checked[T]:
        """Try an answer."""

    def again(self, problems: str) -> tuple[Turn, ...]:
        """What is said when it did not hold."""


async def tried(author: Author, step: Step[T], *, tries: int = TRIES, seed: int = 0) -> Outcome[T]:
    """Ask until an answer holds, `tries` times at most. Raises what the author raises."""
    best: tuple[Checked[T], str] | None = None
    bore = False  # the answer before had faults that may stay
    attempts: list[Attempt] = []
    turns = step.opening()
    for number in range(tries):
        drawn = seed_of(seed, step.purpose.stage, step.purpose.about, number)
        said = await author.say(turns, step.purpose, seed=drawn)
        checked: Checked[T] = (
            Checked(None, (said.fault,)) if said.fault else await step.check(said.text)
        )
        faults = summarised(checked.faults)
        attempts.append(Attempt(faults, len(checked.faults)))
        if best is None or _rank(checked) <= _rank(best[0]):
            best = checked, said.text
        if _holds(checked) or (bore and checked.bearable):
            break
        bore = checked.bearable
        mine = (Turn("assistant", said.text[:_SHOWN_ANSWER]),) if said.text.strip() else ()
        turns = (*step.opening(), *mine, *step.again(listed(faults)))
    assert best is not None
    kept, answer = best
    ok = _holds(kept) or kept.bearable
    notes = (*kept.notes, *kept.faults) if kept.bearable else kept.notes
    return Outcome(kept.value, ok, tuple(attempts), notes, answer)


def _holds(checked: Checked[T]) -> bool:
    return checked.value is not None and not checked.faults


def _rank(checked: Checked[T]) -> tuple[bool, bool, int]:
    """The less the better: something before nothing, what may stay before what may not, then fewer
    faults."""
    may_stay = _holds(checked) or checked.bearable
    return checked.value is None, not may_stay, len(checked.faults)


def summarised(faults: Sequence[str]) -> tuple[str, ...]:
    """Faults for a reader with little room: alike ones (but for their numbers) are told once.

    Example: ("row 1 is bad", "row 2 is bad", "no table") -> ("row 1 is bad (and 1 like it)", …)
    """
    groups: dict[str, list[str]] = {}
    for fault in faults:
        plain = " ".join(fault.split())
        groups.setdefault(_NUMBER.sub("#", plain)[:200], []).append(fault.strip())
    told = [
        _clipped(alike[0]) + (f" (and {len(alike) - 1} like it)" if len(alike) > 1 else "")
        for alike in groups.values()
    ]
    rest = len(told) - _SHOWN_FAULTS
    return (*told[:_SHOWN_FAULTS], *([f"and {rest} more"] if rest > 0 else []))


def listed(faults: Sequence[str]) -> str:
    """Faults as a list."""
    return "\n".join(f"- {fault}" for fault in faults)


def seed_of(seed: int, *about: object) -> int:
    """A request's own seed: equal for equal questions of one synthesis."""
    return crc32(" ".join(map(str, (seed, *about))).encode()) >> 1


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"

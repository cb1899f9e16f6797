"""Asking a model for one stage's answer until it is valid: check it, report its faults, ask again.

The author model sees its last answer and a summary of its faults. If no answer is valid, the one
with the fewest faults is returned. Nothing goes back that would be accepted as it is; an author who
repeats an answer with tolerable faults, to the byte, insists on it and is not asked again.
"""

import re
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar
from zlib import crc32

import msgspec

from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.synth.core.protocols import AuthorModel, PromptMessage, RequestPurpose

T = TypeVar("T")
TRIES = 5  # as in AWM: the first answer and four corrections
_SHOWN_FAULTS = 12  # of one answer
_SHOWN_LENGTH = 8_000  # characters of one fault: a solver's whole transcript may be one fault
_SHOWN_ANSWER = 120_000  # characters of the author's own last answer
_NUMBER = re.compile(r"\d+")


class AttemptSummary(msgspec.Struct, frozen=True):
    """The faults of one answer."""

    faults: tuple[str, ...] = ()  # summarized; empty: the answer was valid
    num_faults: int = 0


class CheckedAnswer(msgspec.Struct, Generic[T], frozen=True):
    """The result of checking an answer. `value` None: the answer cannot be used at all."""

    value: T | None
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # oddities that are not faults
    tolerable: bool = False  # whether the faults become notes if no correction fixes them


class StageOutcome(msgspec.Struct, Generic[T], frozen=True):
    """The best of all answers. `ok`: it is valid."""

    value: T | None
    ok: bool
    attempts: tuple[AttemptSummary, ...]
    notes: tuple[str, ...] = ()
    answer: str = ""  # the text of the best answer


class PromptedStage(Protocol[T]):
    """A stage of the synthesis: its prompt, the check of an answer, and its correction."""

    @property
    def purpose(self) -> RequestPurpose:
        """The purpose of the stage's requests."""

    def prompt(self) -> tuple[PromptMessage, ...]:
        """The messages of the first request."""

    async def check(self, text: str) -> CheckedAnswer[T]:
        """Check an answer."""

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        """The messages that report an answer's problems."""


async def ask_until_valid(
    author: AuthorModel, stage: PromptedStage[T], *, tries: int = TRIES, seed: int = 0
) -> StageOutcome[T]:
    """Ask until an answer is valid, at most `tries` times. Raises what the author raises."""
    best: tuple[CheckedAnswer[T], str] | None = None
    last = ""  # the text of the previous answer
    attempts: list[AttemptSummary] = []
    messages = stage.prompt()
    for number in range(tries):
        drawn = request_seed(seed, stage.purpose.stage, stage.purpose.about, number)
        answer = await author.answer(messages, stage.purpose, seed=drawn)
        checked: CheckedAnswer[T] = (
            CheckedAnswer(None, (answer.fault,)) if answer.fault else await stage.check(answer.text)
        )
        faults = summarize_faults(checked.faults)
        attempts.append(AttemptSummary(faults, len(checked.faults)))
        if best is None or _rank(checked) <= _rank(best[0]):
            best = checked, answer.text
        if _is_valid(checked) or (checked.tolerable and answer.text == last):
            break
        last = answer.text
        shown = answer.text[:_SHOWN_ANSWER]
        own = (PromptMessage("assistant", shown),) if answer.text.strip() else ()
        messages = (*stage.prompt(), *own, *stage.correction(bullet_list(faults)))
    assert best is not None
    result, text = best
    ok = _is_valid(result) or result.tolerable
    notes = (*result.notes, *result.faults) if result.tolerable else result.notes
    return StageOutcome(result.value, ok, tuple(attempts), notes, text)


def _is_valid(checked: CheckedAnswer[T]) -> bool:
    return checked.value is not None and not checked.faults


def _rank(checked: CheckedAnswer[T]) -> tuple[bool, bool, int]:
    """A sort key, the best answer first: usable answers, then tolerable ones, then fewer faults."""
    acceptable = _is_valid(checked) or checked.tolerable
    return checked.value is None, not acceptable, len(checked.faults)


def summarize_faults(faults: Sequence[str]) -> tuple[str, ...]:
    """A short form of the faults: faults that differ only in numbers appear once.

    Example: ("row 1 is bad", "row 2 is bad", "no table") -> ("row 1 is bad (and 1 like it)", …)
    """
    groups: dict[str, list[str]] = {}
    for fault in faults:
        plain = " ".join(fault.split())
        groups.setdefault(_NUMBER.sub("#", plain)[:200], []).append(fault.strip())
    summary = [
        shortened(alike[0], _SHOWN_LENGTH)
        + (f" (and {len(alike) - 1} like it)" if len(alike) > 1 else "")
        for alike in groups.values()
    ]
    rest = len(summary) - _SHOWN_FAULTS
    return (*summary[:_SHOWN_FAULTS], *([f"and {rest} more"] if rest > 0 else []))


def bullet_list(lines: Sequence[str]) -> str:
    """The lines as a list with dashes."""
    return "\n".join(f"- {line}" for line in lines)


def request_seed(seed: int, *about: object) -> int:
    """The seed of one request: equal for equal requests of one synthesis."""
    return crc32(" ".join(map(str, (seed, *about))).encode()) >> 1

"""Where an answer counts a record among the wrong ones: as done, or as left as it was. Records are
read by their codes and numbers; names, which stand in many roles, are not compared.

The accepted answer divides the things of a case: of some it says that something was done, of others
that they stay. Signs that an answer divides them otherwise:

- it names two things in one list of which the accepted answer says this of one, and nothing of the
  kind of the other ("R-1 and R-3 are moved" where R-3 was to be moved later anyway);
- it says of a thing that it stays, of which the accepted answer says that something was done.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from rehearsal_room.judge.code.actions import DECIDING, verb_rows
from rehearsal_room.judge.code.stated.sentences import (
    KNOWN,
    PRONOUN,
    Filler,
    Things,
    clauses,
    is_same,
    of_class,
    sentences,
    stems,
)

_EXCEPTION = re.compile(
    r"n't\b|\b(?:not|no|cannot|nothing|none|left|stay(?:s|ing)?|keeps?|remain(?:s|ing)?|still|except|but"
    r"|unchanged|refus\w*|reject\w*|declin\w*)\b"
)
_STAYS = r"['”\"]? (?:stays?|keeps?|remains?|(?:is|are) (?:unchanged|as (?:it|they) w\w+))\b"
_NOW = re.compile(r"\bnow\b")
_CAN_STILL = re.compile(r"\bcan still\b")


class _Part(NamedTuple):
    """A clause, with its lists of things."""

    text: str
    lists: tuple[frozenset[str], ...]
    values: tuple[Filler, ...]
    words: frozenset[str]  # how its longer words begin
    is_exception: bool


def misplaced(accepted: str, answer: str, things: Things) -> Iterator[str]:
    """Where an answer divides the things of the case otherwise, as phrases."""
    due = _parts(accepted, things)
    known = frozenset[str]().union(*(one for part in due for one in part.lists))
    for part in _parts(answer, things):
        if not part.is_exception:
            yield from _joined(part, due, known)
        for thing in sorted(of_class(frozenset[str]().union(*part.lists) & known, are_keys=True)):
            if _stays(part.text, thing, things) and all(_is_done(one, thing) for one in due):
                yield f"says that {thing} is as it was"


def _joined(part: _Part, due: Iterable[_Part], known: frozenset[str]) -> Iterator[str]:
    """Pairs of one list of which the accepted answer says the same of the first one only."""
    for every in part.lists:
        keys = of_class(every & known, are_keys=True)
        for first, second in permutations(sorted(keys), 2):
            of = [_of(one, due) for one in (first, second)]
            if any(one in of[1] for one in of[0]):
                continue
            mine, theirs = (sum(_common(part, one) for one in each) for each in of)
            if mine and (not theirs or (part.values and mine > theirs)):
                yield f"says of {second} too what the accepted answer says of {first}"


def _of(thing: str, due: Iterable[_Part]) -> list[_Part]:
    return [one for one in due if any(thing in every for every in one.lists)]


def _common(part: _Part, other: _Part) -> int:
    """How many words and values two clauses share; none where the second makes an exception."""
    if other.is_exception:
        return 0
    names = {
        word[:5] for one in (*part.lists, *other.lists) for name in one for word in name.split()
    }
    values = sum(any(is_same(one, two) for two in other.values) for one in part.values)
    return len((part.words & other.words) - names) + values


def _is_done(part: _Part, thing: str) -> bool:
    """Whether a clause does not speak of a thing, or says that something was done to it."""
    if not any(thing in every for every in part.lists):
        return True
    if thing not in part.lists[0]:
        return False
    is_deed = bool(_NOW.search(part.text) or verb_rows(part.text) & DECIDING)
    return is_deed and not part.is_exception


def _stays(text: str, thing: str, things: Things) -> bool:
    """Whether a clause says of a thing, or of a list that ends with it, that it stays."""
    if _CAN_STILL.search(text):
        return True
    return any(
        re.match(_STAYS, text[end:])
        and any(thing in every for every in (frozenset(things.named(text[:end])),))
        for _, end, _ in things.found(text)
    )


@lru_cache(maxsize=KNOWN)
def _parts(text: str, things: Things) -> tuple[_Part, ...]:
    """The clauses of a text; one that has a pronoun and no thing speaks of those before it."""
    found: list[_Part] = []
    before: tuple[frozenset[str], ...] = ()
    for sentence in sentences(text):
        for part in clauses(sentence):
            slots = things.frame(part).fillers
            lists = tuple(frozenset(one for one in slot if isinstance(one, str)) for slot in slots)
            lists = tuple(filter(None, lists)) or (before if PRONOUN.search(part) else ())
            before = lists or before
            values = tuple(one for slot in slots for one in slot if not isinstance(one, str))
            is_exception = _EXCEPTION.search(part) is not None
            found.append(_Part(part, lists, values, stems(part), is_exception))
    return tuple(found)

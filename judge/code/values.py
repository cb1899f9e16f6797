"""The values of a text that are of no part of the case."""

import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import chain, islice

from rehearsal_room.judge.code.actions import verb_rows
from rehearsal_room.judge.code.case import Bounds, Own, is_count
from rehearsal_room.judge.code.stated.sentences import kind_of
from rehearsal_room.scenarios.core.statements import Reading, are_alike, plain, readings, sizes_of

_MANY = 100  # counts from this on are amounts
# Of a record that is named beside these words an answer claims nothing: the rows show that it is as
# it was. What could be done instead claims nothing either.
_NEUTRAL = re.compile(
    r"\b(?:un(?:affected|changed|touched)|as (?:it|they) w\w+|stays?|remains?|left|leave|kept|keeps"
    r"|other|another|third|second|instead|could|would|there'd|option|choice|previous\w*"
    r"|earlier|old|before|already|expired|disabled)\b"
)
_UNTOUCHED = re.compile(
    r"\b(?:un(?:affected|changed|touched)|as (?:it|they) w\w+|stays?|remains?)\b"
)
_MOST_SPARE = 3
_APART = 3  # words between a value and an accepted one; nearer, they are a list of guesses
_MOST_FOREIGN = 8  # a heap explains nothing, and would take long
_SPAN = re.compile(
    r" ?(?:-?minutes?|mins?|hours?|days?|nights?|weeks?|months?|years?|more|short|late)\b"
)
_OF_MONEY = re.compile(r" ?(?:[$€£]|euros?\b|dollars?\b|pounds?\b|cents?\b|usd\b|eur\b|gbp\b)")
_SENTENCE = re.compile(r"[.!?:;]\s")
_ANY_YEAR = 2000  # of a date without one


def foreign_values(bounds: Bounds, text: str, own: Own = tuple) -> list[str]:
    """The first values of a text that are not of the case."""
    read = plain(text)
    every = readings(text)
    distinct = {(value.kind, value.options): value for value in reversed(every)}
    every_foreign = (
        value
        for value in sorted(distinct.values(), key=lambda one: one.start)
        if not value.is_loose
        and not (is_count(value) and (not bounds.counts or _is_at_most(value, bounds.num_things)))
        and bounds.exact.isdisjoint((value.kind, one) for one in value.options)
        and not any(are_alike(value, one) for one in _candidates(bounds, value))
        and not any(are_alike(value, one) for one in own())
    )
    foreign = list(islice(every_foreign, _MOST_FOREIGN + 1))
    if not foreign or len(foreign) > _MOST_FOREIGN:
        return [read[one.start : one.end] for one in foreign]
    known = [
        one
        for one in every
        if one not in foreign
        and not (is_count(one) and bounds.exact.isdisjoint((one.kind, v) for v in one.options))
    ]
    spare = [
        one
        for one in foreign
        if _is_neutral(read, one, bounds) or _is_derived(read, one, known, bounds)
    ]
    spare += [one for one in foreign if one not in spare and _explains(read, one, every, bounds)][
        :1
    ]
    if len(spare) <= _MOST_SPARE:
        foreign = [one for one in foreign if one not in spare]
    return [read[one.start : one.end] for one in foreign]


def _is_neutral(read: str, value: Reading, bounds: Bounds) -> bool:
    """Whether the oracle read a value too, and its sentence claims nothing of it: it says that a
    record is as it was. Of a list of candidates it would claim one of them."""
    if bounds.seen.isdisjoint((value.kind, one) for one in value.options):
        return False
    start = max((found.end() for found in _SENTENCE.finditer(read, 0, value.start)), default=0)
    end = _SENTENCE.search(read, value.end)
    sentence = read[start : end.start() if end else len(read)]
    if any(are_alike(one, said) for said in readings(sentence) for one in bounds.due):
        return False
    words = _UNTOUCHED if _is_question(bounds) else _NEUTRAL
    return words.search(sentence) is not None and not verb_rows(sentence)


def _is_question(bounds: Bounds) -> bool:
    """Whether the values of the answer are what was asked for."""
    return not bounds.writes and not bounds.must_refuse


def _explains(read: str, value: Reading, every: Sequence[Reading], bounds: Bounds) -> bool:
    """Whether a count, a date or a time stands beside all the accepted ones of its kind: it
    explains them, and replaces none. Of an amount or a code it cannot be seen."""
    counts = (
        _is_plain_count(value)
        and kind_of(value, read[value.start : value.end]) == "count"
        and not _OF_MONEY.match(read, value.end)
    )
    if _is_question(bounds) or not (counts or value.kind in ("date", "time")):
        return False
    due = [one for one in bounds.due if one.kind == value.kind]
    said = [one for one in every if any(are_alike(one, other) for other in due)]
    is_alone = all(_words_between(read, value, one) >= _APART for one in said)
    return bool(said) and is_alone and all(any(are_alike(a, b) for b in said) for a in due)


def _words_between(read: str, one: Reading, other: Reading) -> int:
    first, second = sorted((one, other), key=lambda value: value.start)
    return len(read[first.end : second.start].split())


def _is_plain_count(value: Reading) -> bool:
    return value.kind == "number" and all(
        isinstance(size, float | int) and size == int(size) and 0 <= size < _MANY
        for size in value.options
    )


def _is_derived(read: str, value: Reading, known: Sequence[Reading], bounds: Bounds) -> bool:
    """Whether a number is the sum or the difference of two values of the same text that are of the
    case: "18 days later" between two dates, or an amount."""
    if value.kind != "number":
        return False
    spans = set[float]()
    if _SPAN.match(read, value.end):
        dates = () if _is_question(bounds) else bounds.of_kind.get("date", ())
        spans = _days_between([*known, *dates]) | _minutes_between(known)
    if spans and not spans.isdisjoint(sizes_of(value)):
        return True
    if is_count(value) and not _SPAN.match(read, value.end):
        return False
    sizes = [size for one in known if one.kind == "number" for size in sizes_of(one)]
    return any(
        abs(size - abs(one + sign * other)) < 0.005
        for size in sizes_of(value)
        for at, one in enumerate(sizes)
        for other in sizes[at + 1 :]
        for sign in (1, -1)
    )


def _is_day(one: tuple[int, ...]) -> bool:
    return 1 <= one[1] <= 12 and 1 <= one[2] <= monthrange(one[0] or _ANY_YEAR, one[1])[1]


def _days_between(known: Iterable[Reading]) -> set[float]:
    days = {
        date(one[0] or _ANY_YEAR, one[1], one[2]).toordinal()
        for value in known
        if value.kind == "date"
        for one in value.options
        if isinstance(one, tuple) and one[1] and _is_day(one)
    }
    between = {float(abs(one - other)) for one in days for other in days}
    return between | {days / 7 for days in between}


def _minutes_between(known: Iterable[Reading]) -> set[float]:
    times = {
        60 * one[0] + one[1]
        for value in known
        if value.kind == "time"
        for one in value.options
        if isinstance(one, tuple)
    }
    between = {float(abs(one - other)) for one in times for other in times}
    return between | {minutes / 60 for minutes in between}


def _candidates(bounds: Bounds, value: Reading) -> Iterable[Reading]:
    """The allowed values that a value can be alike without being written in the same way."""
    if value.kind == "number":
        return chain(
            bounds.of_kind.get("time", ()),
            bounds.of_kind.get("phone", ()),
            () if bounds.sizes.isdisjoint(sizes_of(value)) else bounds.of_kind.get("number", ()),
        )
    if value.kind in ("time", "phone"):
        return chain(bounds.of_kind.get(value.kind, ()), bounds.of_kind.get("number", ()))
    return bounds.of_kind.get(value.kind, ())


def _is_at_most(value: Reading, most: int) -> bool:
    return all(isinstance(one, float | int) and one <= most for one in value.options)

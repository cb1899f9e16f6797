"""Counting the purposes of a task from its oracle: the requests that do not depend on each other.

Two calls belong together when one has an argument that the other's result gave or that the other
wrote. A look-up of what the instruction itself names joins the largest part that uses it, and ties
no two parts together: otherwise a list of wishes of one customer would be one purpose.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from rehearsal_room.scenarios.checks import says
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.generate.core.world_host import HostedOutcome

_DIGIT = re.compile(r"\d")


class Purposes(msgspec.Struct, frozen=True):
    """The independent requests of a task."""

    count: int
    share: float  # of the calls that belong to the largest of them


def purposes_of(
    instruction: str, calls: Sequence[Call], outcomes: Sequence[HostedOutcome]
) -> Purposes:
    """The purposes of an oracle. The outcomes are those of its calls, in order."""
    values = [_values(call.arguments) for call in calls]
    results = [_values(_decoded(outcome)) for outcome in outcomes]
    is_lookup = [
        not outcome.wrote and all(_is_named(value, instruction) for value in own)
        for own, outcome in zip(values, outcomes, strict=True)
    ]
    part = list(range(len(calls)))  # the part of each call, by its first call
    users: list[list[int]] = [[] for _ in calls]
    for index in range(len(calls)):
        for giver in _givers(index, values, results, outcomes):
            if is_lookup[giver]:
                users[giver].append(index)
            else:
                _join(part, giver, index)
    for index in range(len(calls)):
        if not is_lookup[index] and not outcomes[index].wrote and part.count(part[index]) == 1:
            _join_alike(part, values, is_lookup, index)
    sizes = Counter(one for one, lookup in zip(part, is_lookup, strict=True) if not lookup)
    if not sizes:  # look-ups only: one question
        return Purposes(1, 1.0)
    for index in (index for index, lookup in enumerate(is_lookup) if lookup):
        used = [part[user] for user in users[index] if not is_lookup[user]] or list(sizes)
        sizes[max(used, key=lambda one: sizes[one])] += 1
    return Purposes(len(sizes), max(sizes.values()) / len(calls))


def _decoded(outcome: HostedOutcome) -> Any:
    try:
        return msgspec.json.decode(outcome.text)
    except UNREADABLE:
        return outcome.text


def _values(value: Any) -> set[str]:
    """The values in arguments or a result that can name something, as texts."""
    return {str(one) for one in _leaves(value) if len(str(one)) > 1}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, int | str) and not isinstance(value, bool):
        yield value


def _mentions(text: str) -> set[str]:
    """What a text that the agent words itself may have from a result: its references and numbers,
    names of two words, and the text as a whole."""
    words = [word.strip(".,;:!?()“”\"'") for word in text.split()]
    pairs = {f"{one} {other}" for one, other in pairwise(words)}
    return {text, *pairs, *(word for word in words if len(word) > 3 and _DIGIT.search(word))}


def _is_named(value: str, instruction: str) -> bool:
    return says(instruction, value)


def _givers(
    index: int,
    values: Sequence[set[str]],
    results: Sequence[set[str]],
    outcomes: Sequence[HostedOutcome],
) -> Iterator[int]:
    """The first earlier call that gave each argument; a text gives what it mentions of a result."""
    for value in sorted(values[index]):
        mentions = _mentions(value) if " " in value else {value}
        for earlier in range(index):
            if mentions & results[earlier]:
                yield earlier
                break


def _join(part: list[int], one: int, other: int) -> None:
    old, new = part[other], part[one]
    for index, found in enumerate(part):
        if found == old:
            part[index] = new


def _join_alike(
    part: list[int], values: Sequence[set[str]], is_lookup: Sequence[bool], index: int
) -> None:
    """Join a reading of which no result is used to a later call that is about the same record: it
    was read to decide on it."""
    for later in range(index + 1, len(part)):
        if not is_lookup[later] and values[index] & values[later]:
            _join(part, later, index)
            return

"""What is left of a task's solution after some of its calls were made, in whatever order.

An agent that takes an episode over need not stand where the solution stands after as many calls:
one was left out, a look-up came in between, another call was refused.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rehearsal_room.scenarios.format import Call


class Made(NamedTuple):
    """A call that was made before."""

    name: str
    arguments: Any
    is_error: bool = False


def calls_left(
    solution: Sequence[Call],
    made: Sequence[Made],
    writes: Sequence[bool] | None = None,
    *,
    tried_counts: bool = False,
) -> list[int]:
    """The calls of the solution that are still to be made, by their index.

    `writes` says of each whether it changes rows (None: that is not known). A look-up of the
    solution that comes before a call which was made is not made up for: what it shows was not
    needed. A write that was refused is still to be made; with `tried_counts` it is not, and neither
    is one in whose place the same tool was called with other values.

    Example: get(7), ship(7), note(7), of which the last two write, after ship(7) -> [2]; after
    ship(9) -> [0, 1, 2], or with `tried_counts` [2]
    """
    left = list(range(len(solution)))
    done: list[int] = []
    others: list[Made] = []
    for one in made:
        index = next((i for i in left if _is_same(one, solution[i])), None)
        if index is None or (one.is_error and writes is not None and writes[index]):
            others.append(one)
            continue
        left.remove(index)
        done.append(index)
    for one in others if tried_counts else ():
        alike = [i for i in left if solution[i].name == one.name]
        if alike:
            index = min(alike, key=lambda i: _num_differing(one.arguments, solution[i].arguments))
            left.remove(index)
            done.append(index)
    if writes is None:
        return left
    last = max(done, default=-1)
    return [i for i in left if writes[i] or i > last]


def is_free_text(value: Any) -> bool:
    """Whether a value is a text of several words, which can be worded otherwise."""
    return isinstance(value, str) and len(value.split(None, 2)) > 2


def _is_same(made: Made, call: Call) -> bool:
    return made.name == call.name and _are_alike(made.arguments, call.arguments)


def _are_alike(one: Any, other: Any) -> bool:
    """Whether two values are equal but for free text."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_are_alike, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other) or (is_free_text(one) and is_free_text(other))


def _num_differing(one: Any, other: dict[str, Any]) -> int:
    return len(differing_arguments(one if isinstance(one, dict) else {}, other))


def differing_arguments(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The names of the arguments in which two calls of one tool differ, but for free text."""
    return [
        name
        for name in dict.fromkeys((*other, *one))
        if name not in one or name not in other or not _are_alike(one[name], other[name])
    ]

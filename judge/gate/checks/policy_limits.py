"""The gate's check that a policy states the limits that the tools enforce.

Tools have their limits in constants named with their unit, as `MOST_ABSENT_DAYS = 10`; the policy
says "10 days at most". Where the policy does not contain a constant's number, but contains a number
of that unit which nothing else in the world has, the two contradict each other.

Covers integers before their unit. Rules that only the policy has are not checked; limits inside
expressions, or in another unit, are not found.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from rehearsal_room.judge.playback.nondeterminism import nodes_of, parsed
from rehearsal_room.judge.playback.tool_fuzzing import singular

_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_NUMBER = re.compile(r"(?<![\w.,:-])(\d{1,9})(?![\w:]|[.,-]\d) ?(%|[a-z]+(?: [a-z]+)?|)")


def contradictions(policy: str, code: str) -> Iterator[str]:
    """A sentence for each limit of the code that the policy contradicts."""
    tree = parsed(code)
    limits = dict(_limits(tree))
    numbers = Counter(
        node.value
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and type(node.value) is int
    )
    stated = list(_stated(policy))
    units = {"%", "day", "hour", *map(_unit, limits)}
    for name, limit in limits.items():
        unit = _unit(name)
        strange = [number for number, words in stated if unit in words and not numbers[number]]
        equal = sum(_unit(other) == unit and value == limit for other, value in limits.items())
        format_call = [  # "at least 5 and at most 60 days": the 5 has no unit beside it
            number
            for number, words in stated
            if number == limit and (unit in words or not words & units)
        ]
        if len(format_call) < equal and strange:
            yield (
                f"the policy does not state that {name} is {limit}, but says "
                f"{' and '.join(map(str, strange))}, which is not a limit of any tool"
            )


def _limits(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The integer constants of a module, with their names."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            value = node.value.value
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if type(value) is int:
                yield from ((name, value) for name in names if _CONSTANT.fullmatch(name))


def _unit(name: str) -> str:
    """Example: "MOST_ABSENT_DAYS" -> "day" """
    last = name.rpartition("_")[2].casefold()
    return "%" if last == "percent" else singular(last)


def _stated(policy: str) -> Iterator[tuple[int, set[str]]]:
    """Each number of a policy with the words after it, one of which may be its unit."""
    for number, words in _NUMBER.findall(policy):
        yield int(number), {singular(word) for word in words.split()}

"""The criteria of a task: parts of what it asks for, each with a weight in the episode's share.

    [[task.criterion]]
    name = "refund made"
    check = "refund_made"       # a function of verify.py: true or false, 0 to 1, or findings
    weight = 3.0

    [[task.criterion]]
    name = "says what follows"
    ask = "the answer tells the customer when the money arrives"    # a model judges it

The share of an episode is the mean of its criteria's shares by their weights. It is completed from
the task's `criteria_threshold` on, if no guard failed.
"""

import ast
import math
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

import msgspec


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part of what a task asks for. A function says how much of it is met, or a model that is
    shown the evidence does."""

    name: str
    check: str = ""  # a function of verify.py; empty: a model is asked
    ask: str = ""  # when it is met, in words for the model; empty: the function says it
    weight: float = 1.0


def criteria_faults(
    criteria: Sequence[Criterion], threshold: float, verify: str
) -> Iterator[tuple[int | None, str]]:
    """What is wrong with a task's criteria: the number of the criterion from 0 (None: it is about
    the task), and a sentence. `verify` is the text of verify.py, which is valid Python."""
    if not criteria:
        if threshold != 1.0:
            yield None, "criteria_threshold: the task has no criterion"
        return
    if not 0 < threshold <= 1:
        yield None, f"criteria_threshold: must be above 0 and at most 1, found {threshold:g}"
    functions = _names_in(verify)
    names = [one.name for one in criteria]
    for number, one in enumerate(criteria):
        if not one.name.strip():
            yield number, "name: must not be empty"
        elif one.name in names[:number]:
            yield number, f"name: {one.name!r} occurs twice"
        if not (math.isfinite(one.weight) and one.weight > 0):
            yield number, f"weight: must be above 0, found {one.weight:g}"
        if bool(one.check) == bool(one.ask.strip()):
            found = "both" if one.check else "neither"
            yield number, f"expected either `check`, a function, or `ask`, a text; found {found}"
        elif one.check and one.check not in functions:
            alike = get_close_matches(one.check, sorted(functions), n=1)
            hint = f"; did you mean {alike[0]!r}?" if alike else ""
            yield number, f"check: verify.py has no function {one.check!r}{hint}"


def _names_in(text: str) -> set[str]:
    """The names that the statements of a module bind, wherever they stand, and what it imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found

"""The calls of an episode against those of the solution: which belong together, which were read
before they were written, and which were too many."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolResult, ToolSpec
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.policies.mutations import is_id
from rehearsal_room.harness.policies.solution_left import is_free_text
from rehearsal_room.judge.failures.reference import Reference
from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.format import Call

_LOOPS = 3  # refusals of one call in the same words
_SPARE_CALLS = 4  # beyond twice the solution's
_ENOUGH = 0.5  # share of a record's fields that an agent must have read to know it
_SMALL = 100  # smaller numbers do not name a record
_WORDS = re.compile(r"[^\W_][\w.@:/#-]+[^\W_]")
_Fact = tuple[str, Any]  # a field's name and value


class MadeCall(msgspec.Struct, frozen=True):
    """One call that the agent made."""

    turn: int  # from 0
    name: str
    arguments: Any
    result: ToolResult

    @property
    def text(self) -> str:
        """Example: cancel_order(order_id=4105)"""
        return call_text(self.name, self.arguments)


def made_calls(trajectory: Trajectory) -> list[MadeCall]:
    """The calls of an episode that have results, in order; a user's own calls are not the
    agent's."""
    return [
        MadeCall(turn, call.name, call.arguments, result)
        for turn, step in enumerate(trajectory.steps)
        if step.user is None
        for call, result in zip(step.executed_calls, step.executed_results, strict=False)
    ]


def call_text(name: str, arguments: Any) -> str:
    """A call in one line; long values are cut."""
    if not isinstance(arguments, dict):
        return f"{name}(…)"
    texts = (f"{key}={shortened(repr(value), 60)}" for key, value in arguments.items())
    return f"{name}({', '.join(texts)})"


class ValueDifference(msgspec.Struct, frozen=True):
    """One value of a call that differs from the solution's."""

    path: str  # of the argument, as in `lines.0.sku`
    found: Any
    expected: Any
    names_record: bool


def differences(
    made: Any, solution: dict[str, Any], enumerated: Iterable[str] = ()
) -> list[ValueDifference]:
    """The values in which two calls of one tool differ, but for free text. `enumerated` are
    arguments whose values are a list of words."""
    known = frozenset(enumerated)
    one = dict(_leaves(made)) if isinstance(made, dict) else {}
    other = dict(_leaves(solution))
    return [
        ValueDifference(path, one.get(path), other.get(path), _names_record(path, known))
        for path in dict.fromkeys((*other, *one))
        if one.get(path) != other.get(path)
        and not (is_free_text(one.get(path)) or is_free_text(other.get(path)))
    ]


def _names_record(path: str, enumerated: frozenset[str]) -> bool:
    names = [name for name in path.split(".") if not name.isdigit()]
    return bool(names) and names[0] not in enumerated and is_id(names[-1])


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        if path:
            yield path, value
        return
    for name, inner in items:
        yield from _leaves(inner, f"{path}.{name}" if path else str(name))


def unread(made: Sequence[MadeCall], write: MadeCall, index: int, reference: Reference) -> str:
    """The first look-up of the solution that this write depends on and that the agent had not made
    before, as a call in one line; empty: there is none.

    `index` is the solution's write that the agent's belongs to. The solution's look-ups before it
    count that show one of its arguments, ask for one, or have no argument (limits, settings). The
    agent may know the same by other calls that are about the record: half of its fields are enough.
    """
    values = _record_values(reference.calls[index].arguments)
    earlier = made[: next(at for at, one in enumerate(made) if one is write)]
    read: _Read | None = None
    for call, result in zip(reference.calls[:index], reference.results[:index], strict=True):
        if result.changes or result.error:
            continue
        if any(one.name == call.name and one.arguments == call.arguments for one in earlier):
            continue
        shown = _facts(result.text)
        subjects = _record_values(call.arguments)
        if subjects and not values & (subjects | {value for _, value in shown}):
            continue
        if read is None:
            read = _Read(earlier)
        needed = _facts(result.text, values) or shown
        if not (read.is_about(values & {value for _, value in shown}) and read.has_enough(needed)):
            return call_text(call.name, call.arguments)
    return ""


class _Read:
    """What an agent has read, by field. A value by which a record is known counts under any name:
    `id` in one result is `order_id` in another."""

    def __init__(self, calls: Sequence[MadeCall]) -> None:
        self._facts = {fact for one in calls for fact in _facts(one.result.text)}
        self._values = {value for _, value in self._facts if _is_record_value(value)}
        asked = (_record_values(one.arguments) for one in calls if not one.result.error)
        self._subjects = self._values.union(*asked)

    def is_about(self, records: frozenset[Any]) -> bool:
        """Whether one of these records was read or asked for: another one's fields may be alike."""
        return not records or not records.isdisjoint(self._subjects)

    def has_enough(self, needed: set[_Fact]) -> bool:
        """Whether half of these fields were read; none cannot be."""
        known = sum(fact in self._facts or fact[1] in self._values for fact in needed)
        return bool(needed) and known >= _ENOUGH * len(needed)


def _record_values(arguments: Any) -> frozenset[Any]:
    """The values of arguments by which records are known."""
    return frozenset(value for _, value in _leaves(arguments) if _is_record_value(value))


def _is_record_value(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > 2 and not is_free_text(value)
    return isinstance(value, int) and not isinstance(value, bool) and value >= _SMALL


def _facts(text: str, about: frozenset[Any] | None = None) -> set[_Fact]:
    """The fields of a result, each with its last name and value. `about`: of the objects only that
    have one of these values themselves, since a list of records shows others, too. A text that is
    not JSON has its words."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = None
    if not isinstance(decoded, dict | list):
        return {("", word) for word in _WORDS.findall(text)} if about is None else set()
    if about is not None:
        decoded = [one for one in _objects(decoded) if not about.isdisjoint(_scalars(one))]
    return {(path.rpartition(".")[2], value) for path, value in _leaves(decoded)}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The objects in a JSON value, at any depth."""
    if isinstance(value, dict):
        yield value
    elif not isinstance(value, list):
        return
    for inner in value.values() if isinstance(value, dict) else value:
        yield from _objects(inner)


def _scalars(one: dict[str, Any]) -> Iterator[Any]:
    return (value for value in one.values() if not isinstance(value, dict | list))


def overuse(made: Sequence[MadeCall], solution: Sequence[Call]) -> tuple[int, str] | None:
    """The turn from which calls were too many, and why; None: they were not. `solution`: its calls;
    empty: it is not known.

    A call that was refused three times in the same words is a loop. Beyond that an agent may make
    twice the solution's calls and four.
    """
    refused = Counter[bytes]()
    for call in made:
        if call.result.error:
            key = msgspec.json.encode([call.name, repr(call.arguments), call.result.text])
            refused[key] += 1
            if refused[key] == _LOOPS:
                return call.turn, f"{call.text} failed {_LOOPS} times in the same words"
    if not solution:
        return None
    most = 2 * len(solution) + _SPARE_CALLS
    if len(made) <= most:
        return None
    why = f"{len(made)} calls, where the solution has {len(solution)}"
    return made[most].turn, why


def has_no_habits(trajectory: Trajectory, solution: Sequence[Call]) -> bool:
    """Whether `overuse` finds nothing, since no call was refused and there are few."""
    results = [one for step in trajectory.steps for one in step.results]
    most = 2 * len(solution) + _SPARE_CALLS if solution else len(results)
    return len(results) <= most and not any(one.error for one in results)


def enumerated_arguments(tools: Iterable[ToolSpec]) -> frozenset[tuple[str, str]]:
    """The arguments whose schema lists the words that they may have, each with its tool."""
    return frozenset(
        (tool.name, name)
        for tool in tools
        for name, schema in tool.schema.get("properties", {}).items()
        if b'"enum"' in msgspec.json.encode(schema)
    )

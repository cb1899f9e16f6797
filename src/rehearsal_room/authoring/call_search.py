"""Searching for a call of a tool that succeeds in one state, guided by the tool's refusals.

A tool checks one condition after the other, so a refusal that few draws reach is an advanced one.
The search keeps one call for each refusal that it has seen, and changes single arguments of those
with rare refusals: to other plausible values, to days near the world's time, and to what the
refusal names ("The deposit is 6000 cents."). It is seeded.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from random import Random
from typing import Any

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.policies.random_calls import random_arguments
from rehearsal_room.scenarios.format import Call

_DAYS = (0, 1, 2, 3, 5, 7, 14, 30, -1, -7)  # from the world's time
_NUMBER = re.compile(r"(?<![\w.-])-?\d{1,15}(?![\w-]|\.\d)")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:T[\d:]+Z)?")
_QUOTED = re.compile(r"'([^'\n]{1,60})'|\"([^\"\n]{1,60})\"")
_MUTATED = 0.7  # share of the calls that change one argument of an earlier one
_HINTED = 0.4  # share of those that take a value from the hints


class CallSearch:
    """Draws calls of one tool and learns from their refusals.

    `pools` are plausible values by column name (see judge.playback.tool_fuzzing.values_of); each
    draw takes one of them. `now` is the world's time.
    """

    def __init__(
        self, tool: ToolSpec, pools: Sequence[Mapping[str, Sequence[Any]]], *, now: str, rng: Random
    ) -> None:
        self._tool = tool
        self._pools = pools
        self._rng = rng
        self._days = _days_near(now)
        self._seen: Counter[str] = Counter()  # refusals, without what differs between calls
        self.refusals: dict[str, tuple[Call, str]] = {}  # the last call of each, and its refusal

    def draw(self) -> Call:
        """The next call to try; it fits the tool's schema as far as refusals do."""
        fresh = self._fresh()
        if not self._seen or not fresh.arguments or self._rng.random() > _MUTATED:
            return fresh
        base, refusal = self._base()
        name = self._rng.choice(list(self._properties))
        arguments = {**base.arguments}
        arguments.pop(name, None)
        value = self._value(name, fresh, _named_values(base, refusal))
        return Call(base.name, arguments if value is _ABSENT else {**arguments, name: value})

    def learn(self, call: Call, refusal: str) -> None:
        """Take note of a refused call."""
        plain = plain_refusal(refusal)
        self._seen[plain] += 1
        self.refusals[plain] = (call, refusal)

    @property
    def _properties(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._tool.schema.get("properties", {})
        return found

    def _fresh(self) -> Call:
        pool = self._rng.choice(self._pools)
        return Call(self._tool.name, random_arguments(self._tool.schema, self._rng, pool))

    def _base(self) -> tuple[Call, str]:
        plain = list(self._seen)
        weights = [1 / self._seen[refusal] for refusal in plain]
        return self.refusals[self._rng.choices(plain, weights)[0]]

    def _value(self, name: str, fresh: Call, named: list[Any]) -> Any:
        schema = self._properties[name]
        kinds = _kinds(schema)
        hints = [value for value in named if _kind_of(value) in kinds]
        if "string" in kinds and not _is_closed(schema):
            hints += self._days
        if hints and self._rng.random() < _HINTED:
            return self._rng.choice(hints)
        return fresh.arguments.get(name, _ABSENT)


_ABSENT = object()  # in place of a value: the argument is left out


def plain_refusal(refusal: str) -> str:
    """A refusal without what differs between calls.

    Example: "Order 7 is 'open'." -> "Order # is #."
    """
    return re.sub(r"\d+", "#", _QUOTED.sub("#", refusal))[:200]


def _named_values(call: Call, refusal: str) -> list[Any]:
    """The numbers, days and quoted texts in a refusal that are not the call's own arguments.

    Example: "The deposit of unit 7 is 6000 cents." of lend({"unit_id": 7, "paid": 1}) -> [6000]
    """
    found: list[Any] = [int(text) for text in _NUMBER.findall(refusal)]
    found += _DAY.findall(refusal)
    found += [quoted[1] or quoted[2] for quoted in _QUOTED.finditer(refusal)]
    given = list(call.arguments.values())
    return [value for value in found if value not in given]


def _days_near(now: str) -> list[str]:
    today = date.fromisoformat(now[:10])
    return [(today + timedelta(days=count)).isoformat() for count in _DAYS]


def _kinds(schema: Any) -> set[str]:
    """The JSON types of a property, those of its alternatives included; numbers as integers."""
    branches = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return {"integer" if b.get("type") == "number" else b.get("type", "") for b in branches}


def _kind_of(value: Any) -> str:
    return "integer" if isinstance(value, int) else "string"


def _is_closed(schema: Any) -> bool:
    branches = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return any("enum" in branch for branch in branches)

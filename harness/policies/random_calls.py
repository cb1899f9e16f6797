"""Calls drawn at random from the tools' schemas: they fit the schema and rarely make sense."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import FIXED_SUMMARY
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Call

ValuePool = Mapping[str, Sequence[Any]]  # plausible values by field name
_TEXTS = (
    *("alpha", "Blue lamp", "late", "A-1", "EUR", "ann@example.com", "2026-03-14", "10:30"),
    *("2026-03-14T09:30:00Z", "1042", "ORD-1042", "+441234567890", "https://example.com", "AB12"),
)


def random_arguments(schema: Mapping[str, Any], rng: Random, pool: ValuePool | None = None) -> Any:
    """Arguments that fit an object's JSON schema, drawn with `rng`.

    `pool` has plausible values by field name. With `{"order_id": [7], "id": [7, 9]}`, `order_id`
    gets 7, and every other `…_id` gets the values of `id`.

    Covers enum, const, types and lists of types, bounds, lengths, anyOf, oneOf, arrays, objects,
    `$ref` into `$defs`, and patterns without groups. Does not cover allOf, not, if.
    """
    return ArgumentDrawer(rng, pool or {}).draw(schema)


class ArgumentDrawer:
    """Draws arguments for several calls with one pool; neither it nor the schemas may change."""

    def __init__(self, rng: Random, pool: ValuePool) -> None:
        self._rng = rng
        self._pool = pool
        self._root: Mapping[str, Any] = {}
        # By schema (its identity, and the schema itself, which keeps it alive) and field name.
        self._fitting: dict[tuple[int, str], tuple[Any, list[Any]]] = {}

    def draw(self, schema: Mapping[str, Any]) -> Any:
        """Arguments that fit an object's JSON schema (see `random_arguments`)."""
        self._root = schema
        return self._value(schema, "", 0)

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        rng = self._rng
        schema = self._resolved(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return rng.choice(schema["enum"])
        if branches := schema.get("anyOf") or schema.get("oneOf"):
            outer = schema.get("type")  # AWM's tool listings have a type beside the branches
            matching = [branch for branch in branches if outer and branch.get("type") == outer]
            return self._value(self._branch(matching or branches, depth), name, depth)
        kind = schema.get("type") or ("object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = "null" if depth > 4 and "null" in kind else rng.choice(kind)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, name, depth)
        return self._scalar(kind, schema, name)

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        if type(schema) is dict and "$ref" not in schema:
            return schema
        for _ in range(8):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            found: Any = self._root
            for part in str(schema["$ref"]).lstrip("#/").split("/"):
                found = found.get(part, {}) if isinstance(found, Mapping) else {}
            schema = found
        return schema if isinstance(schema, Mapping) else {}

    def _branch(self, branches: Sequence[Any], depth: int) -> Any:
        if depth > 4:
            for branch in branches:
                if isinstance(branch, Mapping) and branch.get("type") == "null":
                    return branch
        return self._rng.choice(branches)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        drawn = {}
        for name, inner in schema.get("properties", {}).items():
            if name in required or (depth <= 4 and self._rng.random() < 0.5):
                drawn[name] = self._value(inner, name, depth + 1)
        return drawn

    def _array(self, schema: Mapping[str, Any], name: str, depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", max(least, 3)))
        count = least if depth > 4 else self._rng.randint(least, max(least, min(most, least + 3)))
        one = name.removesuffix("s")  # order_ids: a list of order_id
        return [self._value(schema.get("items", {}), one, depth + 1) for _ in range(count)]

    def _scalar(self, kind: str, schema: Mapping[str, Any], name: str) -> Any:
        rng = self._rng
        plausible = self._fitting_values(kind, schema, name)
        if plausible and rng.random() < 0.8:
            return rng.choice(plausible)
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "null":
            return None
        if kind == "integer":
            step = int(schema.get("multipleOf", 1))
            low, high = _bounds(schema, 1)
            first, last = -(-int(low) // step), int(high) // step
            return step * rng.randint(first, max(first, last))
        if kind == "number":
            low, high = _bounds(schema, 0.01)
            return min(high, max(low, round(rng.uniform(low, high), 2)))
        return self._text(schema)

    def _fitting_values(self, kind: str, schema: Mapping[str, Any], name: str) -> list[Any]:
        key = (id(schema), f"{kind} {name}")
        if key not in self._fitting:
            found = [value for value in self._plausible(name) if _fits(value, kind, schema)]
            self._fitting[key] = schema, found
        return self._fitting[key][1]

    def _fitting_texts(self, schema: Mapping[str, Any]) -> list[str]:
        key = (id(schema), "")
        if key not in self._fitting:
            found = [text for text in _TEXTS if _fits(text, "string", schema)]
            self._fitting[key] = schema, found
        return self._fitting[key][1]

    def _plausible(self, name: str) -> Sequence[Any]:
        parts = name.split("_")
        for begin in range(len(parts)):
            if values := self._pool.get("_".join(parts[begin:])):
                return values
        return ()

    def _text(self, schema: Mapping[str, Any]) -> str:
        rng = self._rng
        texts = self._fitting_texts(schema)
        if schema.get("format") in ("date", "date-time"):
            day = f"20{rng.randint(20, 29)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            return day if schema["format"] == "date" else f"{day}T09:30:00Z"
        if texts:
            return rng.choice(texts)
        if "pattern" in schema:
            return _of_pattern(schema["pattern"], rng)
        least = int(schema.get("minLength", 0))
        most = int(schema.get("maxLength", max(least, 12)))
        return "".join(rng.choice("abcdefgh") for _ in range(rng.randint(least, max(least, most))))


_ATOM = re.compile(r"(\[[^\]]+\]|\\.|[^\\\[\](){}|*+?^$])(\{\d+(?:,\d*)?\}|[*+?])?")
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@+ #"


def _of_pattern(pattern: str, rng: Random) -> str:
    """A text that matches a pattern of characters and classes with counts (no groups).

    Example: _of_pattern("^[A-Z]{2}-\\d{4}$", rng) -> "QF-2071"
    """
    drawn = ""
    for atom, count in _ATOM.findall(pattern.removeprefix("^").removesuffix("$")):
        matching = _matching(atom)
        least, most = _COUNTS.get(count) or _numbers(count)
        drawn += "".join(rng.choice(matching) for _ in range(rng.randint(least, most)))
    return drawn


@lru_cache(256)
def _matching(atom: str) -> str:
    """The characters that a part of a pattern matches."""
    return "".join(char for char in _CHARACTERS if re.fullmatch(atom, char)) or atom[-1]


_COUNTS = {"": (1, 1), "?": (0, 1), "*": (0, 3), "+": (1, 3)}


def _numbers(count: str) -> tuple[int, int]:
    """The bounds of `{2}`, `{2,}` or `{2,4}`."""
    least, comma, most = count[1:-1].partition(",")
    return int(least), int(most or int(least) + 3) if comma else int(least)


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    """The least and the greatest value; a missing bound is 100 away from the other one."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    if "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - step
    if low is None:
        low = 0 if high is None or high >= 0 else high - 100
    return low, low + 100 if high is None else high


def _fits(value: Any, kind: str, schema: Mapping[str, Any]) -> bool:
    if kind == "string":
        if not isinstance(value, str):
            return False
        longest = schema.get("maxLength", len(value))
        if not schema.get("minLength", 0) <= len(value) <= longest:
            return False
        return "pattern" not in schema or _matches(schema["pattern"], value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return kind == "boolean" and isinstance(value, bool)
    if kind == "integer" and not isinstance(value, int):
        return False
    if kind not in ("integer", "number"):
        return False
    low, high = _bounds(schema, 1 if kind == "integer" else 0.01)
    open_above = "maximum" not in schema and "exclusiveMaximum" not in schema
    open_below = "minimum" not in schema and "exclusiveMinimum" not in schema
    above = value >= low or open_below
    return above and (value <= high or open_above) and value % schema.get("multipleOf", 1) == 0


@lru_cache(8_192)
def _matches(pattern: str, value: str) -> bool:
    return re.search(pattern, value) is not None


_FIELD = re.compile(r'"(\w{1,40})": ?("(?:[^"\\]|\\.){1,40}"|-?\d{1,15}(?![\d.eE]))')


def collect_values(text: str, pool: dict[str, list[Any]], *, per_name: int = 50) -> None:
    """Add the fields of a result's JSON to `pool`, at most `per_name` values per field name.

    Example: with an empty pool, collect_values('{"id": 7, "status": "open"}', pool) makes it
        {"id": [7], "status": ["open"]}
    """
    for name, raw in _FIELD.findall(text[:50_000]):
        values = pool.setdefault(name, [])
        if len(values) < per_name:
            try:
                value = msgspec.json.decode(raw)
            except UNREADABLE:
                continue
            if value not in values:
                values.append(value)


class RandomPolicy:
    """Makes 1 to `num_calls` random calls, with ids from earlier results, and then answers."""

    name = "random"

    def __init__(self, dialect: Dialect, *, num_calls: int = 8) -> None:
        if num_calls < 1:
            raise ValueError(f"num_calls must be at least 1, not {num_calls}")
        self._dialect = dialect
        self._num_calls = num_calls

    def agent(self, assignment: Assignment) -> Agent:
        """An agent whose choices follow from the assignment's seed and the windows it sees."""
        return _RandomAgent(self._dialect, assignment, self._num_calls)


class _RandomAgent:
    __slots__ = ("_dialect", "_left", "_openers", "_pool", "_rng", "_tools", "_turn")

    def __init__(self, dialect: Dialect, assignment: Assignment, num_calls: int) -> None:
        self._dialect = dialect
        self._rng = Random(assignment.seed)
        self._tools = assignment.briefing.tools
        self._openers = dialect.opening_calls()
        self._left = self._rng.randint(1, num_calls) if self._tools else 0
        self._pool: dict[str, list[Any]] = {}
        self._turn = 0
        latest = dialect.opening_messages(assignment.briefing)
        for event in assignment.kept:  # draw what was drawn then
            if isinstance(event, StepTaken):
                self._draw(latest)
                latest = dialect.turn_messages(event)

    async def reply(self, window: Window) -> Reply:
        """The next call or the answer; a fixed summary where one is asked for."""
        return FIXED_SUMMARY if window.asks_for_summary else self._draw(window.messages)

    def _draw(self, messages: Sequence[Message]) -> Reply:
        for message in reversed(messages):
            if message.role in ("assistant", "system"):
                break
            collect_values(message.content, self._pool)
        turn, self._turn = self._turn, self._turn + 1
        if turn < len(self._openers):
            return self._dialect.write((self._openers[turn],), "", turn=turn)
        if self._left <= 0:
            return self._dialect.write((), "That is all.", turn=turn)
        self._left -= 1
        tool = self._rng.choice(self._tools)
        call = Call(tool.name, random_arguments(tool.schema, self._rng, self._pool))
        return self._dialect.write((call,), "", turn=turn)

"""Calls that fit a tool's schema, that barely fit it, and that do not, to find out if it breaks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.policies.random_calls import ArgumentDrawer
from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.format import Call

_ODD_TEXTS = ("", " ", "'", '"', "%", "_", "-1", "null", "ä😀", "x" * 300)
_NO_DAYS = ("2026-02-30", "9999-99-99", "2026-02-30T10:00:00Z", "2026-03-14T25:61:00Z", "29:61")
_ODD_NUMBERS = (0, -1, 1_000_000_000)
_ODDS = 0.2  # share of the calls with one odd argument
_ABSENT = 999_999_937  # the key of no row
_SNOWMAN = "\u2603"  # fits no sensible pattern
_MAX_WORDS = 12  # of an enumeration


class Prober:
    """Draws calls to the tools of one world, seeded.

    Most values come from the start state's columns (see `plausible`), some are odd: an empty text,
    a quote, zero.
    """

    def __init__(self, world: States, seed: int) -> None:
        self._rng = Random(seed)
        self.pool = plausible(world)
        self._drawer = ArgumentDrawer(self._rng, self.pool)

    def call(self, tool: ToolSpec) -> Call:
        """A call that fits the tool's schema."""
        arguments = self._drawer.draw(tool.schema)
        if arguments and self._rng.random() < _ODDS:
            name = self._rng.choice(list(arguments))
            if odd := _odd_values(tool.schema["properties"][name]):
                arguments[name] = self._rng.choice(odd)
        return Call(tool.name, arguments)


def plausible(world: States) -> dict[str, list[Any]]:
    """The values of a world's start state by column name.

    A key `id` of the table `orders` also counts as `order_id`, one of `lenses` as `lens_id` and as
    `lense_id`. Blobs and NULL are left out.
    """
    return values_of(world.dump(world.template.overlay()))


def values_of(tables: Mapping[str, Sequence[Row]]) -> dict[str, list[Any]]:
    """The values of rows, by table, by column name; see `plausible`."""
    values: dict[str, dict[Any, None]] = {}
    for table, rows in tables.items():
        for row in rows:
            for column, value in row.items():
                if value is None or isinstance(value, bytes):
                    continue
                names = [f"{one}_id" for one in _singulars(table)] if column == "id" else []
                for name in (column, *names):
                    values.setdefault(name, {})[value] = None
    return {name: list(found) for name, found in values.items()}


def singular(table: str) -> str:
    """Example: "policies" -> "policy", "orders" -> "order" """
    return f"{table[:-3]}y" if table.endswith("ies") else table.removesuffix("s")


def _singulars(table: str) -> list[str]:
    """The possible names of one row of a table.

    Example: "lenses" -> ["lense", "lens"], "orders" -> ["order"]
    """
    bare = table.removesuffix("es")
    found = [singular(table)]
    return [*found, bare] if bare != table and re.search(r"(s|x|z|ch|sh|o)$", bare) else found


def edge_calls(tool: ToolSpec, base: Call) -> Iterator[tuple[Call, str]]:
    """Variants of a call that succeeds, each with one argument at the edge of what the schema
    allows, and the argument's name. The edges: left out, null, empty, odd, minimum, maximum, each
    word of an enumeration.
    """
    required = set(tool.schema.get("required", ()))
    for name, schema in _properties(tool).items():
        if name in base.arguments and name not in required:
            yield _without(base, name), name
        values: dict[str, Any] = {}
        for value in _edges(schema):
            if value != base.arguments.get(name, schema):
                values.setdefault(repr(value), value)
        for value in values.values():
            yield _with(base, name, value), name


def absent_calls(tool: ToolSpec, base: Call) -> Iterator[tuple[Call, str]]:
    """Variants of a call that succeeds, each with one key that no row has."""
    for name, schema in _properties(tool).items():
        given = base.arguments.get(name)
        one = next((b for b in _branches(schema) if b.get("type") == "integer"), {})
        if name.endswith("_id") and isinstance(given, int) and _allows(one, _ABSENT):
            yield _with(base, name, _ABSENT), name
        elif name.endswith("_ids") and isinstance(given, list) and given:
            yield _with(base, name, [*given, _ABSENT]), name


def negative_calls(tool: ToolSpec, base: Call) -> Iterator[tuple[Call, str]]:
    """Variants of a call that succeeds, each with a quantity below zero, where the schema has no
    bound."""
    for name, schema in _properties(tool).items():
        given = base.arguments.get(name)
        if not isinstance(given, int | float) or isinstance(given, bool) or given <= 0:
            continue
        bounded = any(
            {"minimum", "exclusiveMinimum"} & branch.keys() for branch in _branches(schema)
        )
        if not bounded and _is_quantity(name) and not _is_difference(f"{tool.name} {name}"):
            yield _with(base, name, -given), name


def bad_arguments(tool: ToolSpec, base: Call) -> Iterator[tuple[Any, str]]:
    """Arguments that do not fit the schema, and what is wrong with them."""
    yield [base.arguments], "a list instead of an object"
    yield {**base.arguments, "not_an_argument": 1}, "an unknown argument"
    for name in tool.schema.get("required", ()):
        yield {key: value for key, value in base.arguments.items() if key != name}, f"no {name}"
    for name, schema in _properties(tool).items():
        for value, what in _invalid_values(schema):
            yield {**base.arguments, name: value}, f"{what} in {name}"


def _properties(tool: ToolSpec) -> Mapping[str, dict[str, Any]]:
    properties: Mapping[str, dict[str, Any]] = tool.schema.get("properties", {})
    return properties


def _with(base: Call, name: str, value: Any) -> Call:
    return Call(base.name, {**base.arguments, name: value})


def _without(base: Call, name: str) -> Call:
    return Call(base.name, {key: value for key, value in base.arguments.items() if key != name})


def _branches(schema: Any) -> list[dict[str, Any]]:
    """A schema's alternatives; itself where there are none."""
    if not isinstance(schema, dict):
        return []
    found = schema.get("anyOf") or schema.get("oneOf")
    return [inner for branch in found for inner in _branches(branch)] if found else [schema]


def _edges(schema: Any) -> Iterator[Any]:
    """Values at the edge of what a schema allows."""
    for branch in _branches(schema):
        kind = branch.get("type")
        if "enum" in branch:
            yield from branch["enum"][:_MAX_WORDS]
        elif kind == "null":
            yield None
        elif kind == "boolean":
            yield from (True, False)
        elif kind == "array":
            if not branch.get("minItems"):
                yield []
            for item in list(_edges(branch.get("items", {})))[:4]:
                if branch.get("minItems", 0) <= 2 <= branch.get("maxItems", 2):
                    yield [item, item]
        else:
            yield from _odd_values(branch)
            yield from (branch[key] for key in ("minimum", "maximum") if key in branch)


def _allows(schema: Mapping[str, Any], number: int) -> bool:
    """Whether a schema of integers allows this one."""
    if schema.get("type") != "integer" or schema.keys() & {"enum", "multipleOf"}:
        return False
    return bool(schema.get("minimum", 0) <= number <= schema.get("maximum", number))


_QUANTITIES = ("quantity", "amount", "count", "days", "nights", "hours", "guests", "seats", "cents")
_DIFFERENCES = ("adjust", "delta", "change", "correct", "difference", "offset", "move", "balance")


def _is_quantity(name: str) -> bool:
    return name.split("_")[-1] in _QUANTITIES or name.split("_")[0] in _QUANTITIES


def _is_difference(name: str) -> bool:
    return any(word in name for word in _DIFFERENCES)


def _invalid_values(schema: Any) -> Iterator[tuple[Any, str]]:
    """Values that a schema does not allow, and what is wrong with them."""
    branches = _branches(schema)
    kinds = {branch.get("type") for branch in branches}
    if len(branches) != 1 and not kinds <= {"null", "string", "integer", "number", "boolean"}:
        return
    if any(not branch.get("type") and "enum" not in branch for branch in branches):
        return  # it accepts anything
    if "object" not in kinds:
        yield {"odd": 1}, "an object"
    if "null" not in kinds and not any(None in branch.get("enum", ()) for branch in branches):
        yield None, "null"
    if kinds <= {"integer", "number", "boolean", "null"}:
        yield "x", "a text"
    if "string" in kinds and not kinds & {"integer", "number"}:
        yield 7, "a number"
    for branch in branches:
        if len(branches) == 1 or "null" in kinds:
            yield from _out_of_range(branch)


def _out_of_range(schema: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    if "enum" in schema:
        yield "no such word", "a word that is not listed"
    elif schema.get("type") in ("integer", "number"):
        if "minimum" in schema:
            yield schema["minimum"] - 1, "less than the minimum"
        if "maximum" in schema:
            yield schema["maximum"] + 1, "more than the maximum"
    elif schema.get("type") == "string":
        if schema.get("minLength"):
            yield "", "an empty text"
        if "maxLength" in schema:
            yield "x" * (schema["maxLength"] + 1), "a text that is too long"
        if not re.search(schema.get("pattern", ""), _SNOWMAN):
            yield _SNOWMAN, "a text of another pattern"


def _odd_values(schema: dict[str, Any]) -> list[Any]:
    """Odd values that the schema allows; none where it has an enumeration or a format. Where it has
    a pattern: days and hours that no calendar has."""
    if schema.keys() & {"enum", "const", "format", "multipleOf"}:
        return []
    if pattern := schema.get("pattern"):
        return [text for text in _NO_DAYS if re.search(pattern, text)]
    if branches := schema.get("anyOf"):
        return [value for branch in branches for value in _odd_values(branch)]
    if schema.get("type") == "string":
        least, most = schema.get("minLength", 0), schema.get("maxLength", 1_000)
        return [text for text in _ODD_TEXTS if least <= len(text) <= most]
    if schema.get("type") in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -2) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", 2_000_000_000) - 1)
        return [number for number in _ODD_NUMBERS if low <= number <= high]
    return []

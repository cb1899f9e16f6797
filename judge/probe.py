"""Calls that fit a tool's schema and often name rows that exist, to see whether it breaks."""

from random import Random
from typing import Any

from envpool.states import States
from envpool.types import ToolSpec
from harness.policies.random_calls import random_arguments
from scenarios.format import Call

_ODD_TEXTS = ("", " ", "'", '"', "%", "_", "-1", "null", "ä😀", "x" * 300)
_ODD_NUMBERS = (0, -1, 1_000_000_000)
_ODDS = 0.2  # share of the calls in which one argument is an odd one


class Prober:
    """Draws calls to the tools of one world, seeded.

    Values come mostly from the start state's own columns (see `plausible`), some are odd: an
    empty text, a quote, zero.
    """

    def __init__(self, world: States, seed: int) -> None:
        self._rng = Random(seed)
        self._pool = plausible(world)

    def call(self, tool: ToolSpec) -> Call:
        """A call that fits the tool's schema."""
        arguments = random_arguments(tool.schema, self._rng, self._pool)
        if arguments and self._rng.random() < _ODDS:
            name = self._rng.choice(list(arguments))
            if odd := _odd_values(tool.schema["properties"][name]):
                arguments[name] = self._rng.choice(odd)
        return Call(tool.name, arguments)


def plausible(world: States) -> dict[str, list[Any]]:
    """The values of a world's start state by column name.

    A key `id` of the table `orders` counts as `order_id` too. Blobs and NULL are left out.
    """
    values: dict[str, dict[Any, None]] = {}
    for table, rows in world.dump(world.template.overlay()).items():
        for row in rows:
            for column, value in row.items():
                if value is None or isinstance(value, bytes):
                    continue
                names = (column, f"{_singular(table)}_id") if column == "id" else (column,)
                for name in names:
                    values.setdefault(name, {})[value] = None
    return {name: list(found) for name, found in values.items()}


def _singular(table: str) -> str:
    """Example: "policies" -> "policy", "orders" -> "order" """
    return f"{table[:-3]}y" if table.endswith("ies") else table.removesuffix("s")


def _odd_values(schema: dict[str, Any]) -> list[Any]:
    """Odd values that the schema allows; none where it enumerates, or has a pattern or format."""
    if schema.keys() & {"enum", "const", "pattern", "format", "multipleOf"}:
        return []
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

"""Worlds that are nearly the same, told by what they are made of.

A world's features are its tables, columns, tools and arguments, and the pairs of neighbouring words
in its tools' descriptions and its policy. Two worlds are compared by the Jaccard index: features in
common over features in all. Rows and tasks do not count: the same shop with other customers is the
same world. The index is exact; with each world as one long integer of bits, a thousand worlds (half
a million pairs) take about two seconds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from zlib import crc32

import msgspec

from envpool.core.types import ToolSpec
from scenarios.format import Scenario

THRESHOLD = 0.9
_WORD = re.compile(r"[^\W_]+")


class Pair(msgspec.Struct, frozen=True):
    """Two worlds that are nearly the same.

    Example: Pair("dental_clinic_3", "dental_clinic_17", 0.94)
    """

    one: str
    other: str
    alike: float  # the Jaccard index of their features


def features_of(
    scenario: Scenario, tables: Mapping[str, Sequence[str]], tools: Iterable[ToolSpec]
) -> tuple[int, ...]:
    """A world's features as numbers of 32 bits, sorted. `tables` are columns by table."""
    texts = {crc32(text.encode()) for text in _features(scenario, tables, tools)}
    return tuple(sorted(texts))


def _features(
    scenario: Scenario, tables: Mapping[str, Sequence[str]], tools: Iterable[ToolSpec]
) -> Iterator[str]:
    for table, columns in tables.items():
        yield f"table {table}"
        yield from (f"column {table}.{column}" for column in columns)
    said = [scenario.rules]
    for tool in tools:
        yield f"tool {tool.name}"
        yield from (f"argument {tool.name}.{name}" for name in tool.schema.get("properties", ()))
        said.append(tool.description)
    for text in said:
        for left, right in pairwise(_WORD.findall(text.casefold())):
            yield f"words {left} {right}"


def near_duplicates(
    worlds: Sequence[tuple[str, Sequence[int]]], threshold: float = THRESHOLD
) -> list[Pair]:
    """The pairs of worlds, given by name and features, that are at least so much alike; the most
    alike first."""
    bits = _all_bits(features for _, features in worlds)
    sizes = [number.bit_count() for number in bits]
    found = []
    for place, (name, _) in enumerate(worlds):
        for before in range(place):
            small, large = sorted((sizes[before], sizes[place]))
            if small < threshold * large or not small:
                continue  # so few features cannot be so many of so many
            alike = _alike((bits[before] & bits[place]).bit_count(), small, large)
            if alike >= threshold:
                found.append(Pair(worlds[before][0], name, round(alike, 4)))
    return sorted(found, key=lambda pair: (-pair.alike, pair.one, pair.other))


def nearest(worlds: Iterable[Sequence[int]]) -> list[float]:
    """How much each world, given by its features, is like the one that is most like it; 0 for a
    world that is alone."""
    bits = _all_bits(worlds)
    sizes = [number.bit_count() for number in bits]
    found = [0.0] * len(bits)
    for place in range(len(bits)):
        for before in range(place):
            small, large = sorted((sizes[before], sizes[place]))
            least = min(found[before], found[place])
            if small <= least * large:
                continue  # it cannot be more than what is known
            alike = _alike((bits[before] & bits[place]).bit_count(), small, large)
            found[before], found[place] = max(found[before], alike), max(found[place], alike)
    return found


def _alike(common: int, one: int, other: int) -> float:
    """The Jaccard index of two sets of these sizes."""
    return common / (one + other - common)


def _all_bits(worlds: Iterable[Iterable[int]]) -> list[int]:
    places: dict[int, int] = {}  # feature -> its bit
    return [_bits(features, places) for features in worlds]


def _bits(features: Iterable[int], places: dict[int, int]) -> int:
    """The features as a number whose bits say which are there."""
    number = bytearray(len(places) // 8 + 1)
    for feature in features:
        place = places.setdefault(feature, len(places))
        if place // 8 >= len(number):
            number.extend(bytes(place // 8 + 1 - len(number)))
        number[place // 8] |= 1 << place % 8
    return int.from_bytes(number, "little")

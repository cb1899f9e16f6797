"""Worlds that are nearly the same, by their features.

A world's features are its tables, columns, tools and arguments, and the pairs of neighbouring words
in its tools' descriptions and its policy. Two worlds are compared by the Jaccard index: common
features over all features. Rows and tasks do not count: the same shop with other customers is the
same world. Nor do the words that a trade puts in the place of others: of a generated world they are
mapped back first, so that two worlds differ by their structure only. The index is exact; with each
world as one long integer of bits, a thousand worlds (half a million pairs) take about two seconds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from zlib import crc32

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.scenarios.generate.vocabulary.dressing import Dresser

THRESHOLD = 0.9
_WORD = re.compile(r"[^\W_]+")


class WorldPair(msgspec.Struct, frozen=True):
    """Two worlds that are nearly the same.

    Example: Pair("dental_clinic_3", "dental_clinic_17", 0.94)
    """

    one: str
    other: str
    alike: float  # the Jaccard index of their features


def features_of(
    scenario: Scenario,
    tables: Mapping[str, Sequence[str]],
    tools: Iterable[ToolSpec],
    words: Mapping[str, str] | None = None,
) -> tuple[int, ...]:
    """A world's features as 32-bit hashes, sorted. `tables` are columns by table, `words` the
    trade's words with the modules' own (see scenarios.generate.output_folder)."""
    back = Dresser(words or {}, frozenset(words or ()))
    texts = back.texts(_features(scenario, tables, tools))
    return tuple(sorted({crc32(text.encode()) for text in texts}))


def _features(
    scenario: Scenario, tables: Mapping[str, Sequence[str]], tools: Iterable[ToolSpec]
) -> Iterator[str]:
    for table, columns in tables.items():
        yield f"table {table}"
        yield from (f"column {table}.{column}" for column in columns)
    prose = [scenario.rules]
    for tool in tools:
        yield f"tool {tool.name}"
        yield from (f"argument {tool.name}.{name}" for name in tool.schema.get("properties", ()))
        prose.append(tool.description)
    for text in prose:
        for left, right in pairwise(_WORD.findall(text.casefold())):
            yield f"words {left} {right}"


def near_duplicates(
    worlds: Sequence[tuple[str, Sequence[int]]], threshold: float = THRESHOLD
) -> list[WorldPair]:
    """The pairs of worlds, given by name and features, whose index is at least `threshold`; the
    most similar first."""
    bits = _all_bits(features for _, features in worlds)
    sizes = [number.bit_count() for number in bits]
    found = []
    for index, (name, _) in enumerate(worlds):
        for before in range(index):
            small, large = sorted((sizes[before], sizes[index]))
            if small < threshold * large or not small:
                continue  # the smaller one has too few features to reach the threshold
            alike = _alike((bits[before] & bits[index]).bit_count(), small, large)
            if alike >= threshold:
                found.append(WorldPair(worlds[before][0], name, round(alike, 4)))
    return sorted(found, key=lambda pair: (-pair.alike, pair.one, pair.other))


def nearest(worlds: Iterable[Sequence[int]]) -> list[float]:
    """The index of each world, given by its features, with the most similar other one; 0 for a
    single world."""
    bits = _all_bits(worlds)
    sizes = [number.bit_count() for number in bits]
    found = [0.0] * len(bits)
    for index in range(len(bits)):
        for before in range(index):
            small, large = sorted((sizes[before], sizes[index]))
            least = min(found[before], found[index])
            if small <= least * large:
                continue  # it cannot exceed what is found already
            alike = _alike((bits[before] & bits[index]).bit_count(), small, large)
            found[before], found[index] = max(found[before], alike), max(found[index], alike)
    return found


def _alike(common: int, one: int, other: int) -> float:
    """The Jaccard index of two sets of these sizes."""
    return common / (one + other - common)


def _all_bits(worlds: Iterable[Iterable[int]]) -> list[int]:
    positions: dict[int, int] = {}  # feature -> its bit
    return [_bits(features, positions) for features in worlds]


def _bits(features: Iterable[int], positions: dict[int, int]) -> int:
    """The features as an integer with a bit for each."""
    number = bytearray(len(positions) // 8 + 1)
    for feature in features:
        bit = positions.setdefault(feature, len(positions))
        if bit // 8 >= len(number):
            number.extend(bytes(bit // 8 + 1 - len(number)))
        number[bit // 8] |= 1 << bit % 8
    return int.from_bytes(number, "little")

"""How many episodes each value of a filter would find, under all other filters."""

from collections.abc import Mapping, Sequence

import msgspec

from rehearsal_room.harness.core.events import Label
from rehearsal_room.viewer.index.hand_labels import HandLabels
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.filters import Query, where_of

_LABEL = "CASE WHEN label IS NOT NULL THEN label WHEN judge IS NULL THEN 'none' ELSE 'unjudged' END"
_PLAIN = {
    "label": _LABEL,
    "ending": "coalesce(ending, 'live')",
    "scenario": "scenario",
    "task": "task",
}
_SETS = {"error": "causes", "failure": "kinds", "tag": "tags", "table": "changed", "tool": "tools"}
_CHOICES = {
    "harm": ("broken_guard", "unasked_change"),
    "by_hand": ("mine", "others", "note", "agrees", "disagrees"),
    "my_label": tuple(str(label) for label in Label),
}
_MAX_VALUES = 250


class Facet(msgspec.Struct, frozen=True):
    """The values of one filter, the most frequent first, each with its number of episodes."""

    values: Sequence[tuple[str, int]]
    left_out: int = 0  # values that are not listed


def facets(index: RunIndex, query: Query, labels: HandLabels) -> Mapping[str, Facet]:
    """The facets under a query. Those that a person's label decides are left out where there is
    none. Raises SettingsError and LogError."""
    names = names_of(index)
    found = {}
    for name, column in _PLAIN.items():
        where, bound = where_of(query, labels, but=name)
        sql = f"SELECT {column}, count(*) FROM episodes WHERE {where} GROUP BY 1"
        found[name] = _facet(dict(index.rows(sql, *bound)))
    for name, column in _SETS.items():
        where, bound = where_of(query, labels, but=name)
        sql = f"SELECT {column}, count(*) FROM episodes WHERE {where} GROUP BY 1"
        counts: dict[str, int] = {}
        for number, count in index.rows(sql, *bound):
            for one in names[number]:
                counts[one] = counts.get(one, 0) + count
        found[name] = _facet(counts)
    for name, choices in _CHOICES.items():
        if name == "harm" or labels.by_episode:
            found[name] = _facet(_chosen(index, query, labels, name, choices))
    return found


def _chosen(
    index: RunIndex, query: Query, labels: HandLabels, name: str, choices: Sequence[str]
) -> dict[str, int]:
    """The numbers of a filter that finds what no column has."""
    others, bound = where_of(query, labels, but=name)
    conditions = [where_of({name: [choice]}, labels) for choice in choices]
    sums = ", ".join(f"ifnull(sum({sql}), 0)" for sql, _ in conditions)
    values = [value for _, some in conditions for value in some]
    (counts,) = index.rows(f"SELECT {sums} FROM episodes WHERE {others}", *values, *bound)
    return dict(zip(choices, counts, strict=True))


def _facet(counts: Mapping[str, int]) -> Facet:
    listed = sorted(
        ((name, number) for name, number in counts.items() if number),
        key=lambda one: (-one[1], one[0]),
    )
    return Facet(listed[:_MAX_VALUES], max(0, len(listed) - _MAX_VALUES))

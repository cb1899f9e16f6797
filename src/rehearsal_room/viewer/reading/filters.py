"""Which episodes a page asks for: filters and order, as SQL on the index.

Values of one filter are alternatives, different filters must all hold, and a value after a minus is
excluded. A name that begins with a minus or a plus has a plus before it.

    failure=wrong_record&failure=-unasked_change&label=agent_error
    ->  agent errors with a wrong record, but without an unasked change

The syntax of `text` is that of `rehearsal_room.viewer.index.search`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.viewer.index.hand_labels import NO_LABELS, HandLabels
from rehearsal_room.viewer.index.search import Clause, Word, clauses_of
from rehearsal_room.viewer.index.tables import TEXTS_PER_EPISODE

Query = Mapping[str, Sequence[str]]  # the parameters of a URL, each with its values
Where = tuple[str, tuple[Any, ...]]  # a condition, and what is bound in it


_SORTS = {
    "episode": "episode",
    "scenario": "scenario",
    "task": "task",
    "group": "grp",
    "member": "member",
    "ending": "ending",
    "label": "label",
    "reward": "reward",
    "share": "share",
    "turns": "turns",
    "calls": "calls",
    "errors": "errors",
    "seconds": "seconds",
    "policy_s": "policy_s",
    "tokens": "prompt_tokens + completion_tokens",
    "cost_usd": "cost_usd",
    "started_at": "started_at",
    "first_error_turn": "first_error_turn",
}
_BOUNDS = {
    "min_reward": "reward >= ?",
    "max_reward": "reward <= ?",
    "min_share": "share >= ?",
    "max_share": "share <= ?",
    "min_turns": "turns >= ?",
    "max_turns": "turns <= ?",
}
_OTHERS = frozenset({"text", "sort", "offset", "limit", "token"})


def where_of(query: Query, labels: HandLabels = NO_LABELS, *, but: str = "") -> Where:
    """The condition of the filters in a query, without those of the name `but`. Raises
    SettingsError."""
    parts: list[Where] = []
    for name, values in query.items():
        if name == but:
            continue
        if name in _BOUNDS:
            parts += [(_BOUNDS[name], (_number(name, value),)) for value in values]
        elif name in _VALUES:
            parts += _chosen([_signed(value) for value in values], _VALUES[name], labels)
        elif name not in _OTHERS:
            known = ", ".join(sorted((*_VALUES, *_BOUNDS, "text")))
            raise SettingsError(f"there is no filter {name!r} (expected one of {known})")
    for text in query.get("text", ()):
        parts += [_with_words(clause) for clause in clauses_of(text)]
    if not parts:
        return "1", ()
    sql = " AND ".join(f"({part})" for part, _ in parts)
    return sql, tuple(value for _, values in parts for value in values)


def order_of(sort: str) -> str:
    """ORDER BY of a sort such as `-reward`. Raises SettingsError."""
    name = sort.removeprefix("-")
    if name not in _SORTS:
        raise SettingsError(f"sort: {name!r} is not a column (expected one of {', '.join(_SORTS)})")
    # SQLite has NULL first. Equal rows keep their order: in the reverse each row that is read would
    # go before all others, which is three times as slow.
    order = "DESC" if sort.startswith("-") else "NULLS LAST"
    return f"{_SORTS[name]} {order}, number"


def _chosen(
    signed: Sequence[tuple[bool, str]],
    condition: Callable[[str, HandLabels], Where],
    labels: HandLabels,
) -> list[Where]:
    """The condition of one filter: any of the values that are asked for, none of the others."""
    wanted = [condition(value, labels) for is_wanted, value in signed if is_wanted]
    others = [condition(value, labels) for is_wanted, value in signed if not is_wanted]
    # A condition on NULL is neither true nor false; here it is false.
    found = [(f"NOT ifnull(({sql}), 0)", bound) for sql, bound in others]
    if wanted:
        any_of = " OR ".join(f"({sql})" for sql, _ in wanted)
        found.insert(0, (any_of, tuple(value for _, bound in wanted for value in bound)))
    return found


def _signed(value: str) -> tuple[bool, str]:
    """Whether a value is asked for or excluded, and the value.

    Example: "-wrong_record" -> (False, "wrong_record"); "+-odd" -> (True, "-odd")
    """
    if value.startswith("-"):
        return False, value[1:]
    return True, value.removeprefix("+")


def _with_words(clause: Clause) -> Where:
    ids = [word.text for word in clause.words if _is_id(word)]
    texts = f"SELECT rowid / {TEXTS_PER_EPISODE} FROM texts WHERE texts MATCH ?"
    by_id = " UNION ALL SELECT number FROM episodes WHERE episode >= ? AND episode < ?" * len(ids)
    sql = f"number {'NOT ' if clause.is_not else ''}IN ({texts}{by_id})"
    return sql, (clause.fts, *(bound for one in ids for bound in (one, f"{one}\U0010ffff")))


def _is_id(word: Word) -> bool:
    """Whether a word may be an episode's id, or its beginning."""
    return (
        not word.is_phrase and not word.is_of_tool and any(letter.isdigit() for letter in word.text)
    )


def _in_set(column: str) -> Callable[[str, HandLabels], Where]:
    sql = f"{column} IN (SELECT names.id FROM names, json_each(names.names) WHERE value = ?)"
    return lambda value, labels: (sql, (value,))


def _is(column: str) -> Callable[[str, HandLabels], Where]:
    return lambda value, labels: (f"{column} = ?", (value,))


def _label(value: str, labels: HandLabels) -> Where:
    if value == "unjudged":
        return "judge IS NOT NULL AND label IS NULL", ()
    return ("judge IS NULL", ()) if value == "none" else ("label = ?", (value,))


def _ending(value: str, labels: HandLabels) -> Where:
    return ("ending IS NULL", ()) if value == "live" else ("ending = ?", (value,))


def _harm(value: str, labels: HandLabels) -> Where:
    if value == "broken_guard":
        return "broken_guards > 0", ()
    return _in_set("kinds")(value, labels) if value == "unasked_change" else ("0", ())


def _by_hand(value: str, labels: HandLabels) -> Where:
    match value:
        case "mine":
            return _among(labels.episodes(lambda one: one.is_mine and one.label is not None))
        case "others":
            return _among(labels.episodes(lambda one: not one.is_mine and one.label is not None))
        case "note":
            return _among(labels.episodes(lambda one: bool(one.note)))
        case "agrees" | "disagrees":
            sign = "=" if value == "agrees" else "<>"
            parts = [(f"label {sign} '{one}'", _my_label(str(one), labels)) for one in Label]
            sql = " OR ".join(f"({same} AND {mine})" for same, (mine, _) in parts)
            return sql, tuple(bound for _, (_, some) in parts for bound in some)
    return "0", ()


def _my_label(value: str, labels: HandLabels) -> Where:
    return _among(labels.episodes(lambda one: one.is_mine and one.label == value))


def _among(episodes: Iterable[str]) -> Where:
    listed = msgspec.json.encode(list(episodes)).decode()
    return "episode IN (SELECT value FROM json_each(?))", (listed,)


def _failed_call(value: str, labels: HandLabels) -> Where:
    """Episodes in which a tool failed with an error, as in `refund_order:not_found`."""
    sql = "number IN (SELECT number FROM call_errors WHERE tool = ? AND error = ?)"
    tool, _, error = value.rpartition(":")
    return sql, (tool, error)


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise SettingsError(f"{name}: {value!r} is not a number")
    return number


_VALUES: dict[str, Callable[[str, HandLabels], Where]] = {
    "scenario": _is("scenario"),
    "task": _is("task"),
    "group": _is("grp"),
    "episode": _is("episode"),
    "label": _label,
    "ending": _ending,
    "tag": _in_set("tags"),
    "table": _in_set("changed"),
    "tool": _in_set("tools"),
    "error": _in_set("causes"),
    "failure": _in_set("kinds"),
    "harm": _harm,
    "by_hand": _by_hand,
    "my_label": _my_label,
    "failed_call": _failed_call,
}

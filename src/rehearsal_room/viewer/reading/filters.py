"""Which episodes a page asks for: filters and order, as SQL on the index.

Words of a text search are looked up one by one, so that they may be in different turns of an
episode; a phrase in double quotes is looked up as a whole.

    refund "order 1042"  ->  the episodes that have the word refund and the phrase order 1042
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rehearsal_room.harness.core.errors import SettingsError
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
    "min_turns": "turns >= ?",
    "max_turns": "turns <= ?",
}
_SETS = {"tag": "tags", "table": "changed", "tool": "tools", "error": "causes", "failure": "kinds"}
_OTHERS = frozenset({"text", "sort", "offset", "limit", "token"})
_TERM = re.compile(r'"([^"]*)"|(\S+)')
_HAS_WORD = re.compile(r"\w")


def where_of(query: Query) -> Where:
    """The condition of the filters in a query. Raises SettingsError."""
    parts: list[Where] = []
    for name, values in query.items():
        if name in _COLUMNS:
            parts.append(_any_of([_COLUMNS[name](value) for value in values]))
        elif name in _BOUNDS:
            parts += [(_BOUNDS[name], (_number(name, value),)) for value in values]
        elif name in _SETS:
            parts.append(_named(_SETS[name], values))
        elif name not in _OTHERS:
            known = ", ".join(sorted((*_COLUMNS, *_BOUNDS, *_SETS, "text")))
            raise SettingsError(f"there is no filter {name!r} (expected one of {known})")
    for text in query.get("text", ()):
        parts += [_with_words(term) for term in terms_of(text)]
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


def terms_of(text: str) -> list[str]:
    """The words and phrases of a search, as FTS5 takes them.

    Example: 'refund "order 1042" -' -> ['"refund"', '"order 1042"']
    """
    found = [phrase or word for phrase, word in _TERM.findall(text)]
    return ['"{}"'.format(one.replace('"', "")) for one in found if _HAS_WORD.search(one)]


def _with_words(term: str) -> Where:
    sql = f"number IN (SELECT rowid / {TEXTS_PER_EPISODE} FROM texts WHERE texts MATCH ?)"
    return sql, (term,)


def _named(column: str, values: Iterable[str]) -> Where:
    listed = tuple(values)
    marks = ", ".join("?" * len(listed))
    sql = (
        f"{column} IN (SELECT names.id FROM names, json_each(names.names) WHERE value IN ({marks}))"
    )
    return sql, listed


def _any_of(parts: Sequence[Where]) -> Where:
    sql = " OR ".join(part for part, _ in parts)
    return sql, tuple(value for _, values in parts for value in values)


def _is(column: str) -> Callable[[str], Where]:
    return lambda value: (f"{column} = ?", (value,))


def _label(value: str) -> Where:
    if value == "unjudged":
        return "judge IS NOT NULL AND label IS NULL", ()
    return ("judge IS NULL", ()) if value == "none" else ("label = ?", (value,))


def _ending(value: str) -> Where:
    return ("ending IS NULL", ()) if value == "live" else ("ending = ?", (value,))


def _failed_call(value: str) -> Where:
    """Episodes in which a tool failed with an error, as in `refund_order:not_found`."""
    sql = "number IN (SELECT number FROM call_errors WHERE tool = ? AND error = ?)"
    tool, _, error = value.rpartition(":")
    return sql, (tool, error)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise SettingsError(f"{name}: {value!r} is not a number") from None


_COLUMNS: dict[str, Callable[[str], Where]] = {
    "scenario": _is("scenario"),
    "task": _is("task"),
    "group": _is("grp"),
    "episode": _is("episode"),
    "label": _label,
    "ending": _ending,
    "failed_call": _failed_call,
}

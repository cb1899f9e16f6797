"""The tasks of a run in one table, also by world, tag or kind of failure.

A task's rate is that of its tries, with their exact interval: what the agent completes of this task
if it tries again. A tag's rate has the run's unit, and a world's is about further tasks of it. In a
table by kind the rate is the share of episodes that have this kind.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.chat.prices import Price
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.harness.outcomes.scores import SCORE_SQL, SHARE_SQL
from rehearsal_room.harness.outcomes.units import Unit, UnitChoice
from rehearsal_room.harness.setup.run_folder import prices_of
from rehearsal_room.judge.statistics.intervals import exact_interval
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.filters import Query
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.shares import completed_share, unit_of

By = Literal["task", "world", "tag", "kind"]
BY: tuple[By, ...] = ("task", "world", "tag", "kind")
MAX_ROWS = 1_000
_MAX_KINDS = 32  # of a row that are named
_MAX_TAGS = 24
_ABOUT: dict[By, str] = {
    "task": "the intervals are about further tries at each task",
    "world": "the intervals are about further tasks of each world",
}
_Key = tuple[str, str]  # scenario and task


class KindCount(msgspec.Struct, frozen=True):
    """A kind of failure, and in how many episodes it is."""

    kind: str
    n: int


class TaskRow(msgspec.Struct, frozen=True):
    """A row: a task, or all tasks of a world, of a tag, or with a kind of failure."""

    name: str  # of the task, world, tag or kind
    scenario: str  # of a task; else empty
    group: str  # of the first try, by which its page is found
    tasks: int
    tries: int  # episodes, also those that are not over
    judged: int  # with a verdict
    completed: int
    rate: Interval[float] | None  # None: nothing has a verdict
    kinds: Sequence[KindCount]  # the most frequent first
    turns: float  # mean of an episode
    tokens: float  # mean of an episode, of prompts and replies
    cost_usd: float | None  # of the model, in all; None: its price is not known
    seconds: float  # mean of an episode
    tags: Sequence[str] = ()
    share: float | None = None  # mean of its tries; None: all are all or nothing, or not judged


class TaskTable(msgspec.Struct, frozen=True):
    """Some of the rows that a query asks for."""

    total: int
    rows: Sequence[TaskRow]
    about: str = ""  # what the rates' intervals are about


class TaskPart(msgspec.Struct, frozen=True, gc=False):
    """The episodes of one task that have the same kinds and tags."""

    scenario: str
    task: str
    kinds: int  # id of a set of names
    tags: int
    tries: int
    judged: int
    completed: int
    turns: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float
    first: int  # number of an episode
    shares: float  # sum of those with a verdict, whole ones included
    in_parts: int  # episodes whose task has a share

    @property
    def key(self) -> _Key:
        """Scenario and task."""
        return self.scenario, self.task


_PARTS = f"""SELECT scenario, task, kinds, tags, count(*), count({SCORE_SQL}),
    coalesce(sum({SCORE_SQL}), 0), sum(turns), sum(prompt_tokens), sum(cached_tokens),
    sum(completion_tokens), sum(iif(ending IS NULL, last_at - started_at, seconds)), min(number),
    coalesce(sum({SHARE_SQL}), 0), count(share)
    FROM episodes GROUP BY scenario, task, kinds, tags"""  # nosec B608 # a constant


def task_table(run: ShownRun, query: Query) -> TaskTable:
    """The rows that a query asks for: `by`, `sort`, filters `scenario`, `tag`, `failure` and `name`
    (a part of it), `offset` and `limit`. Raises SettingsError and LogError."""
    by = _last(query, "by", "task")
    if by not in BY:
        raise SettingsError(f"by: {by!r} is not one of {', '.join(BY)}")
    rows = _filtered(rows_by(run, by), query)
    ordered = sorted_rows(rows, _last(query, "sort", "rate"))
    offset, limit = _whole(query, "offset", 0), min(MAX_ROWS, _whole(query, "limit", 100))
    shown = ordered[offset : offset + limit]
    return TaskTable(len(ordered), shown, _ABOUT.get(by) or _unit_of(run).about)


def rows_by(run: ShownRun, by: By) -> list[TaskRow]:
    """All rows of a table. Raises LogError."""
    index = run.index()
    return index.kept(
        ("task_table", by), lambda: _rows_by(index, by, price_of(run), _unit_of(run).unit)
    )


def _unit_of(run: ShownRun) -> UnitChoice:
    return unit_of(run.index(), run.settings().unit)


def parts_of(index: RunIndex) -> list[TaskPart]:
    """The episodes of all tasks, by task, kinds and tags. Raises LogError."""
    return index.kept("task_parts", lambda: [TaskPart(*row) for row in index.rows(_PARTS)])


def price_of(run: ShownRun) -> Price | None:
    """The price of the run's model; None: it is not known, or no model plays."""
    try:
        prices = prices_of(run.log_folder, None)
        return None if prices is None else prices.models.get(run.settings().model.name)
    except SettingsError:  # the file has changed since
        return None


def sorted_rows(rows: Sequence[TaskRow], sort: str) -> list[TaskRow]:
    """The rows in an order such as `-tokens`; those without a value come last. Raises
    SettingsError."""
    name = sort.removeprefix("-")
    if name not in _SORTS:
        raise SettingsError(f"sort: {name!r} is not a column (expected one of {', '.join(_SORTS)})")
    value, sign = _SORTS[name], -1 if sort.startswith("-") else 1
    named = sorted(rows, key=lambda row: (row.name, row.scenario))
    if name in ("name", "world"):
        return sorted(named, key=value, reverse=sign < 0)
    # Of equal rates, the one that more tries show comes first.
    by_tries = sorted(named, key=lambda row: -row.judged)
    return sorted(by_tries, key=lambda row: _last_if_none(value(row), sign))


def _last_if_none(value: Any, sign: int) -> tuple[bool, Any]:
    return value is None, 0 if value is None else sign * value


_SORTS: dict[str, Callable[[TaskRow], Any]] = {
    "name": lambda row: row.name,
    "world": lambda row: row.scenario,
    "rate": lambda row: None if row.rate is None else row.rate.value,
    "tries": lambda row: row.tries,
    "tasks": lambda row: row.tasks,
    "kinds": lambda row: row.kinds[0].n if row.kinds else 0,
    "turns": lambda row: row.turns,
    "tokens": lambda row: row.tokens,
    "cost": lambda row: row.cost_usd,
    "seconds": lambda row: row.seconds,
}


def _filtered(rows: Sequence[TaskRow], query: Query) -> Sequence[TaskRow]:
    wanted = {name: set(query[name]) for name in ("scenario", "tag", "failure") if query.get(name)}
    text = _last(query, "name", "").casefold()
    if not wanted and not text:
        return rows
    return [row for row in rows if text in row.name.casefold() and _has(row, wanted)]


def _has(row: TaskRow, wanted: Mapping[str, set[str]]) -> bool:
    found = {
        "scenario": {row.scenario},
        "tag": set(row.tags),
        "failure": {one.kind for one in row.kinds},
    }
    return all(found[name] & values for name, values in wanted.items())


def _rows_by(index: RunIndex, by: By, price: Price | None, unit: Unit) -> list[TaskRow]:
    names = names_of(index)
    parts = parts_of(index)
    if by == "kind":
        return _by_kind(parts, names, price, unit)
    found: dict[Any, list[TaskPart]] = {}
    for part in parts:
        for key in _keys_of(part, by, names):
            found.setdefault(key, []).append(part)
    groups = _groups_of(index, found) if by == "task" else {}
    unit = "task" if by == "world" else unit
    return [
        _row(key, group, names, price, groups.get(key, ""), unit) for key, group in found.items()
    ]


def _keys_of(part: TaskPart, by: By, names: Mapping[int, Sequence[str]]) -> Iterable[Any]:
    if by == "task":
        return (part.key,)
    return (part.scenario,) if by == "world" else names[part.tags]


def _groups_of(index: RunIndex, found: Mapping[_Key, Sequence[TaskPart]]) -> dict[_Key, str]:
    first = {min(part.first for part in parts): key for key, parts in found.items()}
    sql = (
        "SELECT number, grp FROM episodes WHERE number IN"
        " (SELECT min(number) FROM episodes GROUP BY scenario, task)"
    )
    return {first[number]: group for number, group in index.rows(sql) if number in first}


def _row(
    key: Any,
    parts: Sequence[TaskPart],
    names: Mapping[int, Sequence[str]],
    price: Price | None,
    group: str,
    unit: Unit,
) -> TaskRow:
    is_task = isinstance(key, tuple)
    tries: dict[_Key, tuple[int, int]] = {}  # of each task: completed, with a verdict
    kinds = Counter[str]()
    tags: dict[str, None] = {}
    for part in parts:
        completed, judged = tries.get(part.key, (0, 0))
        tries[part.key] = completed + part.completed, judged + part.judged
        for kind in names[part.kinds]:
            kinds[kind] += part.tries
        if is_task:
            tags |= dict.fromkeys(names[part.tags])
    return TaskRow(
        name=key[1] if is_task else key,
        scenario=key[0] if is_task else "",
        group=group,
        rate=_exact(*tries[key]) if is_task else completed_share(tries, unit),
        judged=sum(judged for _, judged in tries.values()),
        completed=sum(completed for completed, _ in tries.values()),
        kinds=_most_frequent(kinds),
        tags=list(tags)[:_MAX_TAGS],
        **_sums(parts, price),
    )


def _by_kind(
    parts: Sequence[TaskPart],
    names: Mapping[int, Sequence[str]],
    price: Price | None,
    unit: Unit,
) -> list[TaskRow]:
    judged: Counter[_Key] = Counter()
    having: dict[str, list[TaskPart]] = {}
    for part in parts:
        judged[part.key] += part.judged
        for kind in names[part.kinds]:
            having.setdefault(kind, []).append(part)
    return [_kind_row(kind, found, judged, names, price, unit) for kind, found in having.items()]


def _kind_row(
    kind: str,
    parts: Sequence[TaskPart],
    judged: Mapping[_Key, int],
    names: Mapping[int, Sequence[str]],
    price: Price | None,
    unit: Unit,
) -> TaskRow:
    with_it: Counter[_Key] = Counter()
    beside: Counter[str] = Counter()
    for part in parts:
        with_it[part.key] += part.judged
        beside.update({other: part.tries for other in names[part.kinds] if other != kind})
    return TaskRow(
        name=kind,
        scenario="",
        group="",
        rate=completed_share({key: (with_it[key], total) for key, total in judged.items()}, unit),
        judged=sum(part.judged for part in parts),
        completed=sum(part.completed for part in parts),
        kinds=_most_frequent(beside),
        **_sums(parts, price),
    )


def _sums(parts: Sequence[TaskPart], price: Price | None) -> dict[str, Any]:
    tries = sum(part.tries for part in parts)
    prompt = sum(part.prompt_tokens for part in parts)
    cached = sum(part.cached_tokens for part in parts)
    completion = sum(part.completion_tokens for part in parts)
    judged = sum(part.judged for part in parts)
    is_shared = judged and any(part.in_parts for part in parts)
    return {
        "share": sum(part.shares for part in parts) / judged if is_shared else None,
        "tasks": len({part.key for part in parts}),
        "tries": tries,
        "turns": sum(part.turns for part in parts) / tries,
        "tokens": (prompt + completion) / tries,
        "cost_usd": None if price is None else price.of(prompt, cached, completion),
        "seconds": sum(part.seconds for part in parts) / tries,
    }


def _most_frequent(kinds: Counter[str]) -> list[KindCount]:
    ordered = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    return [KindCount(*one) for one in ordered[:_MAX_KINDS]]


@lru_cache(maxsize=10_000)
def _exact(completed: int, judged: int) -> Interval[float] | None:
    return exact_interval([1.0] * completed + [0.0] * (judged - completed))


def _last(query: Query, name: str, default: Any) -> Any:
    return (query.get(name) or (default,))[-1]


def _whole(query: Query, name: str, default: int) -> int:
    text = str(_last(query, name, default))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default

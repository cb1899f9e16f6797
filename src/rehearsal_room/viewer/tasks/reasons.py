"""Why the episodes of a run failed, and which were dear or slow: what stands below its tasks."""

from collections.abc import Mapping, Sequence

import msgspec

from rehearsal_room.harness.chat.prices import Price
from rehearsal_room.viewer.index.run_index import RunIndex
from rehearsal_room.viewer.reading.episode_rows import names_of
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.tasks.task_table import TaskPart, parts_of, price_of

_MAX_ERRORS = 400  # pairs of a tool and an error
_MAX_EXAMPLES = 5  # dearest and slowest episodes


class KindReason(msgspec.Struct, frozen=True):
    """A kind of failure: its episodes, and of how many tasks they are."""

    kind: str
    episodes: int
    tasks: int


class ToolErrors(msgspec.Struct, frozen=True):
    """How often a tool failed with an error, and in how many episodes."""

    tool: str
    error: str
    calls: int
    episodes: int


class Example(msgspec.Struct, frozen=True):
    """An episode that was dear or slow."""

    episode: str
    scenario: str
    task: str
    label: str | None
    ending: str | None
    unjudged: str | None
    tokens: int
    cost_usd: float | None  # of the model; None: its price is not known
    seconds: float
    turns: int


class Reasons(msgspec.Struct, frozen=True):
    """What failed most, which tools fail, and the dearest and slowest episodes."""

    failed: int  # episodes with a kind of failure that are not completed
    kinds: Sequence[KindReason]  # the most frequent first
    tool_errors: Sequence[ToolErrors]  # the most frequent first
    num_tool_errors: int  # pairs in all
    dearest: Sequence[Example]  # by cost, or by tokens where the price is not known
    slowest: Sequence[Example]


def reasons(run: ShownRun) -> Reasons:
    """The reasons, from what is folded so far. Raises LogError."""
    index = run.index()
    return index.kept("reasons", lambda: _reasons(index, price_of(run)))


def _reasons(index: RunIndex, price: Price | None) -> Reasons:
    parts, names = parts_of(index), names_of(index)
    errors = [ToolErrors(*row) for row in index.rows(_TOOL_ERRORS, _MAX_ERRORS)]
    pairs = "SELECT count(*) FROM (SELECT DISTINCT tool, error FROM call_errors)"
    return Reasons(
        failed=sum(int(part.tries - part.completed) for part in parts if names[part.kinds]),
        kinds=_kinds(parts, names),
        tool_errors=errors,
        num_tool_errors=index.rows(pairs)[0][0],
        dearest=_examples(index, "tokens", _cost_order(price), price),
        slowest=_examples(index, "took", "took DESC", price),
    )


_TOOL_ERRORS = """SELECT tool, error, sum(calls), count(*) FROM call_errors
    GROUP BY tool, error ORDER BY sum(calls) DESC, tool, error LIMIT ?"""
_TOOK = "iif(ending IS NULL, last_at - started_at, seconds) AS took"


def _kinds(parts: Sequence[TaskPart], names: Mapping[int, Sequence[str]]) -> list[KindReason]:
    episodes: dict[str, int] = {}
    tasks: dict[str, set[tuple[str, str]]] = {}
    for part in parts:
        for kind in names[part.kinds]:
            episodes[kind] = episodes.get(kind, 0) + part.tries
            tasks.setdefault(kind, set()).add(part.key)
    ordered = sorted(episodes, key=lambda kind: (-episodes[kind], kind))
    return [KindReason(kind, episodes[kind], len(tasks[kind])) for kind in ordered]


def _cost_order(price: Price | None) -> str:
    """The order by cost, which is a sum over tokens, in SQL."""
    if price is None:
        return "tokens DESC"
    cached = price.input if price.cached_input is None else price.cached_input
    return (
        f"(prompt_tokens - min(cached_tokens, prompt_tokens)) * {price.input!r}"
        f" + min(cached_tokens, prompt_tokens) * {cached!r}"
        f" + completion_tokens * {price.output!r} DESC"
    )


def _examples(index: RunIndex, positive: str, order: str, price: Price | None) -> list[Example]:
    sql = (
        "SELECT episode, scenario, task, label, ending, iif(judge IS NULL, NULL, unjudged),"
        " prompt_tokens, cached_tokens, completion_tokens,"
        f" prompt_tokens + completion_tokens AS tokens, {_TOOK}, turns"  # nosec B608 # constants and numbers
        f" FROM episodes WHERE {positive} > 0 ORDER BY {order}, number LIMIT ?"
    )
    found = []
    for row in index.rows(sql, _MAX_EXAMPLES):
        *_, prompt, cached, completion, tokens, took, turns = row
        cost = None if price is None else price.of(prompt, cached, completion)
        found.append(Example(*(*row[:6], tokens, cost, took, turns)))
    return found

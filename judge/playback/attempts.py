"""Wrong attempts at a task, which a verifier must distinguish from the oracle.

An attempt that ends in the oracle's state with the oracle's answer is *equivalent*: its mistake
cannot be seen.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from random import Random
from typing import Any

from rehearsal_room.envpool.store.blocking import BlockingWorld
from rehearsal_room.harness.policies.mutants import Mutant, mutants_of
from rehearsal_room.judge.playback.playback import Played
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Call, Scenario, Task

MAX_MUTANTS = 400  # a task; beyond that a seeded sample
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_UNWANTED = 3  # writes of other tasks that are tried after each oracle

Writes = Sequence[tuple[str, Call]]  # calls that change rows, each with the id of its task


def writes_of(oracles: Mapping[str, Played]) -> list[tuple[str, Call]]:
    """Every call of an oracle that changed the world; the oracles are by task id."""
    return [
        (task_id, call)
        for task_id, played in oracles.items()
        for call, result in zip(played.calls, played.results, strict=True)
        if result.changes
    ]


def unwanted_on(task: Task, played: Played, writes: Writes, rng: Random) -> list[Call]:
    """A few writes of other tasks that the world accepts in the state where the play ended."""
    others = [call for task_id, call in writes if task_id != task.id]
    found: list[Call] = []
    for call in rng.sample(others, len(others)):
        if len(found) == _UNWANTED:
            break
        if played.lease.fork().call(call.name, call.arguments).changes:
            found.append(call)
    return found


def mutants_on(
    world: BlockingWorld,
    task: Task,
    oracle: Played,
    writes: Writes,
    *,
    seed: int,
    most: int = MAX_MUTANTS,
) -> tuple[list[Mutant], int]:
    """At most `most` mutants of the task, and the number of those left out. Equal seeds give equal
    mutants."""
    rng = Random(f"{seed} {task.id}")
    mutants = mutants_of(
        task,
        [bool(result.changes) for result in oracle.results],
        world.tools,
        unwanted=unwanted_on(task, oracle, writes, rng),
    )
    surplus = len(mutants) - most
    if surplus <= 0:
        return mutants, 0
    chosen = sorted(rng.sample(range(len(mutants)), most))
    return [mutants[index] for index in chosen], surplus


def is_equivalent(played: Played, oracle: Played) -> bool:
    """Whether an attempt has the oracle's final state and answer."""
    return played.state.digest == oracle.state.digest and played.answer == oracle.answer


def only_server_values_differ(played: Played, oracle: Played, scenario: Scenario) -> bool:
    """Whether an attempt's rows are the oracle's but for times and new keys that an MCP server's
    own clock and random numbers gave. Both follow from the number of the call, so that a write made
    twice leaves a later time, and the rows made after it have other keys.

    Example: clock "…T09:00:00Z", updated_at "…T09:00:07Z" for "…T09:00:08Z" -> True
    """
    if scenario.server is None or played.answer != oracle.answer:
        return False
    begin = datetime.fromisoformat(scenario.clock).timestamp()
    end = begin + len(played.calls) + len(oracle.calls) + 2  # Unix seconds
    given = {*_given_in(played), *_given_in(oracle)}
    return _without(played, given, begin, end) == _without(oracle, given, begin, end)


def _given_in(played: Played) -> set[Any]:
    """The values that the agent named first: not the keys that an earlier call's result has."""
    made = {
        key
        for call, result in zip(played.calls, played.results, strict=False)
        for change in result.changes
        if change.before is None
        for key in set(change.key).difference(_values(call.arguments))
    }
    return set(_values([call.arguments for call in played.calls])) - made


def _values(found: Any) -> Iterator[Any]:
    """Every text and number inside of JSON."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for one in found:
            yield from _values(one)
    else:
        yield found


def _without(played: Played, given: Set[Any], begin: float, end: float) -> Counter[Any]:
    """The changed rows without times between two, and with the content of a new row in place of its
    key, also where another row has it in a text. Keys and times that an agent gives stay."""
    made = [change for change in played.changes if change.before is None and change.after]
    texts = {key for change in made for key in change.key if isinstance(key, str)} - given

    def own_content(change: RowChange) -> tuple[Any, ...]:
        return (
            change.table,
            *(
                (column, value)
                for column, value in sorted((change.after or {}).items())
                if value in given
                or not (value in change.key or value in texts or _is_between(value, begin, end))
            ),
        )

    content = {key: own_content(change) for change in made for key in change.key if key in texts}

    def plain(value: Any, own: Sequence[Any]) -> Any:
        if value in given:
            return value
        if value in own:
            return "its key"
        if isinstance(value, str):
            for key in content:
                value = value.replace(key, repr(content[key]))
        return "a time" if _is_between(value, begin, end) else value

    found: Counter[Any] = Counter()
    for change in played.changes:
        own = change.key if change.before is None else ()
        after = [(name, plain(value, own)) for name, value in (change.after or {}).items()]
        key = change.key if change.before is not None else ()
        found[change.table, key, change.after is None, *sorted(after, key=lambda one: one[0])] += 1
    return found


def _is_between(value: Any, begin: float, end: float) -> bool:
    """Whether a value is a time between two: a text of ISO 8601 (UTC where it names no zone), or
    Unix seconds or milliseconds."""
    if isinstance(value, str):
        if not _TIME.match(value):
            return False
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return False
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, int | float):
        return False
    return begin <= value <= end or begin <= value / 1000 <= end


def why_equivalent(played: Played, oracle: Played) -> str:
    """Why an attempt has the oracle's end, in words: mostly because one of its calls was
    refused."""
    same = "it ends in the oracle's state with the oracle's answer"
    known_refusals = [result.text for result in oracle.results if result.error]
    for result in played.results:
        if result.error and result.text not in known_refusals:
            return f"{same}: {result.text}"
    return same

"""Mutants: the oracle with one mutation. A verifier must reject each of them.

`mutants_of` lists every single mutation of these kinds, in a fixed order:

    dropped    a write is left out, the last one first
    changed    one argument of one write is slightly wrong
    repeated   a write is made twice, at once or at the end
    swapped    two ids are exchanged, within a write or between two writes
    added      a write that the task does not ask for is made before the answer (see `unwanted`)
    answered   the answer is wrong (tasks whose oracle writes nothing)

Lookups are not mutated: they change nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.messages import Reply
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Agent, Assignment
from rehearsal_room.harness.policies.fixed_replies import (
    FixedRepliesAgent,
    num_moves_in,
    solution_replies,
)
from rehearsal_room.harness.policies.mutations import changed_calls, is_id, wrong_answers
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance


class Mutant(msgspec.Struct, frozen=True):
    """The oracle's calls and answer with one mutation.

    Example: Mutant("dropped", (Call("get_order", {"order_id": 7}),), "Done.", "without call 2 …")
    """

    kind: str  # one of the kinds above
    calls: tuple[Call, ...]
    answer: str
    note: str  # the mutation in words, for a reader
    utterances: tuple[Utterance, ...] = ()  # what it says to the user of a dialogue


def mutants_of(
    task: Task,
    writes: Sequence[bool],
    tools: Sequence[ToolSpec] = (),
    *,
    unwanted: Sequence[Call] = (),
    named: str = "",
) -> list[Mutant]:
    """Every single mutation of a task's oracle, without duplicates.

    `writes` has one entry per oracle call: whether it changed the world. The schemas of `tools`
    give the values of enumerations; `unwanted` are writes of other tasks. Of the answer's values
    only those in the text `named` are changed, if it has some of them. Raises ValueError when
    `writes` has another length.
    """
    if len(writes) != len(task.oracle):
        raise ValueError(
            f"task {task.id!r} has {len(task.oracle)} oracle calls, but {len(writes)} are marked"
        )
    schemas = {tool.name: tool.schema for tool in tools}
    found: list[Mutant] = []
    seen = {_key(task.oracle, task.answer)}
    wrote = [i for i, is_write in enumerate(writes) if is_write]
    for mutant in _all(task, wrote, schemas, unwanted, named):
        key = _key(mutant.calls, mutant.answer)
        if key not in seen:
            seen.add(key)
            found.append(mutant)
    if not task.utterances:
        return found
    return [msgspec.structs.replace(one, utterances=_moved(task, one)) for one in found]


def _moved(task: Task, mutant: Mutant) -> tuple[Utterance, ...]:
    """What the oracle says, at the same points between the mutant's calls: those before the first
    difference stay, later ones move with the number of calls. Who gives a wrong answer where the
    oracle declines has not declined before either."""
    if mutant.kind == "answered" and task.kind == "decline":
        return ()
    calls, more = mutant.calls, len(mutant.calls) - len(task.oracle)
    pairs = enumerate(zip(task.oracle, calls, strict=False))
    shortest = min(len(task.oracle), len(calls))
    first = next((index for index, (one, other) in pairs if one != other), shortest)
    return tuple(
        [
            msgspec.structs.replace(one, after=one.after + (more if one.after > first else 0))
            for one in task.utterances
        ]
    )


def _key(calls: Sequence[Call], answer: str) -> bytes:
    return msgspec.json.encode([calls, answer])


def _all(
    task: Task,
    writes: list[int],
    schemas: Mapping[str, Any],
    unwanted: Sequence[Call],
    named: str,
) -> Iterator[Mutant]:
    calls = task.oracle
    for i in reversed(writes):
        note = f"without call {i + 1} {_call_text(calls[i])}"
        yield Mutant("dropped", calls[:i] + calls[i + 1 :], task.answer, note)
    for i in writes:
        for changed, note in changed_calls(calls[i], schemas.get(calls[i].name, {})):
            yield Mutant("changed", _with(calls, {i: changed}), task.answer, f"call {i + 1} {note}")
    for i in writes:
        for index in (i + 1, len(calls)):
            note = f"call {i + 1} {_call_text(calls[i])} once more as call {index + 1}"
            repeated = (*calls[:index], calls[i], *calls[index:])
            yield Mutant("repeated", repeated, task.answer, note)
    yield from _swaps(task, writes)
    for call in unwanted:
        note = f"an unwanted {_call_text(call)} before the answer"
        yield Mutant("added", (*calls, call), task.answer, note)
    if not writes:
        for text, note in wrong_answers(task, named):
            yield Mutant("answered", calls, text, note)


def _with(calls: tuple[Call, ...], changed: Mapping[int, Call]) -> tuple[Call, ...]:
    return tuple(changed.get(i, call) for i, call in enumerate(calls))


def _call_text(call: Call) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _swaps(task: Task, writes: Sequence[int]) -> Iterator[Mutant]:
    calls = task.oracle
    for i in writes:
        names = [name for name, value in calls[i].arguments.items() if _swappable(name, value)]
        for left, right in _pairs(names):
            a, b = calls[i].arguments[left], calls[i].arguments[right]
            if a != b and type(a) is type(b):
                swapped = Call(calls[i].name, {**calls[i].arguments, left: b, right: a})
                note = f"call {i + 1} {calls[i].name}: {left} and {right} swapped"
                yield Mutant("swapped", _with(calls, {i: swapped}), task.answer, note)
    for i, j in _pairs(writes):
        one, two = calls[i].arguments, calls[j].arguments
        for name in [name for name in one if name in two and _swappable(name, one[name])]:
            if one[name] == two[name] or type(one[name]) is not type(two[name]):
                continue
            first = Call(calls[i].name, {**one, name: two[name]})
            second = Call(calls[j].name, {**two, name: one[name]})
            if first == calls[j] and second == calls[i]:
                continue  # the same writes in another order are not wrong
            note = f"calls {i + 1} and {j + 1}: {name} swapped"
            yield Mutant("swapped", _with(calls, {i: first, j: second}), task.answer, note)


def _swappable(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, str) and is_id(name))


def _pairs(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    for index, left in enumerate(items):
        for right in items[index + 1 :]:
            yield left, right


class MutantPolicy:
    """Plays the oracle with one mutation, which the episode's seed picks.

    `writes_of` returns for each oracle call of a task whether it changes the world; it is called
    once per task. A task without any mutant is played as its oracle does.
    """

    name = "mutant"

    def __init__(
        self, dialect: Dialect, writes_of: Callable[[Scenario, Task], Sequence[bool]]
    ) -> None:
        self._dialect = dialect
        self._writes_of = writes_of
        self._mutants: dict[tuple[str, str], list[Mutant]] = {}
        self._replies: dict[tuple[str, str, int], tuple[Reply, ...]] = {}

    def mutant(self, assignment: Assignment) -> Mutant | None:
        """The mutant that an episode plays; None when the task has none."""
        mutants = self._mutants_of(assignment)
        return mutants[self._pick(assignment, mutants)] if mutants else None

    def agent(self, assignment: Assignment) -> Agent:
        """An agent that plays the mutant."""
        mutants = self._mutants_of(assignment)
        index = self._pick(assignment, mutants) if mutants else -1
        key = (assignment.scenario.digest, assignment.task.id, index)
        replies = self._replies.get(key)
        if replies is None:
            mutant = mutants[index] if mutants else _oracle(assignment.task)
            replies = solution_replies(
                self._dialect, assignment.task, mutant.calls, mutant.answer, mutant.utterances
            )
            self._replies[key] = replies
        return FixedRepliesAgent(replies, num_moves_in(assignment))

    def _mutants_of(self, assignment: Assignment) -> list[Mutant]:
        scenario, task = assignment.scenario, assignment.task
        key = (scenario.digest, task.id)
        if key not in self._mutants:
            writes = self._writes_of(scenario, task)
            self._mutants[key] = mutants_of(task, writes, assignment.briefing.tools)
        return self._mutants[key]

    def _pick(self, assignment: Assignment, mutants: Sequence[Mutant]) -> int:
        return Random(assignment.seed).randrange(len(mutants))


def _oracle(task: Task) -> Mutant:
    return Mutant("none", task.oracle, task.answer, "no mutation", task.utterances)

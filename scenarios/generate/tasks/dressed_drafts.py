"""Dressing drafts in a trade's words, and executing their calls: the parts of tasks."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from scenarios.api import RowChange
from scenarios.checks import says
from scenarios.format import Call
from scenarios.generate.core.task_drafts import (
    Draft,
    ResultField,
    Text,
    placeholders,
    value_texts,
    wordings,
)
from scenarios.generate.core.world_host import CallOutcome, SeededWorld
from scenarios.generate.vocabulary.dressing import Dresser
from scenarios.value_checks import json_fault


class TaskPart(msgspec.Struct, frozen=True):
    """A dressed draft. Its calls may still have ResultField arguments."""

    draft: Draft
    module: str
    function: str  # the function that drafted it
    name: str  # the function's name, dressed
    ask: str
    later: str
    answer: str
    trap: str
    calls: tuple[Call, ...]
    facts: tuple[tuple[str, ...], ...]  # wordings of each value that the answer must contain
    reasons: tuple[str, ...]
    free: dict[str, tuple[str, ...]]  # dressed "table.column" -> phrases for its text


def dress_draft(draft: Draft, module: str, name: str, dresser: Dresser, rng: Random) -> TaskPart:
    """Dress a draft. Raises KeyError for a placeholder without a value."""
    texts = value_texts(draft.values)

    def dressed(text: Text) -> str:
        drawn = text if isinstance(text, str) else rng.choice(text)
        return dresser.template(drawn, texts)

    ask = draft.ask if isinstance(draft.ask, str) else rng.choice(draft.ask)
    answer = draft.answer if isinstance(draft.answer, str) else rng.choice(draft.answer)
    named_before = {*placeholders(ask), *placeholders(str(draft.later))}
    asked = [name for name in placeholders(answer) if name not in named_before]
    return TaskPart(
        draft=draft,
        module=module,
        function=name,
        name=dresser.name(name),
        ask=dresser.template(ask, texts),
        later=dressed(draft.later),
        answer=_without_double_stop(dresser.template(answer, texts)),
        trap=dressed(draft.trap),
        calls=tuple(
            Call(dresser.name(one.name), _arguments(one.arguments, dresser)) for one in draft.calls
        ),
        facts=tuple(wordings(draft.values[name]) for name in asked),
        reasons=tuple(dresser.template(reason, texts) for reason in draft.reasons),
        free={
            dresser.name(column): tuple(map(str, phrases)) for column, phrases in draft.free.items()
        },
    )


def _without_double_stop(text: str) -> str:
    """A text whose last value may end in a full stop. Example: "It is Hardy S.A.." """
    return text[:-1] if text.endswith("..") else text


def _arguments(arguments: dict[str, Any], dresser: Dresser) -> dict[str, Any]:
    found = {}
    for name, value in arguments.items():
        if isinstance(value, ResultField):
            value = ResultField(value.call, dresser.name(value.field))
        elif value is not None:
            value = dresser.value(value)
        if value is not None:  # TOML has no null; leaving the argument out means the same
            found[dresser.name(name)] = value
    return found


class PlayedCalls(msgspec.Struct, frozen=True):
    """Calls that were executed, with all arguments known, and their results."""

    calls: tuple[Call, ...]
    outcomes: tuple[CallOutcome, ...]
    changes: tuple[RowChange, ...]


class PartCall(msgspec.Struct, frozen=True):
    """One call of one part of a task."""

    part: int  # index of the part
    call: int  # index of the call in its part


def play_calls(
    world: SeededWorld, parts: Sequence[TaskPart], order: Sequence[PartCall]
) -> PlayedCalls | str:
    """Execute the parts' calls in this order on a fresh world; return why that fails, if so."""
    run = world.start_run()
    results: dict[PartCall, CallOutcome] = {}
    calls = []
    for position in order:
        drafted = parts[position.part].calls[position.call]
        arguments = {
            name: _result_field(value, position.part, results)
            if isinstance(value, ResultField)
            else value
            for name, value in drafted.arguments.items()
        }
        if fault := json_fault(arguments):
            return f"call {drafted.name}: argument{fault}"
        outcome = run.call(drafted.name, arguments)
        if outcome.is_error:
            return f"call {drafted.name}({arguments}) fails: {outcome.text}"
        results[position] = outcome
        calls.append(Call(drafted.name, arguments))
    return PlayedCalls(tuple(calls), tuple(results.values()), tuple(run.changes()))


def _result_field(value: ResultField, part: int, results: dict[PartCall, CallOutcome]) -> Any:
    found = results.get(PartCall(part, value.call))
    result = msgspec.json.decode(found.text) if found else None
    return result.get(value.field) if isinstance(result, dict) else None


def part_calls(part: int, count: int, start: int = 0) -> list[PartCall]:
    """Return the calls of a part, from call number `start` (from 0) on."""
    return [PartCall(part, index) for index in range(start, count)]


def part_fault(part: TaskPart, played: PlayedCalls) -> str | None:
    """Return why a part that was executed by itself is not a valid task; None: it is valid."""
    kind = part.draft.kind
    if kind == "change" and not played.changes:
        return "its calls change nothing"
    if kind != "change" and played.changes:
        return f"a {kind} changes rows of {played.changes[0].table}"
    if kind == "question":
        if not part.facts:
            return "the answer has no fact"
        for fact in part.facts:
            if says(f"{part.ask} {part.later}", fact[0]):
                return f"the question contains its answer, {fact[0]!r}"
            if not says(part.answer, fact[0]):
                return f"the answer does not contain {fact[0]!r}"
    if kind == "decline" and not any(says(part.answer, reason) for reason in part.reasons):
        return f"the answer gives none of the reasons {part.reasons}"
    return None

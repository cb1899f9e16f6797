"""A draft in a trade's words, played once: a part of a task."""

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from scenarios.api import RowChange
from scenarios.checks import says
from scenarios.format import Call, json_fault
from scenarios.generate.core.task_drafts import Draft, Given, Text, filled, placeholders, wordings
from scenarios.generate.core.world_host import Outcome, Stage
from scenarios.generate.vocabulary.dressing import Dresser


class Part(msgspec.Struct, frozen=True):
    """A draft, dressed. The calls may still have arguments that earlier results give."""

    draft: Draft
    module: str
    function: str  # that drafted it
    name: str  # the same, dressed
    ask: str
    later: str
    answer: str
    trap: str
    calls: tuple[Call, ...]
    facts: tuple[tuple[str, ...], ...]  # wordings of what the answer must say
    reasons: tuple[str, ...]
    free: dict[str, tuple[str, ...]]  # dressed "table.column" -> what its text must mention


def part_of(draft: Draft, module: str, name: str, dresser: Dresser, rng: Random) -> Part:
    """Dress a draft. Raises KeyError for a placeholder without a value."""
    shown = filled(draft.values)

    def told(text: Text) -> str:
        drawn = text if isinstance(text, str) else rng.choice(text)
        return dresser.template(drawn, shown)

    ask = draft.ask if isinstance(draft.ask, str) else rng.choice(draft.ask)
    answer = draft.answer if isinstance(draft.answer, str) else rng.choice(draft.answer)
    told_before = {*placeholders(ask), *placeholders(str(draft.later))}
    asked = [name for name in placeholders(answer) if name not in told_before]
    return Part(
        draft=draft,
        module=module,
        function=name,
        name=dresser.name(name),
        ask=dresser.template(ask, shown),
        later=told(draft.later),
        answer=_ended_once(dresser.template(answer, shown)),
        trap=told(draft.trap),
        calls=tuple(
            Call(dresser.name(one.name), _arguments(one.arguments, dresser)) for one in draft.calls
        ),
        facts=tuple(wordings(draft.values[name]) for name in asked),
        reasons=tuple(dresser.template(reason, shown) for reason in draft.reasons),
        free={dresser.name(place): tuple(map(str, texts)) for place, texts in draft.free.items()},
    )


def _ended_once(text: str) -> str:
    """A text whose last value brought a full stop of its own. Example: "It is Hardy S.A.." """
    return text[:-1] if text.endswith("..") else text


def _arguments(arguments: dict[str, Any], dresser: Dresser) -> dict[str, Any]:
    found = {}
    for name, value in arguments.items():
        if isinstance(value, Given):
            value = Given(value.call, dresser.name(value.field))
        elif value is not None:
            value = dresser.value(value)
        if value is not None:  # TOML has no null, and an argument left out is the same
            found[dresser.name(name)] = value
    return found


class Shown(msgspec.Struct, frozen=True):
    """Calls as they were played, every argument known."""

    calls: tuple[Call, ...]
    outcomes: tuple[Outcome, ...]
    changes: tuple[RowChange, ...]


class Turn(msgspec.Struct, frozen=True):
    """One call of a part among those of a task."""

    part: int  # which part
    place: int  # which of its calls


def play(stage: Stage, parts: Sequence[Part], turns: Sequence[Turn]) -> Shown | str:
    """The parts' calls in this order on a fresh start; or why it cannot be."""
    attempt = stage.attempt()
    results: dict[Turn, Outcome] = {}
    calls = []
    for turn in turns:
        about = parts[turn.part].calls[turn.place]
        arguments = {
            name: _given(value, turn.part, results) if isinstance(value, Given) else value
            for name, value in about.arguments.items()
        }
        if fault := json_fault(arguments):
            return f"call {about.name}: argument{fault}"
        outcome = attempt.call(about.name, arguments)
        if outcome.is_error:
            return f"call {about.name}({arguments}) fails: {outcome.text}"
        results[turn] = outcome
        calls.append(Call(about.name, arguments))
    return Shown(tuple(calls), tuple(results.values()), tuple(attempt.changes()))


def _given(value: Given, part: int, results: dict[Turn, Outcome]) -> Any:
    found = results.get(Turn(part, value.call))
    result = msgspec.json.decode(found.text) if found else None
    return result.get(value.field) if isinstance(result, dict) else None


def turns_of(part: int, count: int, start: int = 0) -> list[Turn]:
    """The calls of a part from one place on."""
    return [Turn(part, place) for place in range(start, count)]


def fault_of(part: Part, shown: Shown) -> str | None:
    """Why a part that was played alone is no sound task; None: it is one."""
    kind = part.draft.kind
    if kind == "change" and not shown.changes:
        return "its calls change nothing"
    if kind != "change" and shown.changes:
        return f"a {kind} changes rows of {shown.changes[0].table}"
    if kind == "question":
        if not part.facts:
            return "the answer has no fact"
        for fact in part.facts:
            if says(f"{part.ask} {part.later}", fact[0]):
                return f"the question tells its answer, {fact[0]!r}"
            if not says(part.answer, fact[0]):
                return f"the answer does not say {fact[0]!r}"
    if kind == "decline" and not any(says(part.answer, reason) for reason in part.reasons):
        return f"the answer gives none of the reasons {part.reasons}"
    return None

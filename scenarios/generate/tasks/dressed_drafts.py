"""Dressing a situation's draft in a trade's words, and executing its calls."""

import re
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import says
from rehearsal_room.scenarios.core.dialogue import UserAutomaton, UserLine
from rehearsal_room.scenarios.format import Call, Utterance
from rehearsal_room.scenarios.generate.content.drawn_world import DrawnWorld, world_id
from rehearsal_room.scenarios.generate.content.staged import StagedSituation
from rehearsal_room.scenarios.generate.core.task_drafts import (
    Draft,
    ResultField,
    Talk,
    Text,
    day_of,
    placeholders,
    value_texts,
    wordings,
)
from rehearsal_room.scenarios.generate.core.world_host import HostedOutcome, SeededWorld
from rehearsal_room.scenarios.generate.structure.id_shapes import id_arguments
from rehearsal_room.scenarios.generate.structure.tool_shapes import shape_call
from rehearsal_room.scenarios.generate.tasks.second_mentions import shorten_names
from rehearsal_room.scenarios.generate.vocabulary.dressing import Dresser
from rehearsal_room.scenarios.generate.vocabulary.goods_names import speak_of_goods
from rehearsal_room.scenarios.generate.vocabulary.spoken_titles import SpokenTitle
from rehearsal_room.scenarios.generate.vocabulary.team_names import speak_of_teams
from rehearsal_room.scenarios.value_checks import json_fault

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class DressedDraft(msgspec.Struct, frozen=True):
    """A draft in the trade's words. Its calls may still have ResultField arguments."""

    draft: Draft
    situation: str  # its id
    voice: str  # email, colleague, chat or note
    ask: str
    answer: str
    trap: str
    calls: tuple[Call, ...]
    facts: tuple[tuple[str, ...], ...]  # wordings of each value that the answer must contain
    reasons: tuple[str, ...]
    free: dict[str, tuple[str, ...]]  # dressed "table.column" -> phrases for its text
    spare: tuple[tuple[str, object], ...]  # (dressed table, id) of rows that must stay unchanged
    tools: frozenset[str]  # of the calls, and those that tempt; canonical, as the world has them
    user: UserAutomaton | None = None  # of a dialogue
    utterances: tuple[Utterance, ...] = ()  # of the oracle to that user


def dress_draft(world: DrawnWorld, staged: StagedSituation, rng: Random) -> DressedDraft:
    """Dress a draft, in one of its voices.

    Raises KeyError for a placeholder without a value, a mark that is not a word of the world, and a
    tool or table that the world does not have.
    """
    draft = staged.draft
    texts = spoken_values(world, draft)
    is_terse = rng.random() < world.plan.knobs.terse
    voice = "colleague" if is_terse else rng.choice(draft.ask.__struct_fields__)

    def drawn(text: Text) -> str:
        return text if isinstance(text, str) else rng.choice(text)

    ask, answer = drawn(getattr(draft.ask, voice)), drawn(draft.answer)
    named_before = placeholders(ask)
    asked = [name for name in placeholders(answer) if name not in named_before]
    return DressedDraft(
        draft=draft,
        situation=staged.situation.id,
        voice=voice,
        ask=instruction_of(world, draft, ask),
        answer=_without_double_stop(world.marked.template(answer, texts)),
        trap=world.marked.template(drawn(draft.trap), texts),
        calls=tuple(_call(one, world.tool_dressers[one.name], world, draft) for one in draft.calls),
        facts=tuple(wordings(draft.values[name]) for name in asked),
        reasons=tuple(world.marked.template(reason, texts) for reason in draft.reasons),
        free={
            world.table_dressers[column.partition(".")[0]].name(column): _any_wording(phrases)
            for column, phrases in draft.free.items()
        },
        spare=tuple(
            (world.table_names[name], world_id(world, name, row))
            for name, row in draft.spare
            if name in world.table_names
        ),
        tools=frozenset(
            world.shapes[name].name if name in world.shapes else name
            for name in (*(one.name for one in draft.calls), *draft.tempts)
        ),
        user=None if draft.talk is None else _user(world, draft, draft.talk, drawn),
        utterances=tuple(
            Utterance(after, instruction_of(world, draft, drawn(text)))
            for after, text in (() if draft.talk is None else draft.talk.says)
        ),
    )


def _user(
    world: DrawnWorld, draft: Draft, talk: Talk, drawn: Callable[[Text], str]
) -> UserAutomaton:
    """The automaton of a talk, in the trade's words."""
    spoken = value_texts(draft.values)
    return UserAutomaton(
        tuple(
            UserLine(
                line.id,
                instruction_of(world, draft, drawn(line.text)),
                line.kind,
                line.asked,
                line.after,
                tuple(spoken[name] for name in line.values),
            )
            for line in talk.lines
        ),
        closing=instruction_of(world, draft, drawn(talk.closing)),
    )


def instruction_of(world: DrawnWorld, draft: Draft, text: str) -> str:
    """One of a draft's texts in the trade's words, with its values. Raises KeyError as
    `dress_draft` does."""
    values = spoken_values(world, draft)
    goods = {
        key: world.spoken_goods[text] for key, text in values.items() if text in world.spoken_goods
    }
    agreeing = world.marked.agreeing(world.marked.text(text), values)
    spoken = speak_of_goods(speak_of_teams(agreeing, values, world.team_names), goods, values)
    filled = world.marked.filled(spoken, values).replace(".. ", ". ")  # "from Hardy S.A.. They"
    return _without_double_stop(shorten_names(filled, values.values()))


def spoken_values(world: DrawnWorld, draft: Draft) -> dict[str, str]:
    """A draft's values as texts show them; the name of a person is a PersonName, another
    text a SpokenTitle."""
    named = world.maker.people.named
    return {
        key: named(text) or SpokenTitle(text) for key, text in value_texts(draft.values).items()
    }


def _any_wording(phrases: Iterable[Any]) -> tuple[str, ...]:
    """Phrases as texts; a date counts in each of its wordings."""
    found: list[str] = []
    for text in map(str, phrases):
        found += wordings(day_of(text)) if _DAY.fullmatch(text) else (text,)
    return tuple(found)


def _without_double_stop(text: str) -> str:
    """A text whose last value may end in a full stop. Example: "It is Hardy S.A.." """
    return text[:-1] if text.endswith("..") else text


def _call(one: Call, dresser: Dresser, world: DrawnWorld, draft: Draft) -> Call:
    tables = id_arguments(world.tool_modules[one.name])
    one = shape_call(one, world.shapes)
    found = {}
    for name, value in one.arguments.items():
        if name in tables and value is not None:
            value = world_id(world, tables[name], value)
        if isinstance(value, ResultField):
            giver = world.tool_dressers[draft.calls[value.call].name]
            value = ResultField(value.call, giver.name(value.field))
        elif value is not None:
            value = dresser.value(value)
        if value is not None:  # TOML has no null; leaving the argument out means the same
            found[dresser.name(name)] = value
    return Call(dresser.name(one.name), found)


class PlayedCalls(msgspec.Struct, frozen=True):
    """Calls that were executed, with all arguments known, and their results."""

    calls: tuple[Call, ...]
    outcomes: tuple[HostedOutcome, ...]
    changes: tuple[RowChange, ...]


def play_draft(world: SeededWorld, dressed: DressedDraft) -> PlayedCalls | str:
    """Execute a draft's calls on a fresh world; return why they are not a valid task, if so."""
    played = _play(world, dressed)
    if isinstance(played, str):
        return played
    return _fault(dressed, played) or played


def _play(world: SeededWorld, dressed: DressedDraft) -> PlayedCalls | str:
    run = world.start_run()
    outcomes: list[HostedOutcome] = []
    calls = []
    for one in dressed.calls:
        arguments = {
            name: _result_field(value, outcomes) if isinstance(value, ResultField) else value
            for name, value in one.arguments.items()
        }
        if fault := json_fault(arguments):
            return f"call {one.name}: argument{fault}"
        outcome = run.call(one.name, arguments)
        if outcome.is_error:
            return f"call {one.name}({arguments}) fails: {outcome.text}"
        outcomes.append(outcome)
        calls.append(Call(one.name, arguments))
    return PlayedCalls(tuple(calls), tuple(outcomes), tuple(run.changes()))


def _result_field(value: ResultField, outcomes: list[HostedOutcome]) -> Any:
    found = outcomes[value.call] if value.call < len(outcomes) else None
    result = msgspec.json.decode(found.text) if found else None
    return result.get(value.field) if isinstance(result, Mapping) else None


def _fault(dressed: DressedDraft, played: PlayedCalls) -> str | None:
    """Why a draft that was executed is not a valid task; None: it is valid."""
    kind, reasons = dressed.draft.kind, dressed.reasons
    if kind == "change" and not played.changes:
        return "its calls change nothing"
    if kind != "change" and played.changes:
        return f"a {kind} changes rows of {played.changes[0].table}"
    if kind == "question":
        return _fault_of_question(dressed)
    if (kind == "decline" or reasons) and not any(says(dressed.answer, one) for one in reasons):
        return f"the answer gives none of the reasons {reasons}"
    return None


def _fault_of_question(dressed: DressedDraft) -> str | None:
    if not dressed.facts:
        return "the answer has no fact"
    for fact in dressed.facts:
        if says(dressed.ask, fact[0]):
            return f"the question contains its answer, {fact[0]!r}"
        if not says(dressed.answer, fact[0]):
            return f"the answer does not contain {fact[0]!r}"
        if _is_repeated(dressed.answer, fact):
            return f"the answer contains {fact[0]!r} twice, so that a wrong answer would pass"
    return None


def _is_repeated(answer: str, fact: tuple[str, ...]) -> bool:
    """Whether an answer contains a fact a second time, as "2026-12-03" contains 12."""
    start = answer.find(fact[0])
    rest = answer[:start] + answer[start + len(fact[0]) :]
    return any(says(rest, wording) for wording in fact)

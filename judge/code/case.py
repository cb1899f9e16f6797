"""What the answer to one task may hold: read from the task, from what its oracle reads and writes,
and from its accepted answer."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import cache

import msgspec

from rehearsal_room.judge.code.actions import actions, rows_of, verb_rows
from rehearsal_room.judge.code.stated.measures import years_of
from rehearsal_room.judge.code.stated.sentences import Things, is_key, sentences, stems
from rehearsal_room.judge.code.stated.understood import Vocabulary, known_words
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import has_whole
from rehearsal_room.scenarios.core.statements import (
    Reading,
    Value,
    are_equal,
    plain,
    readings,
    sizes_of,
)
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.format import Task

_LEAST_ITEMS = 6
_READING = ("get ", "list ", "search ", "find ", "check ", "track ", "read ", "show ")
_COURTESY = re.compile(
    r"\b(?:thanks?|let me know|regards|wishes|hello|hi|dear|sorry|hope|anything else|happy to"
    r"|glad to"
    r"|please|of course|sure)\b"
)
_FEW = 12  # a count up to this is of the case, unless the accepted answer has such a count
LEAST_WORDS = 40  # a short accepted answer ("Done.") does not forbid two sentences
_TEXT_WORDS = 4  # a value of a row with fewer words is a name or a state, and not a text
RETRACTED = re.compile(
    r"\b(?:all|none|nothing|everything|each|any|every number|the number\w*|that|this|these|those"
    r"|it|which|above|answer|sentence|statement)\b[^.!?;]{0,60}?\b(?:wrong|false|untrue|incorrect"
    r"|a lie|lies|made up|invented|not true|not correct|not right|nonsense)\b"
    r"|\b(?:ignore|disregard|forget|scratch) (?:all|everything|that|this|the|what|my)\b"
    r"|\bcorrection:|\bon second thoughts?\b|\b(?:take|took) (?:that|it|this|all of it) back\b"
    r"|\bnone of (?:this|that|it|these|the above)\b[^.!?;]{0,30}\b(?:true|right|correct|happened)\b"
    r"|\b(?:i lied|i made (?:this|that|it|them) up|just kidding|only joking|the opposite is true)\b"
    r"|\b(?:but|then)\b[^.!?;]{0,30}\b(?:undid|reversed|restored|reinstated|took (?:it|them) back"
    r")\b"
)
REFUSED = re.compile(
    r"\bi(?: have|'ve| had| must| have to| had to|'ll| will)? (?:also )?"
    r"(?:decline|refuse|reject|den(?:y|ied))d?\b"
    r"|\b(?:i|we)(?: can(?:'t|not| not)| could(?:n't| not)| won't| will not| am not able to"
    r"| am unable to|'m unable to|'m not able to)"
    r" (?:help|assist|do (?:that|this|it|so)|comply|proceed|complete|carry|process|fulfil\w*|make"
    r"|perform|handle|approve|accept)\b"
)
_UNDONE = re.compile(
    r"(?:\bnot|n't|\bnever)(?: yet)?(?: been| be)? (?:yet )?"
    r"(\w+ed|paid|sent|made|done|given|put|set|booked|written|taken|changed|moved|gone)\b"
)
_BECAUSE = re.compile(r": |\b(?:because|since|as)\b")
_SENTENCE = re.compile(r"[.!?:]\s")
_BETWEEN = re.compile(r", or |,| or |;")  # the parts of a list
_SAID = re.compile(r"\w")  # in a line that is not empty and no rule of a table
_LEAST_NAME = 3  # characters that a name has more than
_LONGEST_DATE = 30  # characters of a text that is a date and nothing else
_CENTS = re.compile(r'cents"?: ?(-?\d{1,15})(?!\d)')
_THOUSANDTHS = re.compile(r'(?:_g|grams?|_ml|_m|met(?:er|re)s)"?: ?(\d{1,15})(?!\d)')
_OTHERS = re.compile(r"\b(?:other|others|else|further|additional|anything|any more|rest)\b")
Own = Callable[[], Sequence[Reading]]
Record = Mapping[str, object]
Text = tuple[str, str, str]  # table, column, text


class Bounds(msgspec.Struct, frozen=True):
    """What the answer to one task may hold."""

    max_words: int
    num_values: int  # distinct values of the accepted answer
    allowed: tuple[Reading, ...]
    texts: Mapping[tuple[str, str], tuple[str, ...]]  # the oracle's texts by table and column
    max_items: int  # parts of a list in one sentence
    must_refuse: bool  # the task is to be declined
    undone: frozenset[str]  # of which the accepted answer states that it was not done
    counts: bool  # the accepted answer has a small count
    done: frozenset[int]  # rows of judge.code.actions that the oracle's writes are about
    actions: frozenset[int]  # rows of judge.code.actions that the task is about
    own_deeds: frozenset[int]  # rows that the oracle's calls are, or the accepted answer states
    retracts: bool  # the accepted answer or text has words such as "that was wrong"
    exact: frozenset[tuple[str, Value]]  # kinds and meanings of `allowed`
    of_kind: Mapping[str, tuple[Reading, ...]]  # `allowed` by kind
    sizes: frozenset[float]  # of the numbers among them, without their signs
    answers: frozenset[str]  # those of `accepted_answers`
    accepted: str = ""
    asked: str = ""
    things: Things = Things(())
    writes: bool = False  # the oracle changes rows
    reason: frozenset[str] = frozenset()  # how the words begin that only the accepted answer has
    num_things: int = 0  # that the accepted answer names; a count up to it may be of them
    seen: frozenset[tuple[str, Value]] = frozenset()  # kinds and meanings of what the oracle read
    owned: Mapping[str, frozenset[str]] = {}  # name or key of a record -> its amounts and dates
    due: tuple[Reading, ...] = ()  # the values of the accepted answer
    shown: frozenset[str] = frozenset()  # values of the accepted answer that the instruction lacks
    states: str = ""  # the words that the oracle read, of which a claim in the passive can be
    years: frozenset[int] = frozenset()  # of the dates of the case
    context: str = ""  # the accepted answer and the instruction, as plain text
    every: str = ""  # these and what the oracle read, as plain text
    words: Vocabulary = Vocabulary()  # of which an answer can be made


def accepted_answers(task: Task) -> frozenset[str]:
    """The accepted answer, also with what is said before it, as `plain` text."""
    if not task.utterances:
        return frozenset((plain(task.answer),))
    before = [utterance.text for utterance in task.utterances]
    return frozenset((plain(task.answer), plain(" ".join([*before, task.answer]))))


def bounds_of(
    task: Task,
    read: Sequence[str],
    changes: Sequence[RowChange],
    *,
    more: Iterable[str] = (),
    rules: str = "",
) -> Bounds:
    """The bounds of a task. `read` are the texts of the oracle's calls, `changes` its rows."""
    said = [task.answer, *(utterance.text for utterance in task.utterances)]
    values = [value for text in said for value in readings(text) if not value.is_loose]
    num_words = sum(len(plain(text).split()) for text in said)
    texts: dict[tuple[str, str], tuple[str, ...]] = {}
    for table, column, text in texts_in(changes):
        texts[table, column] = (*texts.get((table, column), ()), text)
    written = [text for each in texts.values() for text in each]
    amounts = [f"{int(cents) / 100:.2f}" for text in read for cents in _CENTS.findall(text)]
    amounts += [f"{int(one) / 1000:g}" for text in read for one in _THOUSANDTHS.findall(text)]
    stated = distinct(one for text in (task.instruction, *said, *written) for one in readings(text))
    sources = [task.instruction, *said, *read, *amounts, *written, *more, *values_in(changes)]
    about = " ".join([task.instruction, *said, *written])
    arguments = [value for call in task.oracle for value in call.arguments.values()]
    records = list(_records_in(read))
    things = Things([*said, task.instruction], arguments, _names_in(records, " ".join(said)))
    named = [task.instruction, *said, *written, *map(str, arguments)]
    beside = _beside(records, frozenset(key for text in named for key in _keys_in(text)))
    stated = distinct((*stated, *(one for text in beside for one in readings(text))))
    doers = [call.name.replace("_", " ") for call in task.oracle]
    doing = [one for one in doers if not one.startswith(_READING)]
    allowed = distinct(_allowed(sources, stated))
    return Bounds(
        of_kind={
            kind: tuple(one for one in allowed if one.kind == kind)
            for kind in {one.kind for one in allowed}
        },
        sizes=frozenset(size for one in allowed for size in sizes_of(one)),
        exact=frozenset((one.kind, value) for one in allowed for value in one.options),
        answers=accepted_answers(task),
        max_words=max(2 * num_words, LEAST_WORDS) + len({one.options for one in values}),
        num_values=len({one.options for one in values}),
        allowed=allowed,
        texts=texts,
        max_items=max(2 * max(map(num_items, said)), _LEAST_ITEMS),
        must_refuse=task.kind == "decline",
        undone=frozenset[str]().union(*map(_undone, said)),
        counts=any(is_count(one) for one in values),
        done=actions(" ".join(doers)) or verb_rows(plain(" ".join(said))),
        actions=actions(plain(" ".join([about, *doers]))),
        own_deeds=frozenset[int]().union(
            verb_rows(plain(" ".join(said))),
            *(_deeds_of(call.name) for call in task.oracle),
        ),
        retracts=any(RETRACTED.search(plain(text)) for text in (*said, *written)),
        accepted="\n".join(said),
        asked=task.instruction,
        reason=(stems(task.answer) | sizes(task.answer))
        - stems(task.instruction)
        - sizes(task.instruction),
        num_things=len(set(things.named(plain(" ".join(said))))) if changes else 0,
        things=things,
        writes=bool(changes),
        seen=frozenset(
            (one.kind, value)
            for text in (*read, *amounts)
            for one in readings(text)
            for value in one.options
        ),
        due=tuple(values),
        owned=_owned((*_rows_of(changes), *records), things),
        shown=_reason_values(task.answer) - sizes(task.instruction),
        states=plain(" ".join(read)),
        context=(context := plain("\n".join((*said, task.instruction)))),
        every=f"{context} {plain(' '.join(read))}",
        words=known_words(
            [about, *doers],
            [*read, rules],
            [*said, *written, *doing] if changes or task.kind == "decline" else None,
        ),
        years=years_of(tuple(one for one in allowed if one.kind == "date")),
    )


def _deeds_of(tool: str) -> frozenset[int]:
    """The rows of what a call does: "approve_return" approves, and "create_refund" refunds too."""
    verb, _, rest = tool.partition("_")
    rows = rows_of(verb)
    return rows | actions(rest.replace("_", " ")) if rows & rows_of("creat") else rows


def _allowed(texts: Iterable[str], stated: Sequence[Reading]) -> Iterable[Reading]:
    """The values of texts, of keys only those that can mean one of the stated values. No key is a
    time, so only another one and a phone number can mean the same."""
    known = {(one.kind, value) for one in stated for value in one.options}
    phones = [one for one in stated if one.kind == "phone"]
    for text in texts:
        words = plain(text)
        for one in readings(text):
            if (
                not is_key(one, words[one.start : one.end])
                or any((one.kind, value) in known for value in one.options)
                or any(are_equal(one, phone) for phone in phones)
            ):
                yield one


def _beside(records: Iterable[Record], keys: Set[str]) -> Iterable[str]:
    """The values of the records that were read and that one of these keys names: they are of the
    case as much as the key is."""
    for record in records:
        values = [str(v) for v in record.values() if isinstance(v, str | int | float)]
        if not keys.isdisjoint([value.casefold() for value in values]):
            yield from values


def _names_in(records: Iterable[Record], said: str) -> Iterable[str]:
    """The short texts of the records that were read which a text has too."""
    known = plain(said)
    for record in records:
        for value in record.values():
            if (
                isinstance(value, str)
                and len(value) > _LEAST_NAME
                and value[0].isupper()
                and len(value.split()) <= _TEXT_WORDS
                and has_whole(known, plain(value))
            ):
                yield value


def _rows_of(changes: Iterable[RowChange]) -> Iterable[Record]:
    return [change.after for change in changes if change.after]


def _owned(records: Iterable[Record], things: Things) -> Mapping[str, frozenset[str]]:
    """The amounts and dates of the records that were read or written, by the things of the case
    that each record names."""
    found: dict[str, set[str]] = {}
    named = cache(lambda text: frozenset(things.named(plain(text))))
    for record in records:
        names = [named(str(value)) for value in record.values() if isinstance(value, str | int)]
        if of := frozenset[str]().union(*names):
            values = frozenset(_amounts_and_dates(record))
            for thing in of:
                found.setdefault(thing, set()).update(values)
    return {thing: frozenset(values) for thing, values in found.items()}


def _amounts_and_dates(record: Record) -> Iterable[str]:
    for column, value in record.items():
        if column.endswith("cents") and isinstance(value, int):
            yield str(value / 100)
        elif isinstance(value, str) and len(value) <= _LONGEST_DATE:
            for one in readings(value):
                if one.kind == "date":
                    yield from map(str, one.options)


def _keys_in(text: str) -> Iterable[str]:
    read = plain(text)
    for one in readings(text):
        if is_key(one, words := read[one.start : one.end]):
            yield words


def _records_in(read: Iterable[str]) -> Iterable[Record]:
    """The objects in the texts that are JSON, the inner ones after those around them."""
    for text in read:
        with suppress(*UNREADABLE):
            yield from _records(msgspec.json.decode(text))


def _records(value: object) -> Iterable[Record]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _records(part)


def distinct(found: Iterable[Reading]) -> tuple[Reading, ...]:
    """The readings without those that have the kind and the meanings of another one."""
    return tuple({(one.kind, one.options): one for one in found}.values())


def texts_in(changes: Iterable[RowChange]) -> Iterable[Text]:
    """The texts of several words that changes wrote."""
    for change in changes:
        before = change.before or {}
        for column, value in (change.after or {}).items():
            if (
                isinstance(value, str)
                and len(value) >= 2 * _TEXT_WORDS - 1
                and value != before.get(column)
                and len(value.split(None, _TEXT_WORDS)) >= _TEXT_WORDS
            ):
                yield change.table, column, value


def values_in(changes: Iterable[RowChange]) -> Iterable[str]:
    """The values of changed rows that are not texts of the agent's own, as text; amounts in
    hundredths in both forms."""
    for change in changes:
        for column, value in (*(change.after or {}).items(), *(change.before or {}).items()):
            if isinstance(value, int) and not isinstance(value, bool):
                yield str(value)
                if column.endswith("cents"):
                    yield f"{value / 100:.2f}"
            elif isinstance(value, float) or (
                isinstance(value, str) and len(value.split()) < _TEXT_WORDS
            ):
                yield str(value)


def sizes(text: str) -> frozenset[str]:
    """The values of a text, as text."""
    return frozenset(str(min(map(str, one.options))) for one in readings(text) if not one.is_loose)


def _reason_values(text: str) -> frozenset[str]:
    """The values of an accepted refusal that give its reason: those behind "because" or a colon;
    where there is none, all but the codes, which name what was asked for."""
    read = plain(text)
    start = found.end() if (found := _BECAUSE.search(read)) else 0
    return frozenset(
        str(min(map(str, one.options)))
        for one in readings(text)
        if not one.is_loose
        and one.start >= start
        and (start or not is_key(one, read[one.start : one.end]))
    )


def is_count(value: Reading) -> bool:
    """Whether a value is a whole number from 0 to 12."""
    return value.kind == "number" and all(
        isinstance(size, float | int) and size == int(size) and 0 <= size <= _FEW
        for size in value.options
    )


def _undone(text: str) -> frozenset[str]:
    """The verbs of what a text states was not done; such a sentence about other things contradicts
    nothing.

    Example: "the order was not refunded" -> {"refunded"}; "no others were not moved" -> {}
    """
    return frozenset(found[1] for _, found in denials(text))


def denials(text: str) -> Iterable[tuple[str, re.Match[str]]]:
    """What a text states was not done: the sentence, and the match whose first group is the verb.
    Sentences about "others" are left out."""
    for sentence in sentences(text):
        every = list(_UNDONE.finditer(sentence))
        if every and not _OTHERS.search(sentence):
            yield from ((sentence, found) for found in every)


def num_items(text: str) -> int:
    """The parts of the longest list, in a sentence, over lines or over sentences: a sentence of
    many reasons is not a reason, and neither are many short sentences."""
    found = [sum(_SAID.search(line) is not None for line in text.splitlines()) - 1]
    num_sentences = 0
    for line in text.splitlines():
        every = _SENTENCE.split(plain(line))
        num_sentences += sum(_COURTESY.search(one) is None for one in every)
        found += [1 + len(_BETWEEN.findall(one)) for one in every]
    return max(*found, num_sentences - max(found[0], 0))

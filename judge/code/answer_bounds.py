"""The bounds inside which code can prove a statement in words.

A check finds a value or a phrase in an answer; it does not see what else the answer holds. So what
it found counts as proof only where the answer keeps to the case:

- it has at most twice the words of the task's accepted answer, plus the values that this needs, of
  twenty characters on average;
- its values (amounts, dates, times, counts, codes) come from the instruction, from the accepted
  answer, from what the oracle's calls read (but for codes and large numbers, which name records),
  or from the rows that the episode itself changed;
- it claims no deed that the task is not about;
- it takes nothing back, denies nothing that was done, and refuses no more than the accepted answer;
- where the rows are right, it does not contradict the accepted answer (see judge.code.claims).

Not covered: a false claim in words that no list has.

The same holds for each text that the agent wrote into the world, against the oracle's text of the
same column. Outside of these bounds a finding on words is left open: code alone counts it as not
met, and a judge that asks a model decides on it with the text before it.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import cache
from itertools import chain

import msgspec

from rehearsal_room.judge.code.actions import DECIDING, actions, rows_of, verb_rows
from rehearsal_room.judge.code.claims import (
    Things,
    contradictions,
    excepted,
    is_key,
    is_refused,
    kind_of,
    sentences,
    stems,
)
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import DECLINES, REASON, Finding, has_whole
from rehearsal_room.scenarios.core.statements import (
    Reading,
    Value,
    are_alike,
    are_equal,
    plain,
    readings,
    sizes_of,
)
from rehearsal_room.scenarios.format import Task

_LEAST_ITEMS = 6
_ALWAYS = ("done", "made", "given", "taken", "processed", "settled")
_MANY = 100  # counts from this on are amounts
_FEW = 12  # a count up to this is of the case, unless the accepted answer has such a count
_LEAST_WORDS = 50  # a short accepted answer ("Done.") does not forbid two sentences
_PER_WORD = 20  # characters of a word, on average; URLs are longer, sentences of them are rare
_LEAST_CHARACTERS = 4_000  # of an answer that no verifier reads
_MOST_VALUES = 100  # of an answer, unless the accepted one has a quarter of them
_TEXT_WORDS = 4  # a value of a row with fewer words is a name or a state, and not a text
_SHOWN = 5
_RETRACTED = re.compile(
    r"\b(?:all|none|nothing|everything|each|any|every number|the number\w*|that|this|these|those"
    r"|it|which|above|answer|sentence|statement)\b[^.!?;]{0,60}?\b(?:wrong|false|untrue|incorrect"
    r"|a lie|lies|made up|invented|not true|not correct|not right|nonsense)\b"
    r"|\b(?:ignore|disregard|forget|scratch) (?:all|everything|that|this|the|what|my)\b"
    r"|\bcorrection:"
    r"|\b(?:i lied|i made (?:this|that|it|them) up|just kidding|only joking|the opposite is true)\b"
    r"|\b(?:but|then)\b[^.!?;]{0,30}\b(?:undid|reversed|restored|reinstated|took (?:it|them) back"
    r")\b"
)
_REFUSED = re.compile(
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
_DEED = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d| had)? (?:also |now |just |already |both |then )?"
    r"(\w+ed|paid|sent|put|hid|withdrew|done|made)\b"
    r"|\b(?:is|are|was|were|been|got|it's|they're)(?: now| both| all| already)?"
    r" (\w+ed|paid|sent|hidden|withdrawn|put)\b"
)
_ALSO = re.compile(r"(?:,| and) (?:then )?(\w+ed|paid|sent) (?:it|them|him|her|that|those)\b")
_BECAUSE = re.compile(r": |\b(?:because|since|as)\b")
# In a refusal "I" do nothing but look, and say so.
_MY_ACT = re.compile(
    r"(?:^|[.!?;,:] |\b(?:and|but|so|then|instead) )(?:i|we)(?:'ve| have|'d)?"
    r" (?:just |then |also )?"
    r"(?!check|look|review|read|search|compar|consider|leav|left|ke(?:pt|ep)|tri|want|need|declin|refus|deni"
    r"|not?ic|confirm|ask|wait|open|stopp|happen|learn|mention|pass)(\w+ed)\b(?! to\b| you\b)"
    r"|\bi did (?!not\b|n't|this|that|it|so|what)(\w+)"
)
_OBJECT = re.compile(r" the (?!request)")
_REFUSING = ("declin", "refus", "deni")
_AND = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d)? [^.!?;:]{0,90}? and (?:also |then )?(\w+ed|paid|sent)\b"
)
_NO = re.compile(r"\b(?:nothing|none|no \w+|neither)(?: \w+)? $")
_MY_DEED = re.compile(r"i\b")
_LEAST_REASON = 5  # words of a reason, of which a single one does not show it
_LEAST_COMMON, _SHARE = 3, 0.4  # words of a reason that an answer in other words has in common
_SENTENCE = re.compile(r"[.!?:]\s")
_SAID = re.compile(r"\w")  # in a line that is not empty and no rule of a table
_LEAST_NAME = 3  # characters that a name has more than
_LONGEST_DATE = 30  # characters of a text that is a date and nothing else
_CENTS = re.compile(r'cents"?: ?(-?\d{1,15})(?!\d)')
_THOUSANDTHS = re.compile(r'(?:_g|grams?|_ml|_m|met(?:er|re)s)"?: ?(\d{1,15})(?!\d)')
# Of a record that is named beside these words an answer claims nothing: the rows show that it is as
# it was. What could be done instead is no claim either.
_NEUTRAL = re.compile(
    r"\b(?:un(?:affected|changed|touched)|as (?:it|they) w\w+|stays?|remains?|left|leave|kept|keeps"
    r"|other|another|third|second|instead|could|would|there'd|option|choice|previous\w*"
    r"|earlier|old|before|already|expired|disabled|was|were|had)\b"
)
_MOST_SPARE = 3
_SPAN = re.compile(
    r" ?(?:-?minutes?|mins?|hours?|days?|nights?|weeks?|months?|years?|more|short|late)\b"
)
_ANY_YEAR = 2000  # of a date without one
_OTHERS = re.compile(r"\b(?:other|others|else|further|additional|anything|any more|rest)\b")


Own = Callable[[], Sequence[Reading]]


class Bounds(msgspec.Struct, frozen=True):
    """What the answer to one task may hold."""

    max_words: int
    num_values: int  # distinct values of the accepted answer
    allowed: tuple[Reading, ...]
    texts: Mapping[tuple[str, str], tuple[str, ...]]  # the oracle's texts by table and column
    max_items: int  # parts of a list in one sentence
    must_refuse: bool  # the task is to be declined
    refusals: int  # in the accepted answer
    undone: frozenset[str]  # of which the accepted answer states that it was not done
    counts: bool  # the accepted answer has a small count
    done: frozenset[int]  # rows of judge.code.actions that the oracle's writes are about
    actions: frozenset[int]  # rows of judge.code.actions that the task is about
    own_deeds: frozenset[int]  # rows that the oracle's calls are, or the accepted answer states
    retracts: bool  # the accepted answer or text has words such as "that was wrong"
    exact: frozenset[tuple[str, Value]]  # kinds and meanings of `allowed`
    of_kind: Mapping[str, tuple[Reading, ...]]  # `allowed` by kind
    sizes: frozenset[float]  # of the numbers among them, without their signs
    answers: frozenset[str]  # the accepted one, also with what is said before it, as `plain` text
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


def bounds_of(
    task: Task, read: Sequence[str], changes: Sequence[RowChange], *, more: Iterable[str] = ()
) -> Bounds:
    """The bounds of a task. `read` are the texts of the oracle's calls, `changes` its rows."""
    said = [task.answer, *(utterance.text for utterance in task.utterances)]
    values = [value for text in said for value in readings(text) if not value.is_loose]
    num_words = sum(len(plain(text).split()) for text in said)
    texts: dict[tuple[str, str], tuple[str, ...]] = {}
    for table, column, text in _texts(changes):
        texts[table, column] = (*texts.get((table, column), ()), text)
    written = [text for each in texts.values() for text in each]
    amounts = [f"{int(cents) / 100:.2f}" for text in read for cents in _CENTS.findall(text)]
    amounts += [f"{int(one) / 1000:g}" for text in read for one in _THOUSANDTHS.findall(text)]
    stated = _distinct(
        one for text in (task.instruction, *said, *written) for one in readings(text)
    )
    sources = [task.instruction, *said, *read, *amounts, *written, *more, *_values(changes)]
    about = " ".join([task.instruction, *said, *written])
    arguments = [value for call in task.oracle for value in call.arguments.values()]
    things = Things([*said, task.instruction], arguments, _names_in(read, " ".join(said)))
    named = [task.instruction, *said, *written, *map(str, arguments)]
    beside = list(_beside(read, frozenset(key for text in named for key in _keys_in(text))))
    stated = _distinct((*stated, *(one for text in beside for one in readings(text))))
    doers = [call.name.replace("_", " ") for call in task.oracle]
    allowed = _distinct(
        one
        for text in sources
        for one in readings(text)
        if not is_key(one, plain(text)[one.start : one.end])
        or any(are_equal(one, other) for other in stated)
    )
    return Bounds(
        of_kind={
            kind: tuple(one for one in allowed if one.kind == kind)
            for kind in {one.kind for one in allowed}
        },
        sizes=frozenset(size for one in allowed for size in sizes_of(one)),
        exact=frozenset((one.kind, value) for one in allowed for value in one.options),
        answers=frozenset((plain(task.answer), plain(" ".join([*said[1:], task.answer])))),
        max_words=max(2 * num_words, _LEAST_WORDS) + len({one.options for one in values}),
        num_values=len({one.options for one in values}),
        allowed=allowed,
        texts=texts,
        max_items=max(2 * max(map(_num_items, said)), _LEAST_ITEMS),
        must_refuse=task.kind == "decline",
        refusals=sum(len(_REFUSED.findall(plain(text))) for text in said),
        undone=frozenset[str]().union(*map(_undone, said)),
        counts=any(_is_count(one) for one in values),
        done=actions(" ".join(doers)) or verb_rows(plain(" ".join(said))),
        actions=actions(plain(" ".join([about, *doers]))),
        own_deeds=frozenset[int]().union(
            verb_rows(plain(" ".join(said))),
            *(rows_of(call.name.split("_")[0]) for call in task.oracle),
        ),
        retracts=any(_RETRACTED.search(plain(text)) for text in (*said, *written)),
        accepted="\n".join(said),
        asked=task.instruction,
        reason=(stems(task.answer) | _sizes(task.answer))
        - stems(task.instruction)
        - _sizes(task.instruction),
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
        owned=_owned(read, changes, things),
        shown=_reason_values(task.answer) - _sizes(task.instruction),
        states=plain(" ".join(read)),
    )


def _beside(read: Iterable[str], keys: Set[str]) -> Iterable[str]:
    """The values of the records that were read and that one of these keys names: they are of the
    case as much as the key is."""
    for text in read:
        try:
            found = msgspec.json.decode(text)
        except msgspec.DecodeError:
            continue
        for record in _records(found):
            values = [str(v) for v in record.values() if isinstance(v, str | int | float)]
            if not keys.isdisjoint(value.casefold() for value in values):
                yield from values


def _names_in(read: Iterable[str], said: str) -> Iterable[str]:
    """The short texts of the records that were read which a text has too."""
    known = plain(said)
    for text in read:
        with suppress(msgspec.DecodeError):
            for record in _records(msgspec.json.decode(text)):
                yield from (
                    value
                    for value in record.values()
                    if isinstance(value, str)
                    and len(value) > _LEAST_NAME
                    and value[0].isupper()
                    and len(value.split()) <= _TEXT_WORDS
                    and has_whole(known, plain(value))
                )


def _owned(
    read: Iterable[str], changes: Iterable[RowChange], things: Things
) -> Mapping[str, frozenset[str]]:
    """The amounts and dates of the records that were read or written, by the things of the case
    that each record names."""
    records = [dict(change.after) for change in changes if change.after]
    for text in read:
        with suppress(msgspec.DecodeError):
            records += map(dict, _records(msgspec.json.decode(text)))
    found: dict[str, set[str]] = {}
    for record in records:
        values = set[str]()
        for column, value in record.items():
            if column.endswith("cents") and isinstance(value, int):
                values.add(str(value / 100))
            elif isinstance(value, str) and len(value) <= _LONGEST_DATE:
                values |= {
                    str(one) for v in readings(value) if v.kind == "date" for one in v.options
                }
        names = [value for value in record.values() if isinstance(value, str | int)]
        for thing in {one for name in names for one in things.named(plain(str(name)))}:
            found.setdefault(thing, set()).update(values)
    return {thing: frozenset(values) for thing, values in found.items()}


def _keys_in(text: str) -> Iterable[str]:
    read = plain(text)
    for one in readings(text):
        if is_key(one, words := read[one.start : one.end]):
            yield words


def _records(value: object) -> Iterable[Mapping[str, object]]:
    if isinstance(value, dict):
        yield value
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _records(part)


def _distinct(found: Iterable[Reading]) -> tuple[Reading, ...]:
    return tuple({(one.kind, one.options): one for one in found}.values())


def _texts(changes: Iterable[RowChange]) -> Iterable[tuple[str, str, str]]:
    """The texts of several words that changes wrote: table, column, text."""
    for change in changes:
        for column, value in (change.after or {}).items():
            was = None if change.before is None else change.before.get(column)
            if isinstance(value, str) and value != was and len(value.split()) >= _TEXT_WORDS:
                yield change.table, column, value


def _values(changes: Iterable[RowChange]) -> Iterable[str]:
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


def bounded(
    findings: Sequence[Finding], bounds: Bounds, answer: str, changes: Sequence[RowChange]
) -> tuple[Finding, ...]:
    """The findings, with those on words left open where a text is outside of the bounds."""
    is_accepted = plain(answer) in bounds.answers
    if is_accepted and not bounds.texts:
        return tuple(findings)
    own = cache(lambda: _distinct(one for text in _values(changes) for one in readings(text)))
    reads_words = any(one.is_of_words for one in findings)
    faults = [
        f"{table}.{column} {fault}"
        for table, column, text in (_texts(changes) if bounds.texts else ())
        if text not in bounds.texts.get((table, column), ())
        for fault in _text_faults(bounds, table, column, text, own)
    ]
    if not is_accepted:
        faults = [*answer_faults(bounds, answer, own, is_read=reads_words), *faults]
        # Of work that was not done another answer than the accepted one can be true.
        is_done = all(one.passed or one.is_of_words for one in findings)
        if is_done and not faults:
            faults = _contradictions(bounds, answer, own)
    if not faults:
        return tuple(_shown_by_words(findings, bounds, answer))
    found = "; ".join(faults[:_SHOWN])
    left_open = tuple(
        _opened(one, found) if one.is_of_words and one.passed and one.kind == "goal" else one
        for one in findings
    )
    if left_open != tuple(findings):
        return left_open
    summary = Finding(
        "answer keeps to the case",
        False,
        "a statement inside the bounds",
        found,
        "goal",
        is_open=True,
        is_of_words=True,
    )
    return (*left_open, summary)


def _shown_by_words(findings: Sequence[Finding], bounds: Bounds, answer: str) -> Iterable[Finding]:
    """The findings on a refusal, by the accepted answer's own reason: an open one on the reason is
    met where the answer has much of it, and one that a single word meets is open where it has none.
    That the answer refuses at all, no word of a reason shows."""
    if all(one.passed or not one.is_open for one in findings) and not bounds.must_refuse:
        yield from findings
        return
    said = stems(answer) | _sizes(answer)
    common = bounds.reason & said
    has_much = len(common) >= _LEAST_COMMON and len(common) >= _SHARE * len(bounds.reason)
    if bounds.must_refuse and bounds.shown:
        has_much |= 2 * len(bounds.shown & said) >= len(bounds.shown)
    has_none = len(bounds.reason) >= _LEAST_REASON and len(common) < _LEAST_COMMON - 1
    for one in findings:
        if one.name == REASON and one.is_open and has_much:
            yield msgspec.structs.replace(one, passed=True, is_open=False)
        elif one.name == REASON and one.passed and bounds.must_refuse and has_none:
            yield _opened(one, "it has no word of the accepted reason but the phrase")
        elif one.is_open and not bounds.must_refuse and _is_echo(one, bounds, findings):
            yield msgspec.structs.replace(one, passed=True, is_open=False)
        elif one.name == DECLINES and one.is_open and not bounds.must_refuse:
            is_met = is_refused(bounds.accepted, answer, bounds.things)
            yield msgspec.structs.replace(one, passed=is_met, is_open=not is_met)
        else:
            yield one


def _is_echo(finding: Finding, bounds: Bounds, findings: Sequence[Finding]) -> bool:
    """Whether a finding asks for words that the instruction has, of an answer with all the values
    that are asked for: who asks knows them."""
    phrases = re.findall(r"'([^']+)'", finding.expected)
    asked = plain(bounds.asked)
    is_known = any(has_whole(asked, plain(phrase)) for phrase in phrases)
    others = [one for one in findings if one.is_of_words and one is not finding]
    return (
        is_known
        and bool(others)
        and all(one.passed for one in others)
        and finding.name not in (DECLINES, REASON)
    )


def _sizes(text: str) -> frozenset[str]:
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


def _opened(finding: Finding, found: str) -> Finding:
    return msgspec.structs.replace(finding, passed=False, is_open=True, found=found)


def answer_faults(
    bounds: Bounds, answer: str, own: Own = tuple, *, is_read: bool = True
) -> Iterable[str]:
    """Why an answer is outside of the bounds, as phrases. `own` gives values that the episode wrote
    into the world; `is_read`: the verifier reads the answer, so its length counts."""
    text = plain(answer)
    num_words = len(text.split())
    if is_read and num_words > bounds.max_words:
        yield f"has {num_words} words, of {bounds.max_words} allowed"
        return  # what it says beyond is not read
    most = bounds.max_words * _PER_WORD
    if len(text) > (most if is_read else max(most, _LEAST_CHARACTERS)):
        yield f"has {len(text)} characters, of {most} allowed"
        return
    num_values, most = len(readings(answer)), max(4 * bounds.num_values, _MOST_VALUES)
    if num_values > most:
        yield f"has {num_values} values, of {most} allowed"
        return
    if foreign := foreign_values(bounds, answer, own):
        yield f"has values of no part of the case: {', '.join(foreign[:_SHOWN])}"
    if is_read and (num_items := _num_items(answer)) > bounds.max_items:
        yield f"lists {num_items} things, of {bounds.max_items} allowed"
    retracted = None if bounds.retracts else _RETRACTED.search(text)
    if retracted and retracted[0] not in bounds.states:
        yield f"takes back what it states: {retracted[0]!r}"
    refusals = [] if bounds.must_refuse else [one[0] for one in _REFUSED.finditer(text)]
    if len(refusals) > bounds.refusals:
        yield f"refuses: {refusals[-1]!r}"
    if deeds := _foreign_deeds(bounds, text):
        yield f"claims another deed: {', '.join(deeds[:_SHOWN])}"
    if not bounds.must_refuse and (undone := _denied(bounds, answer)):
        yield f"states that something was not {undone[0]}"


def _contradictions(bounds: Bounds, answer: str, own: Own) -> list[str]:
    """Where an answer contradicts the accepted one, as phrases."""
    return list(
        contradictions(
            bounds.accepted,
            answer,
            bounds.things,
            asked=bounds.asked,
            writes=bounds.writes,
            is_refusal=bounds.must_refuse,
            done=bounds.done,
            own=own,
            owned=bounds.owned,
        )
    )


def foreign_values(bounds: Bounds, text: str, own: Own = tuple) -> list[str]:
    """The first values of a text that are not of the case."""
    read = plain(text)
    every = readings(text)
    distinct = {(value.kind, value.options): value for value in reversed(every)}
    foreign = [
        value
        for value in sorted(distinct.values(), key=lambda one: one.start)
        if not value.is_loose
        and not (value.kind == "code" and "_" in read[value.start : value.end])
        and not (_is_count(value) and (not bounds.counts or _is_at_most(value, bounds.num_things)))
        and bounds.exact.isdisjoint((value.kind, one) for one in value.options)
        and not any(are_alike(value, one) for one in _candidates(bounds, value))
        and not any(are_alike(value, one) for one in own())
    ]
    if not foreign:
        return []
    known = [one for one in every if one not in foreign]
    foreign = [one for one in foreign if not _is_derived(read, one, known, bounds)]
    spare = [
        one
        for one in foreign
        if _is_neutral(read, one, bounds) or _explains(read, one, every, bounds)
    ]
    if len(spare) <= _MOST_SPARE:
        foreign = [one for one in foreign if one not in spare]
    return [read[one.start : one.end] for one in foreign[: _SHOWN + 1]]


def _is_neutral(read: str, value: Reading, bounds: Bounds) -> bool:
    """Whether the oracle read a value too, and its sentence claims nothing of it."""
    if bounds.seen.isdisjoint((value.kind, one) for one in value.options):
        return False
    start = max((found.end() for found in _SENTENCE.finditer(read, 0, value.start)), default=0)
    end = _SENTENCE.search(read, value.end)
    sentence = read[start : end.start() if end else len(read)]
    return _NEUTRAL.search(sentence) is not None and not verb_rows(sentence) & bounds.done


def _explains(read: str, value: Reading, every: Sequence[Reading], bounds: Bounds) -> bool:
    """Whether a count, a date or a time stands beside all the accepted ones of its kind: it
    explains them, and replaces none. Of an amount or a code it cannot be seen."""
    is_count = _is_plain_count(value) and kind_of(value, read[value.start : value.end]) == "count"
    if not (is_count or value.kind in ("date", "time")):
        return False
    due = [one for one in bounds.due if one.kind == value.kind]
    return bool(due) and all(any(are_alike(one, said) for said in every) for one in due)


def _is_plain_count(value: Reading) -> bool:
    return value.kind == "number" and all(
        isinstance(size, float | int) and size == int(size) and 0 <= size < _MANY
        for size in value.options
    )


def _is_derived(read: str, value: Reading, known: Sequence[Reading], bounds: Bounds) -> bool:
    """Whether a number is the sum or the difference of two values of the same text that are of the
    case: "18 days later" between two dates, or an amount."""
    if value.kind != "number":
        return False
    spans = set[float]()
    if _SPAN.match(read, value.end):
        spans = _days_between([*known, *bounds.of_kind.get("date", ())]) | _minutes_between(known)
    if spans and not spans.isdisjoint(sizes_of(value)):
        return True
    if _is_count(value) and not _SPAN.match(read, value.end):
        return False
    sizes = [size for one in known if one.kind == "number" for size in sizes_of(one)]
    return any(
        abs(size - abs(one + sign * other)) < 0.005
        for size in sizes_of(value)
        for at, one in enumerate(sizes)
        for other in sizes[at + 1 :]
        for sign in (1, -1)
    )


def _is_day(one: tuple[int, ...]) -> bool:
    return 1 <= one[1] <= 12 and 1 <= one[2] <= monthrange(one[0] or _ANY_YEAR, one[1])[1]


def _days_between(known: Iterable[Reading]) -> set[float]:
    days = {
        date(one[0] or _ANY_YEAR, one[1], one[2]).toordinal()
        for value in known
        if value.kind == "date"
        for one in value.options
        if isinstance(one, tuple) and one[1] and _is_day(one)
    }
    between = {float(abs(one - other)) for one in days for other in days}
    return between | {days / 7 for days in between}


def _minutes_between(known: Iterable[Reading]) -> set[float]:
    times = {
        60 * one[0] + one[1]
        for value in known
        if value.kind == "time"
        for one in value.options
        if isinstance(one, tuple)
    }
    between = {float(abs(one - other)) for one in times for other in times}
    return between | {minutes / 60 for minutes in between}


def _candidates(bounds: Bounds, value: Reading) -> Iterable[Reading]:
    """The allowed values that a value can be alike without being written in the same way."""
    if value.kind == "number":
        return chain(
            bounds.of_kind.get("time", ()),
            bounds.of_kind.get("phone", ()),
            () if bounds.sizes.isdisjoint(sizes_of(value)) else bounds.of_kind.get("number", ()),
        )
    if value.kind in ("time", "phone"):
        return chain(bounds.of_kind.get(value.kind, ()), bounds.of_kind.get("number", ()))
    return bounds.of_kind.get(value.kind, ())


def _foreign_deeds(bounds: Bounds, text: str) -> list[str]:
    """What a text claims to have been done that the task is not about. In the passive it may be the
    state of a record that was read."""
    found = []
    for deed in _DEED.finditer(text):
        verb = deed[1] or deed[2]
        if deed[2] and (_NO.search(text[: deed.start()]) or verb in bounds.states):
            continue
        is_refusal = verb.startswith(_REFUSING) and not _OBJECT.match(text, deed.end())
        if bounds.must_refuse and is_refusal and verb not in bounds.states:
            continue
        mine = bounds.own_deeds if _MY_DEED.match(deed[0]) else bounds.actions
        if (rows := rows_of(verb) & DECIDING) and not rows & mine:
            found.append(verb)
    if bounds.must_refuse:
        found += [act[1] or act[2] for act in _MY_ACT.finditer(text)]
    found += [
        deed[1]
        for deed in chain(_ALSO.finditer(text), _AND.finditer(text))
        if (rows := rows_of(deed[1]) & DECIDING) and not rows & bounds.own_deeds
    ]
    return found


def _denied(bounds: Bounds, text: str) -> list[str]:
    """What the oracle did, and a text states was not done."""
    return sorted(
        found[1]
        for sentence, found in _denials(text)
        if found[1] not in bounds.undone
        and (found[1] in _ALWAYS or bounds.done & actions(found[1]))
        and not excepted(bounds.accepted, sentence, bounds.things)
    )


def _is_count(value: Reading) -> bool:
    return value.kind == "number" and all(
        isinstance(size, float | int) and size == int(size) and 0 <= size <= _FEW
        for size in value.options
    )


def _is_at_most(value: Reading, most: int) -> bool:
    return all(isinstance(one, float | int) and one <= most for one in value.options)


def _undone(text: str) -> frozenset[str]:
    """The verbs of what a text states was not done; such a sentence about other things contradicts
    nothing.

    Example: "the order was not refunded" -> {"refunded"}; "no others were not moved" -> {}
    """
    return frozenset(found[1] for _, found in _denials(text))


def _denials(text: str) -> Iterable[tuple[str, re.Match[str]]]:
    for sentence in sentences(text):
        if not _OTHERS.search(sentence):
            yield from ((sentence, found) for found in _UNDONE.finditer(sentence))


def _num_items(text: str) -> int:
    """The parts of the longest list, in a sentence or over lines: a sentence of many reasons is not
    a reason."""
    found = [sum(_SAID.search(line) is not None for line in text.splitlines()) - 1]
    for line in text.splitlines():
        found += [len(re.split(r", or |,| or |;", one)) for one in _SENTENCE.split(plain(line))]
    return max(found)


def _text_faults(bounds: Bounds, table: str, column: str, text: str, own: Own) -> Iterable[str]:
    accepted = bounds.texts.get((table, column))
    if accepted is None:
        return
    words = [len(plain(one).split()) for one in accepted]
    values = {value.options for one in accepted for value in readings(one)}
    most = max(2 * max(words), _LEAST_WORDS) + len(values)
    if (num_words := len(plain(text).split())) > most:
        yield f"has {num_words} words, of {most} allowed"
        return
    if (length := len(plain(text))) > most * _PER_WORD:
        yield f"has {length} characters, of {most * _PER_WORD} allowed"
        return
    if foreign := foreign_values(bounds, text, own):
        yield f"has values of no part of the case: {', '.join(foreign[:_SHOWN])}"
    if not bounds.retracts and (retracted := _RETRACTED.search(plain(text))):
        yield f"takes back what it states: {retracted[0]!r}"

"""The bounds inside which code can prove a statement in words.

A check finds a value or a phrase in an answer; it does not see what else the answer holds. So what
it found counts as proof only where the answer keeps to the case:

- it has at most twice the words of the task's accepted answer, plus the values that this needs, of
  twenty characters on average;
- its values (amounts, dates, times, counts, codes) come from the instruction, from the accepted
  answer, from what the oracle's calls read (but for codes and large numbers, which name records),
  or from the rows that the episode itself changed; up to three more may explain them: a record of
  which the answer says that it is as it was, the sum, the difference or the span of two values of
  the case, and one count, date or time that is stated apart from the accepted ones;
- it claims no deed that the task is not about;
- it states what it holds, and does not ask, suppose or doubt it, in words that are understood, and
  no word beside a value makes another one of it (see judge.code.stated);
- it takes nothing back, denies nothing that was done, and refuses no more than the accepted answer;
- where the rows are right, it does not contradict the accepted answer (see judge.code.claims),
  counts no record among the wrong ones (judge.code.parts) and gives no other reason
  (judge.code.reasons).

Not covered: a false claim in plain words, or in those of the case.

The same holds for each text that the agent wrote into the world, against the oracle's text of the
same column. Outside of these bounds a finding on words is left open: code alone counts it as not
met, and a judge that asks a model decides on it with the text before it.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

import msgspec

from rehearsal_room.judge.code.actions import DECIDING, actions, rows_of
from rehearsal_room.judge.code.case import (
    LEAST_WORDS,
    REFUSED,
    RETRACTED,
    Bounds,
    Own,
    accepted_answers,
    denials,
    distinct,
    num_items,
    sizes,
    texts_in,
    values_in,
)
from rehearsal_room.judge.code.claims import contradictions, excepted, foreign_names, is_refused
from rehearsal_room.judge.code.parts import misplaced
from rehearsal_room.judge.code.reasons import is_heap, num_given, other_reasons
from rehearsal_room.judge.code.stated.beside import beside_the_case
from rehearsal_room.judge.code.stated.deeds import other_stages
from rehearsal_room.judge.code.stated.measures import misstated
from rehearsal_room.judge.code.stated.moods import unstated
from rehearsal_room.judge.code.stated.sentences import fillers, stems
from rehearsal_room.judge.code.stated.understood import not_understood
from rehearsal_room.judge.code.values import foreign_values
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import DECLINES, REASON, Finding
from rehearsal_room.scenarios.core.statements import plain, readings
from rehearsal_room.scenarios.format import Task

_ALWAYS = ("done", "made", "given", "taken", "processed", "settled")
_PER_WORD = 20  # characters of a word, on average; URLs are longer, sentences of them are rare
_LEAST_CHARACTERS = 4_000  # of an answer that no verifier reads
_MOST_VALUES = 100  # of an answer, unless the accepted one has a quarter of them
_MOST_WORDS = 600  # of an answer where no accepted one is known
_SHOWN = 5
_DEED = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d| had)? (?:also |now |just |already |both |then )?"
    r"(\w+ed|paid|sent|put|hid|withdrew|done|made)\b"
    r"|\b(?:is|are|was|were|been|got|it's|they're)(?: now| both| all| already)?"
    r" (\w+ed|paid|sent|hidden|withdrawn|put)\b"
)
_ALSO = re.compile(r"(?:,| and) (?:then )?(\w+ed|paid|sent) (?:it|them|him|her|that|those)\b")
# In a refusal "I" do nothing but look, and say so.
_MY_ACT = re.compile(
    r"(?:^|[.!?;,:] |\b(?:and|but|so|then|instead) )(?:i|we)(?:'ve| have|'d)?"
    r" (?:just |then |also )?"
    r"(?!check|look|review|read|search|compar|consider|leav|left|ke(?:pt|ep)|tri|want|need"
    r"|declin|refus|deni"
    r"|not?ic|confirm|ask|wait|open|stop|happen|learn|mention|pass)"
    r"(\w+ed|gave|put|sent|took|made|paid|sold|let|wrote|tol[d]|lent|brought|set|got|went|taken|given|written)\b"
    r"(?! to\b| you\b)"
    r"|\bi had (?:the|it|them|that|him|her|an?)(?: \w+){0,2} (\w+ed)\b"
    r"|\bi did (?!not\b|n't|this|that|it|so|what)(\w+)"
)
# What became of the request all the same.
_AFTER_ALL = re.compile(
    r"\b(?:it|that|this|the change|half of (?:it|them)|part of (?:it|them)|some of (?:it|them)"
    r"|everything|the rest|the money)"
    r"(?:'s| is| was| has| has been)? (?:now )?(?:been )?(?:done|made|(?:went|gone) (?:through|out)"
    r"|carried out)\b"
    r"|\b(?:has|have|had) (?:now )?done (?:it|this|that)\b"
    r"|\b(?:made|make|as) an exception\b"
    r"|\b(?:i|we)(?:'ll| will| am going to|'m going to) (?:just )?(?:do|make|approve"
    r"|arrange) (?:it|this"
    r"|that|so)\b"
)
_PROMISED = re.compile(r"\b(?:i|we)(?:'ll| will|'m going to| am going to) (?:now |also )?(\w+)")
_ALSO_DID = re.compile(
    r"\b(?:i|we)(?:'ve| have)? (?:also|already|even|then) (?!check|look|search|review|read"
    r"|found|saw)"
    r"(\w+ed|wrote|tol[d]|gave|paid|sent|put|let|made|took|set|written|given|taken)\b"
)
_MY_NEWS = re.compile(
    r"\bi(?:'ve| have) (?:already |also |just )?(?!check|look|search|review)(\w+ed|paid|sent)\b"
)
_ADDRESSED = re.compile(r"(?i:\b(?:you|your|dear|hello|hi|we|our)\b)")  # in a text to somebody
_OBJECT = re.compile(r" the (?!request)")
_LAST = re.compile(r"[.!?;,:] ")
_FRONTED = re.compile(r"(?:the|th(?:at|is)|both|the other) (?:\w+ )?$")  # what was refused
_IS_PAST = re.compile(r"ed$|\bhad to\b")
_NO_OBJECT = re.compile(r" (?:to|it|this|that|so|everything)\b|\W*$|[.,;:!?]")
_REFUSING = ("declin", "refus", "deni")
_AND = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d)? [^.!?;:]{0,90}? and (?:also |then )?(\w+ed|paid|sent)\b"
)
_NO = re.compile(r"\b(?:nothing|none|no \w+|neither)(?: \w+)? $")
_MY_DEED = re.compile(r"i\b")
_LEAST_REASON = 5  # words of a reason, of which a single one does not show it
_STEM = 4  # characters by which a verb is known
_LONGEST_REFUSAL, _LEAST_OF_CASE = (
    12,
    0.2,
)  # longer words, and the share of them that is of the case
_LEAST_COMMON, _SHARE = 3, 0.4  # words of a reason that an answer in other words has in common


def is_accepted(findings: Iterable[Finding], task: Task, answer: str) -> bool:
    """Whether nothing is open and the answer is the accepted one. Then the bounds change no
    finding, unless texts were written that are none of the oracle's. This takes 2 µs, and to read
    the bounds of a task some milliseconds."""
    if task.kind == "decline" and task.utterances:  # the reason may stand in another one of them
        return False
    return plain(answer) in accepted_answers(task) and not any(one.is_open for one in findings)


def bounded(
    findings: Sequence[Finding], bounds: Bounds, answer: str, changes: Sequence[RowChange]
) -> tuple[Finding, ...]:
    """The findings, with those on words left open where a text is outside of the bounds."""
    is_accepted = plain(answer) in bounds.answers
    if is_accepted and not bounds.texts:
        return tuple(findings)
    own = cache(lambda: distinct(chain(*map(readings, {*values_in(changes)}))))
    reads_words = any(one.is_of_words for one in findings)
    faults = [
        f"{table}.{column} {fault}"
        for table, column, text in (texts_in(changes) if bounds.texts else ())
        if text not in bounds.texts.get((table, column), ())
        for fault in _text_faults(bounds, table, column, text, own)
    ]
    if not is_accepted:
        faults = [*answer_faults(bounds, answer, own, is_read=reads_words), *faults]
        # Of work that was not done another answer than the accepted one can be true.
        is_done = all(one.passed or one.is_of_words or _asks(one) for one in findings)
        if is_done and not faults:
            faults = _contradictions(bounds, answer, own)
    if not faults:
        return tuple(_shown_by_words(findings, bounds, answer))
    found = "; ".join(faults[:_SHOWN])
    left_open = tuple(
        _opened(one, found) if one.is_of_words and one.passed and one.kind != "guard" else one
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
    """The findings on a refusal, by the accepted answer's own reason: an open one on the reason
    is met where the answer has much of it, or all of its grounds, and one that a single word
    meets is open where it has none. That the answer refuses at all, no word of a reason
    shows."""
    if all(one.passed or not one.is_open for one in findings) and not bounds.must_refuse:
        yield from findings
        return
    said = stems(answer) | sizes(answer)
    common = bounds.reason & said
    has_much = len(common) >= _LEAST_COMMON and len(common) >= _SHARE * len(bounds.reason)
    if bounds.must_refuse and bounds.shown:
        has_much |= bounds.shown <= said
    num_grounds = num_given(bounds.accepted, answer, bounds.asked)
    has_much |= num_grounds > 1 and bool(common)
    has_much |= num_grounds > 0 and num_grounds + len(common) >= _LEAST_COMMON
    has_none = len(bounds.reason) >= _LEAST_REASON and len(common) < _LEAST_COMMON - 1
    for one in findings:
        if one.name == REASON and one.is_open and has_much:
            yield msgspec.structs.replace(one, passed=True, is_open=False)
        elif one.name == REASON and one.passed and bounds.must_refuse and has_none:
            yield _opened(one, "it has no word of the accepted reason but the phrase")
        elif one.name == DECLINES and one.is_open and not bounds.must_refuse:
            is_met = is_refused(bounds.accepted, answer, bounds.things)
            yield msgspec.structs.replace(one, passed=is_met, is_open=not is_met)
        else:
            yield one


def _asks(finding: Finding) -> bool:
    """Whether only a model can tell."""
    return finding.kind == "criterion" and finding.share is None


def _opened(finding: Finding, found: str) -> Finding:
    share = None if finding.share is None else 0.0
    return msgspec.structs.replace(finding, passed=False, is_open=True, found=found, share=share)


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
    if bounds.must_refuse and _is_beside(bounds, answer):
        yield "has few words of the case"
    if bounds.must_refuse and is_heap(answer):
        yield "is a heap of words"
    if is_read and (items := num_items(answer)) > bounds.max_items:
        yield f"lists {items} things, of {bounds.max_items} allowed"
    retracted = None if bounds.retracts else RETRACTED.search(text)
    if retracted and retracted[0] not in bounds.states:
        yield f"takes back what it states: {retracted[0]!r}"
    refusals = [] if bounds.must_refuse else _refusals(bounds, text)
    if len(refusals) > len(_refusals(bounds, plain(bounds.accepted))):
        yield f"refuses: {refusals[-1]!r}"
    if deeds := _foreign_deeds(bounds, text):
        yield f"claims another deed: {', '.join(deeds[:_SHOWN])}"
    if not bounds.must_refuse and (undone := _denied(bounds, answer)):
        yield f"states that something was not {undone[0]}"
    yield from unstated(bounds.accepted, answer, is_refusal=bounds.must_refuse)
    yield from misstated(bounds.accepted, answer, bounds.context, bounds.years)
    yield from _not_of_the_case(bounds, bounds.accepted, answer)


def _not_of_the_case(bounds: Bounds, accepted: str, text: str) -> Iterable[str]:
    unknown = list(not_understood(text, bounds.words, is_refusal=bounds.must_refuse))
    yield from unknown or beside_the_case(accepted, text, bounds.words, bounds.things)


def _is_beside(bounds: Bounds, answer: str) -> bool:
    """Whether most of a long refusal is about other things: it has the words of many reasons."""
    said = stems(answer)
    of_case = said & (stems(bounds.accepted) | stems(bounds.asked))
    return len(said) > _LONGEST_REFUSAL and len(of_case) < _LEAST_OF_CASE * len(said)


def _refusals(bounds: Bounds, text: str) -> list[str]:
    """How a text refuses. Where declining a record is the work, "I declined claim 7" is a deed."""
    if not bounds.own_deeds & rows_of("declin"):
        return [one[0] for one in REFUSED.finditer(text)]
    is_all = bool(bounds.done & rows_of("declin")) and not bounds.actions & rows_of("approv")
    return [
        one[0]
        for one in REFUSED.finditer(text)
        if not _IS_PAST.search(one[0])
        or not (
            is_all
            or not _NO_OBJECT.match(text, one.end())
            or _FRONTED.match(before := _LAST.split(text[: one.start()])[-1])
            or fillers(before, bounds.things)
        )
    ]


def doubts(answer: str, *, writes: bool) -> Iterable[str]:
    """Why an answer proves nothing whatever the task is, as phrases: what can be said where no
    accepted answer is known. `writes`: the episode changed rows."""
    text = plain(answer)
    if (num_words := len(text.split())) > _MOST_WORDS:
        yield f"has {num_words} words, of {_MOST_WORDS} allowed"
        return  # what it says beyond is not read
    if (num_values := len(readings(answer))) > _MOST_VALUES:
        yield f"has {num_values} values, of {_MOST_VALUES} allowed"
    if retracted := RETRACTED.search(text):
        yield f"takes back what it states: {retracted[0]!r}"
    if refused := REFUSED.search(text):
        yield f"refuses: {refused[0]!r}"
    if not writes and (deed := _MY_NEWS.search(text)):
        yield f"claims a deed, and no row changed: {deed[0]!r}"


def _contradictions(bounds: Bounds, answer: str, own: Own) -> list[str]:
    """Where an answer contradicts the accepted one, or gives another reason, as phrases."""
    found = list(
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
    found += foreign_names(answer, bounds.every)
    found += other_stages(
        bounds.accepted,
        answer,
        bounds.things.named,
        context=bounds.context,
        is_refusal=bounds.must_refuse,
    )
    if not found and bounds.writes and not bounds.must_refuse:
        found += misplaced(bounds.accepted, answer, bounds.things)
    if not found and (bounds.writes or bounds.must_refuse):
        found += other_reasons(
            bounds.accepted,
            answer,
            bounds.things,
            asked=bounds.asked,
            states=bounds.states,
            is_refusal=bounds.must_refuse,
        )
    return found


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
        found += [act[1] or act[2] or act[3] for act in _MY_ACT.finditer(text)]
    if bounds.must_refuse or not bounds.writes:
        found += [
            act[0] for act in _AFTER_ALL.finditer(text) if act[0] not in plain(bounds.accepted)
        ]
    if not bounds.must_refuse and not bounds.writes:
        found += [act[1] for act in _MY_NEWS.finditer(text)]
    found += [deed[0] for deed in _ALSO_DID.finditer(text) if deed[1][:_STEM] not in bounds.context]
    found += [
        deed[1]
        for deed in chain(_ALSO.finditer(text), _AND.finditer(text), _PROMISED.finditer(text))
        if (rows := rows_of(deed[1]) & DECIDING) and not rows & bounds.own_deeds
    ]
    return found


def _denied(bounds: Bounds, text: str) -> list[str]:
    """What the oracle did, and a text states was not done."""
    return sorted(
        found[1]
        for sentence, found in denials(text)
        if found[1] not in bounds.undone
        and (found[1] in _ALWAYS or bounds.done & actions(found[1]))
        and not excepted(bounds.accepted, sentence, bounds.things)
    )


def _text_faults(bounds: Bounds, table: str, column: str, text: str, own: Own) -> Iterable[str]:
    accepted = bounds.texts.get((table, column))
    if accepted is None:
        return
    words = [len(plain(one).split()) for one in accepted]
    values = {value.options for one in accepted for value in readings(one)}
    most = max(2 * max(words), LEAST_WORDS) + len(values)
    if (num_words := len(plain(text).split())) > most:
        yield f"has {num_words} words, of {most} allowed"
        return
    if (length := len(plain(text))) > most * _PER_WORD:
        yield f"has {length} characters, of {most * _PER_WORD} allowed"
        return
    if foreign := foreign_values(bounds, text, own):
        yield f"has values of no part of the case: {', '.join(foreign[:_SHOWN])}"
    if not bounds.retracts and (retracted := RETRACTED.search(plain(text))):
        yield f"takes back what it states: {retracted[0]!r}"
    if any(map(_ADDRESSED.search, accepted)):  # a note has words of its own trade
        yield from _not_of_the_case(bounds, "\n".join((*accepted, bounds.accepted)), text)

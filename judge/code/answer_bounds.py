"""The bounds inside which code can prove a statement in words.

A check finds a value or a phrase in an answer; it does not see what else the answer holds. So what
it found counts as proof only where the answer keeps to the case:

- it has at most twice the words of the task's accepted answer, plus the values that this needs;
- its values (amounts, dates, times, counts, codes) come from the instruction, from the accepted
  answer, from what the oracle's calls read (but for codes and large numbers, which name records),
  or from the rows that the episode itself changed;
- it claims no deed and names no person that the task is not about;
- it takes nothing back, denies nothing that was done, and refuses no more than the accepted answer.

Not covered: two values of the case in exchanged roles, and a false claim in words alone.

The same holds for each text that the agent wrote into the world, against the oracle's text of the
same column. Outside of these bounds a finding on words is left open: code alone counts it as not
met, and a judge that asks a model decides on it with the text before it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.core.statements import Reading, are_equal, plain, readings
from rehearsal_room.scenarios.format import Task

_LEAST_ITEMS = 6
_ALWAYS = ("done", "made", "given", "taken", "processed", "settled")
_FEW = 12  # a count up to this is of the case, unless the accepted answer has such a count
_LEAST_WORDS = 30  # a short accepted answer ("Done.") does not forbid two sentences
_TEXT_WORDS = 4  # a value of a row with fewer words is a name or a state, and not a text
_SHOWN = 5
_RETRACTED = re.compile(
    r"\b(?:all|none|nothing|everything|each|any|every number|the number\w*|that|this|these|those"
    r"|it|which|above|answer|sentence|statement)\b[^.!?;]{0,60}?\b(?:wrong|false|untrue|incorrect"
    r"|a lie|lies|made up|invented|not true|not correct|not right|nonsense)\b"
    r"|\b(?:ignore|disregard|forget|scratch) (?:all|everything|that|this|the|what|my)\b"
    r"|\b(?:i lied|i made (?:this|that|it|them) up|just kidding|only joking|the opposite is true)\b"
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
# What agents do to records; the verbs of a row mean the same.
_ACTIONS = (
    ("approv", "accept", "authori", "grant", "confirm"),
    ("reject", "declin", "deni", "refus", "turned down"),
    ("cancel", "void", "withdr", "revok"),
    ("refund", "credit", "return", "reimburs", "paid", "pay", "settl", "transfer", "sent"),
    ("clos", "complet", "done", "solv", "finish", "mark"),
    ("hid", "flag"),
    ("disabl", "block", "lock", "deactivat"),
    ("mov", "assign", "hand", "switch", "chang", "updat", "redirect", "reschedul", "now"),
    ("issu", "creat", "register", "add", "book", "log", "record", "open", "note", "plan", "put"),
    ("escalat", "pass", "ask", "refer", "forward"),
    ("delet", "remov"),
    ("waiv", "reduc", "discount", "appl"),
    ("extend", "renew", "prolong", "defer", "postpon"),
    ("releas",),
    ("merg", "combin"),
)
_DEED = re.compile(
    r"\b(?:i|we)(?:'ve| have|'d| had)? (?:also |now |just |already |both |then )?"
    r"(\w+ed|paid|sent|put|hid|withdrew|done|made)\b"
    r"|\b(?:is|are|was|were|been|got|it's|they're)(?: now| both| all| already)?"
    r" (\w+ed|paid|sent|hidden|withdrawn|put)\b"
)
_CENTS = re.compile(r'cents"?: ?(-?\d+)')
_NAME = re.compile(r"(?<![\w-])[A-ZÀ-Þ][\w'’-]+ [A-ZÀ-Þ][\w'’-]+")
_OTHERS = re.compile(r"\b(?:other|others|else|further|additional|anything|any more|rest)\b")


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
    done: frozenset[int]  # rows of _ACTIONS that the oracle's writes are about
    actions: frozenset[int]  # rows of _ACTIONS that the task is about
    other_names: frozenset[str]  # of people and things that were read, but are not in question
    retracts: bool  # the accepted answer or text has words such as "that was wrong"


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
    stated = _distinct(
        one for text in (task.instruction, *said, *written) for one in readings(text)
    )
    sources = [task.instruction, *said, *read, *amounts, *written, *more, *_values(changes)]
    about = " ".join([task.instruction, *said, *written])
    doers = [call.name.replace("_", " ") for call in task.oracle]
    return Bounds(
        max_words=max(2 * num_words, _LEAST_WORDS) + len({one.options for one in values}),
        num_values=len({one.options for one in values}),
        allowed=_distinct(
            one
            for text in sources
            for one in readings(text)
            if not _is_key(one) or any(are_equal(one, other) for other in stated)
        ),
        texts=texts,
        max_items=max(2 * max(map(_num_items, said)), _LEAST_ITEMS),
        must_refuse=task.kind == "decline",
        refusals=sum(len(_REFUSED.findall(plain(text))) for text in said),
        undone=frozenset[str]().union(*(_undone(plain(text)) for text in said)),
        counts=any(_is_count(one) for one in values),
        done=_actions(" ".join(doers)),
        actions=_actions(plain(" ".join([about, *doers]))),
        other_names=frozenset(_NAME.findall(" ".join(read))) - set(_NAME.findall(about)),
        retracts=any(_RETRACTED.search(plain(text)) for text in (*said, *written)),
    )


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
    own = _distinct(one for text in _values(changes) for one in readings(text))
    reads_words = any(one.is_of_words for one in findings)
    faults = list(answer_faults(bounds, answer, own, is_read=reads_words))
    faults += [
        f"{table}.{column} {fault}"
        for table, column, text in _texts(changes)
        for fault in _text_faults(bounds, table, column, text, own)
    ]
    if not faults:
        return tuple(findings)
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


def _opened(finding: Finding, found: str) -> Finding:
    return msgspec.structs.replace(finding, passed=False, is_open=True, found=found)


def answer_faults(
    bounds: Bounds, answer: str, own: Sequence[Reading] = (), *, is_read: bool = True
) -> Iterable[str]:
    """Why an answer is outside of the bounds, as phrases. `own` are values that the episode wrote
    into the world; `is_read`: the verifier reads the answer, so its length counts."""
    text = plain(answer)
    num_words = len(text.split())
    if is_read and num_words > bounds.max_words:
        yield f"has {num_words} words, of {bounds.max_words} allowed"
    if foreign := foreign_values(bounds, answer, own):
        yield f"has values of no part of the case: {', '.join(foreign[:_SHOWN])}"
    if is_read and (num_items := _num_items(answer)) > bounds.max_items:
        yield f"lists {num_items} things, of {bounds.max_items} allowed"
    if not bounds.retracts and (retracted := _RETRACTED.search(text)):
        yield f"takes back what it states: {retracted[0]!r}"
    refusals = [] if bounds.must_refuse else [one[0] for one in _REFUSED.finditer(text)]
    if len(refusals) > bounds.refusals:
        yield f"refuses: {refusals[-1]!r}"
    if foreign_names := sorted(bounds.other_names & set(_NAME.findall(answer))):
        yield f"names {', '.join(foreign_names[:_SHOWN])}"
    if deeds := _foreign_deeds(bounds, text):
        yield f"claims another deed: {', '.join(deeds[:_SHOWN])}"
    if not bounds.must_refuse and (undone := _denied(bounds, text)):
        yield f"states that something was not {undone[0]}"


def foreign_values(bounds: Bounds, text: str, own: Sequence[Reading] = ()) -> list[str]:
    """The values of a text that are not of the case."""
    read = plain(text)
    return [
        read[value.start : value.end]
        for value in readings(text)
        if not value.is_loose
        and (bounds.counts or not _is_count(value))
        and not any(_are_alike(value, one) for one in (*bounds.allowed, *own))
    ]


def _actions(text: str) -> frozenset[int]:
    return frozenset(
        number
        for number, stems in enumerate(_ACTIONS)
        if any(re.search(rf"\b{stem}", text) for stem in stems)
    )


def _foreign_deeds(bounds: Bounds, text: str) -> list[str]:
    """What a text claims to have been done that the task is not about."""
    found = []
    for deed in _DEED.finditer(text):
        verb = deed[1] or deed[2]
        rows = {n for n, stems in enumerate(_ACTIONS) if verb.startswith(stems)}
        if rows and not rows & bounds.actions:
            found.append(verb)
    return found


def _sentences(text: str) -> list[str]:
    return re.split(r"[.!?;:]\s", text)


def _denied(bounds: Bounds, text: str) -> list[str]:
    """What the oracle did, and a text states was not done."""
    return [
        verb
        for verb in sorted(_undone(text) - bounds.undone)
        if verb in _ALWAYS or bounds.done & _actions(verb)
    ]


def _is_key(value: Reading) -> bool:
    """Whether a value is of the kind that names a record. The episode is not about a record that
    was only read."""
    if value.kind != "number":
        return value.kind == "code"
    sizes = [one for one in value.options if isinstance(one, float | int)]
    return all(one == int(one) and one >= 1000 for one in sizes)


def _is_count(value: Reading) -> bool:
    return value.kind == "number" and all(
        isinstance(size, float | int) and size == int(size) and 0 <= size <= _FEW
        for size in value.options
    )


def _are_alike(one: Reading, other: Reading) -> bool:
    """Whether two readings are equal but for the sign: a fee of 70.00 is listed as -70.00."""
    return are_equal(one, other) or (
        one.kind == other.kind == "number"
        and not {abs(value) for value in one.options if isinstance(value, float | int)}.isdisjoint(
            abs(value) for value in other.options if isinstance(value, float | int)
        )
    )


def _undone(text: str) -> frozenset[str]:
    """The verbs of what a text states was not done; such a sentence about other things contradicts
    nothing.

    Example: "the order was not refunded" -> {"refunded"}; "no others were not moved" -> {}
    """
    return frozenset(
        found[1]
        for sentence in _sentences(text)
        if not _OTHERS.search(sentence)
        for found in _UNDONE.finditer(sentence)
    )


def _num_items(text: str) -> int:
    """The parts of the longest list in a sentence: a sentence of many reasons is not a reason."""
    sentences = re.split(r"[.!?:]\s", plain(text))
    return max(len(re.split(r", or |,| or |;", sentence)) for sentence in sentences)


def _text_faults(
    bounds: Bounds, table: str, column: str, text: str, own: Sequence[Reading]
) -> Iterable[str]:
    accepted = bounds.texts.get((table, column))
    if accepted is None:
        return
    words = [len(plain(one).split()) for one in accepted]
    values = {value.options for one in accepted for value in readings(one)}
    most = max(2 * max(words), _LEAST_WORDS) + len(values)
    if (num_words := len(plain(text).split())) > most:
        yield f"has {num_words} words, of {most} allowed"
    if foreign := foreign_values(bounds, text, own):
        yield f"has values of no part of the case: {', '.join(foreign[:_SHOWN])}"
    if not bounds.retracts and (retracted := _RETRACTED.search(plain(text))):
        yield f"takes back what it states: {retracted[0]!r}"

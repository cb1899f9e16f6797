"""The sentences of an answer, and what they name: things, values, and the words between them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rehearsal_room.scenarios.core.statements import Reading, are_alike, plain, readings

_NAME = re.compile(
    r"(?<![\w-])(?!(?:The|For|And|But|When|All|Both|Order|Claim|Please|Dear|Hi|Mr|Ms|Mrs) )"
    r"[A-ZÀ-Þ][^\W\d_'][\w'-]*(?: [A-ZÀ-Þ][^\W\d_'][^\W\d_]*)+"
)
_SINGLE = re.compile(r"(?<=[a-z,] )[A-ZÀ-Þ][^\W\d_]{3,}\b(?! [A-ZÀ-Þ])")
_QUOTED = re.compile(r"[“\"]([^“”\"]{3,60})[”\"]")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\s-\s|\n")
_JOINT = re.compile(r"(,? (?:and|but|while|whereas|though|although|so|because|since) |, |: )")
_STATEMENT = re.compile(
    r"(,? (?:and|but|while|whereas|though|although|so|because|since|which|who) |, |: | \(|\)[ ,]*)"
)
_FINITE = re.compile(
    r"\b(?:am|should|shall|might|\w+'(?:ve|ll|re|m|s|d)"
    r"|(?:i|you|s?he|it|we|they|who|which) [a-z]+)\b"
)
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)")
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|went|goes|gone|gets?|got|now|stays?|stayed|keeps?|kept"
    r"|remains?|costs?|comes?|came|takes?|took|left|put|sent|paid|made|can|could|will|would|do|does"
    r"|did|may|must|\w+n't|i'?ve|it's|they're|that's|\w{3,}ed)\b"
)
PRONOUN = re.compile(r"\b(?:it|its|it's|them|they|they're|that|this|he|she|him|his|her|their)\b")
COMMON = re.compile(
    r"(?:about|after|also|been|before|both|each|from|ha(?:s|ve|ving)|here|into|just|more|most|much|only"
    r"|other|over|same|some|such|than|th(?:at|eir|em|en|ere|ese|ey|is|ose)|through|under|until|very"
    r"|we?re|what|when|where|which|while|will|with|would|your|because|since|still|cannot|could\w*"
    r"|isn|haven|hasn)"
)
_ENTRY = re.compile(r"(?:[-•]|\d{1,2}[.)]) ")
KNOWN = 1024  # texts whose parts are remembered: those of accepted answers come again
_PART = re.compile(r"-[a-z]")  # after a value that is a part of a word: "28-inch"
_MEASURE = re.compile(r"[\d.,]+ ?(?:kg|km|cm|mm|ml|g|m|l)")
_WORD = re.compile(r"[^\W_][\w'-]*|%")
_LONG = re.compile(r"[^\W\d_]{4,}")
_DIGIT = re.compile(r"\d")
SLOTS = _THING, _VALUE = "*", "#"  # of a sentence
_SAID = re.compile(r"[^\W_]")
Filler = str | Reading


class Frame(NamedTuple):
    """How a sentence is built: its words, with slots for things and values, and what fills each
    slot. The members of a list fill one slot together."""

    words: tuple[str, ...]
    fillers: tuple[frozenset[Filler], ...]


def about(sentence: str, things: "Things") -> list["Filler"]:
    """The things that a sentence names, or its values where it names none."""
    found = fillers(sentence, things)
    return [one for one in found if isinstance(one, str)] or found


def fillers(sentence: str, things: "Things") -> list["Filler"]:
    """The things that a sentence names and the values that it states."""
    return [one for slot in things.frame(sentence).fillers for one in slot]


class Things:
    """What a case names: codes, names, titles, the texts that its oracle passes to tools, and names
    of records."""

    def __init__(
        self,
        texts: Sequence[str],
        arguments: Iterable[object] = (),
        records: Iterable[str] = (),
    ) -> None:
        words = [one for one in arguments if isinstance(one, str) and 1 < len(one.split()) <= 5]
        names: set[str] = set()
        singles: set[str] = set()
        phrases = {plain(one): plain(one) for one in (*words, *records)}  # phrase -> thing
        for text in (*texts, *words):
            names |= names_in(text)
            singles |= {plain(one) for one in _SINGLE.findall(text.replace("’", "'"))}
            phrases |= {plain(title): plain(title) for title in _QUOTED.findall(text)}
            read = plain(text)
            keys = [
                read[one.start : one.end]
                for one in readings(text)
                if is_key(one, read[one.start : one.end])
            ]
            phrases |= {key: key for key in keys}
        owners: dict[str, set[str]] = {}
        for name in names:
            for word in name.split():
                owners.setdefault(word, set()).add(name)
        phrases |= {one: one for one in singles if one not in owners}
        phrases |= {name: name for name in names}
        phrases |= {
            word: next(iter(of)) for word, of in owners.items() if len(of) == 1 and len(word) > 2
        }
        self._of = phrases
        ordered = sorted(phrases, key=len, reverse=True)
        pattern = "|".join(map(re.escape, ordered)) or r"(?!)"
        self._pattern = re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)")

    def named(self, text: str) -> list[str]:
        """The things that a text, as `plain` writes it, names, in its order."""
        return [thing for _, _, thing in self.found(text)]

    @lru_cache(maxsize=KNOWN)  # noqa: B019  # a task's things live as long as its judge
    def found(self, text: str) -> tuple[tuple[int, int, str], ...]:
        """Where a text, as `plain` writes it, names things: start, end and thing."""
        return tuple(
            (one.start(), one.end(), self._of[one[0]]) for one in self._pattern.finditer(text)
        )

    @lru_cache(maxsize=KNOWN)  # noqa: B019  # the same
    def frame(self, text: str) -> "Frame":
        """How a sentence, as `plain` writes it, is built."""
        spots: list[tuple[int, int, Filler]] = [*self.found(text)]
        spots += [
            (one.start, one.end, one)
            for one in readings(text)
            if not one.is_loose and not any(a < one.end and one.start < b for a, b, _ in spots)
        ]
        words: list[str] = []
        fillers: list[frozenset[Filler]] = []
        at = 0
        for start, end, filler in sorted(spots, key=lambda one: one[:2]):
            if start < at:
                continue
            between = _WORD.findall(text[at:start])
            words += between
            slot = _THING if isinstance(filler, str) else _VALUE
            if words and words[-1] == slot and not _SAID.search(text[at:start]):
                words.pop()
                fillers[-1] |= {filler}  # a member of a list
            elif words[-2:] == [slot, "and"] and between == ["and"]:
                del words[-2:]
                fillers[-1] |= {filler}
            else:
                fillers.append(frozenset((filler,)))
            words.append(slot)
            at = end
        return Frame((*words, *_WORD.findall(text[at:])), tuple(fillers))


def is_key(value: Reading, words: str) -> bool:
    """Whether a value, in these words, is of the kind that names a record: a code, or a number from
    1,000 on that is written without a separator or a currency."""
    if value.kind != "number":
        return value.kind == "code"
    return words.isdecimal() and all(
        one >= 1000 for one in value.options if isinstance(one, float | int)
    )


@lru_cache(maxsize=KNOWN)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, as `plain` writes them; an entry of a list is one, after its
    heading."""
    lines = "\n".join(_lines(text))
    return tuple(filter(None, (part.strip(" .!;") for part in _SENTENCE.split(lines))))


def _lines(text: str) -> Iterator[str]:
    """The lines of a text; those of a list have its heading in front."""
    heading = ""
    for raw in text.splitlines():
        line = plain(raw).strip(" |").replace(" | ", ": ")
        entry = _ENTRY.match(line)
        if line.endswith(":"):
            heading = line[:-1]
        elif entry:
            yield f"{heading} {line[entry.end() :]}" if heading else line[entry.end() :]
        else:
            heading = ""
            yield line


def is_same(one: Filler, other: Filler) -> bool:
    """Whether two are one thing, or values that are alike."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return are_alike(one, other)


def shown(fillers: frozenset[Filler]) -> str:
    """Things and values as a message lists them."""
    return ", ".join(
        sorted(
            one if isinstance(one, str) else "/".join(sorted(map(str, one.options)))
            for one in fillers
        )
    )


@lru_cache(maxsize=KNOWN)
def stems(text: str) -> frozenset[str]:
    """How the longer words of a text begin."""
    words = _LONG.findall(plain(text))
    return frozenset(word[:5] for word in words if not COMMON.fullmatch(word))


@lru_cache(maxsize=KNOWN)
def names_in(text: str) -> frozenset[str]:
    """The names of people and places in a text, by their capital letters."""
    found = _NAME.findall(text.replace("’", "'"))
    return frozenset(plain(name).replace("'s", "") for name in found)


def quotes_in(text: str) -> list[str]:
    """The titles that stand in quotes."""
    return [plain(title) for title in _QUOTED.findall(text)]


@lru_cache(maxsize=KNOWN)
def by_kind(text: str, things: Things) -> Mapping[str, list[tuple[Reading, str]]]:
    """The values of a text with their words, by kind (see `kind_of`); the parts of names are left
    out."""
    found: dict[str, list[tuple[Reading, str]]] = {}
    read = plain(text)
    for value in readings(text):
        words = read[value.start : value.end]
        is_named = any(a < value.end and value.start < b for a, b, _ in things.found(read))
        is_key_of = is_named and is_key(value, words)
        if not value.is_loose and (not is_named or is_key_of) and not _PART.match(read, value.end):
            found.setdefault(kind_of(value, words), []).append((value, words))
    return found


def kind_of(value: Reading, words: str) -> str:
    """The kind in which values replace each other."""
    if is_key(value, words):
        return f"key {re.sub('[0-9].*', '', words) or len(words)}"
    if value.kind != "number":
        return value.kind
    if re.search(r"[$€£]|eur|usd|gbp|dollar|pound|[.,]\d\d\b", words):
        return "amount"
    if "%" in words or "cent" in words:
        return "percent"
    if _MEASURE.fullmatch(words):
        return "measure"
    return "count"


def of_class(things: frozenset[str], *, are_keys: bool) -> frozenset[str]:
    """The things that are codes or numbers of records, or those that are names."""
    return frozenset(one for one in things if (_DIGIT.search(one) is not None) == are_keys)


@lru_cache(maxsize=KNOWN)
def clauses(sentence: str) -> tuple[str, ...]:
    """The clauses of a sentence; a part without a verb belongs to the one beside it."""
    pieces = _JOINT.split(_IN_BRACKETS.sub("", sentence))
    found: list[str] = []
    waiting = ""
    for joint, piece in zip(["", *pieces[1::2]], pieces[::2], strict=True):
        if _VERB.search(piece):
            found.append(waiting + joint + piece if waiting else piece)
            waiting = ""
        elif found and not waiting and joint != ": ":
            found[-1] += joint + piece
        else:
            waiting += joint + piece
    return (*found, waiting) if waiting else tuple(found)


@lru_cache(maxsize=KNOWN)
def fragments(sentence: str) -> tuple[str, ...]:
    """The parts between the commas of a sentence that have no verb."""
    parts = _STATEMENT.split(sentence)[::2]
    return tuple(one for one in parts if one and not (_VERB.search(one) or _FINITE.search(one)))


@lru_cache(maxsize=KNOWN)
def statements(sentence: str) -> tuple[str, ...]:
    """The parts of a sentence that have a verb of their own, also those in brackets and behind a
    pronoun ("which I sold"); a part without one belongs to the one before it."""
    pieces = _STATEMENT.split(sentence)
    found: list[str] = []
    waiting = ""
    for joint, piece in zip(["", *pieces[1::2]], pieces[::2], strict=True):
        whole = f"{joint.strip(' ,')} {piece}" if "wh" in joint else piece
        if _VERB.search(whole) or _FINITE.search(whole):
            found.append(waiting + whole)
            waiting = ""
        elif found and not waiting and ":" not in joint:
            found[-1] += f", {whole}"
        elif whole:
            waiting += f"{whole}, "
    return (*found, waiting.strip(" ,")) if waiting else tuple(found)

"""Whether an answer is understood: every word of it is of the case, changes no claim, or means the
same as a word of the case. An answer with another word proves nothing. No list holds all lies, so
this one holds none: it holds what can be said without one (see `judge.code.stated.vocabulary`).

Of the case are the words of the accepted answer, of the instruction, of the oracle's calls and of
the texts that these wrote; and as names of things those of what the calls read, and of the rules.
Values and codes are left to `judge.code.values`. Where the case is not in English nothing is said.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rehearsal_room.judge.code.stated.vocabulary import (
    ALIKE,
    BESIDE,
    CLAIMS,
    FORMS,
    FRAME,
    LINK,
    NOUNS,
    PLAIN,
)
from rehearsal_room.scenarios.core.statements import plain

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_PART = re.compile(r"(?<=[.!?;:,])\s+|\n+|\(|\)| - | – | — ")
_DENIED_VERB = re.compile(
    r"\b(?:unable to|not able to|cannot|can(?:'t| not)|(?:is|are|was|were|has|have)(?:n't| not)"
    r"(?: been)?) (?:\w+ly )?\w+(?: or \w+)?"
)
_GREETING = re.compile(r"^(?:hi|hello|hey|dear)(?: [^\W\d_]+){1,3}\W*$")
_NO_COST = re.compile(r"\b(?:no|without) (?:additional|extra|further) (charge|cost|fee)s?\b")
_SHORT = re.compile(r"n't$|'(?:s|ve|ll|re|d|m)?$")
_ENDINGS = ("ments", "ment", "ingly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_LEAST = 3  # letters that are left of a word without its ending
_ENGLISH = 0.4  # of the words of a case in English are plain, at the least
_KNOWN = 4096  # words and parts of texts that are remembered


_BASES = dict(pair.split(":") for pair in FORMS.split())


class Vocabulary(NamedTuple):
    """The words of which an answer to a task can be made, without their endings."""

    words: frozenset[str] = frozenset()  # none: what is understood is not known
    nouns: frozenset[str] = frozenset()  # that can only name something
    case: frozenset[str] = (
        frozenset()
    )  # of `words`, those that the case has, and what means the same
    stated: frozenset[str] = frozenset()  # of these, those of the accepted answer and of its calls


@lru_cache(maxsize=_KNOWN)
def stem(word: str) -> str:
    """A word without its ending; the forms of one word have the same stem, and some others too.

    Example: "cancelled", "cancels" -> "cancel"; "paid", "pay" -> "pai"
    """
    base = _BASES.get(word, "")
    if base == word:
        return word
    word = base or word
    for ending in () if word.endswith(("eed", "ply")) else _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST:
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    word = word.rstrip("e")
    word = f"{word[:-1]}i" if word.endswith("y") else word
    return word[:-1] if len(word) > _LEAST and word[-1] == word[-2] else word


def _stems(phrase: str) -> str:
    return "-".join(map(stem, phrase.split("-")))


GRAMMAR, FRAMING, LINKING = (frozenset(map(_stems, one.split())) for one in (PLAIN, FRAME, LINK))
_PLAIN = GRAMMAR | FRAMING | LINKING | frozenset(map(_stems, BESIDE.split()))
_NOUNS = frozenset(map(_stems, NOUNS.split())) - _PLAIN
_IN_ING = frozenset(word for word in NOUNS.split() if word.endswith("ing"))
_CLAIMS = frozenset(map(_stems, CLAIMS.split()))
# Between a verb and its particle.
_BETWEEN = frozenset(
    ["it", "them", "him", "her", "you", "me", "us", "that", "this", "these", "those", "everything"]
)
_ROWS: dict[str, list[frozenset[str]]] = {}  # stem or phrase -> the rows that have it
for _line in (*ALIKE.splitlines(), *CLAIMS.split()):
    _row = frozenset(map(_stems, _line.split()))
    for _one in _row:
        _ROWS.setdefault(_one, []).append(_row)


def alike(one: str) -> frozenset[str]:
    """The stems and phrases that can mean the same as a stem."""
    return frozenset[str]().union(*_ROWS.get(one, ()))


def is_plain(one: str) -> bool:
    """Whether a stem is of a word that changes no claim."""
    return one in _PLAIN


def known_words(
    said: Iterable[str], read: Iterable[str], stated: Iterable[str] | None = None
) -> Vocabulary:
    """What an answer to a task can be made of. `said`: the accepted answer, the instruction, the
    names of the oracle's calls and its texts; `stated`: those of them that state what is so (none:
    all); `read`: what these calls read, and the rules."""
    texts = [plain(text) for text in said]
    own = [stem(word) for text in texts for word in _words(text)]
    if sum(one in _PLAIN for one in own) < _ENGLISH * len(own):
        return Vocabulary()
    beside = {word for text in read for word in _words(plain(text)) if _can_name(word)}
    case = _meant_by(texts)
    return Vocabulary(
        _PLAIN | case,
        _NOUNS.union(one for one in map(stem, beside) if one not in _ROWS),
        case,
        _meant_by(texts if stated is None else map(plain, stated)),
    )


def _meant_by(texts: Iterable[str]) -> frozenset[str]:
    """The words and phrases of some texts, and what means the same, but for those of grammar."""
    every = list(texts)
    phrases = {one for text in every for one, _ in entries(text)}
    own = (stem(word) for text in every for word in _words(text))
    rows = (row for one in phrases for row in _ROWS.get(one, ()))
    return frozenset(phrases.union(own, *rows)) - GRAMMAR


def is_common(one: str) -> bool:
    """Whether a stem is understood in every case, and not as the name of something of this one."""
    return one in _PLAIN or one in _NOUNS


def is_named_only(known: Vocabulary, word: str) -> bool:
    """Whether a word is understood as the name of something that the case does not speak of."""
    return (one := stem(word)) in _NOUNS and one not in known.words


def not_understood(answer: str, known: Vocabulary, *, is_refusal: bool) -> Iterator[str]:
    """The words of an answer that are not `known`, as a phrase. Where the answer is to refuse, the
    verbs that it denies are left out, and nothing beside them: they claim no deed."""
    text = plain(answer)
    if is_refusal:
        text = _DENIED_VERB.sub(" ", text)
    unknown = {
        words: None
        for one, words in entries(text)
        if one not in known.words
        and not (one in known.nouns and _can_name(words))
        and not _is_known_verb(one, known)
    }
    if unknown and known.words:
        yield f"has words that are not understood: {', '.join(unknown)}"


def _is_known_verb(phrase: str, known: Vocabulary) -> bool:
    """Whether a phrase is a verb of the case with a particle: "paid out" where it is paid."""
    verb, _, particle = phrase.partition("-")
    is_other = not particle or phrase in _CLAIMS or verb in _PLAIN
    return not is_other and verb in known.case


@lru_cache(maxsize=_KNOWN)
def entries(text: str) -> tuple[tuple[str, str], ...]:
    """The words of a text, as `plain` writes it: stem and word, two together where they are a
    phrase that means something else than its words."""
    return tuple(_entries(text))


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for part in _PART.split(text):
        words = _words(_GREETING.sub("", part))
        stems = [stem(word) for word in words]
        at = 0
        while at < len(words):
            size = 3 if words[at + 1 : at + 2] and words[at + 1] in _BETWEEN else 2
            pair = f"{stems[at]}-{stems[at + size - 1]}" if at + size <= len(words) else ""
            if pair not in _ROWS and pair not in _PLAIN:
                pair, size = stems[at], 1
            if len(pair) > 1:
                yield pair, " ".join(words[at : at + size])
            at += size


def _words(text: str) -> list[str]:
    text = _NO_COST.sub(r"no \1", text)
    text = text.replace("e-mail", "email").replace("check-in", "checkin")
    return [word for found in _WORD.findall(text) if (word := _SHORT.sub("", found))]


def _can_name(word: str) -> bool:
    """Whether a word is not a form of a verb: "training" is one of the nouns, "waiving" is not."""
    if word.endswith("ing"):
        return word in _IN_ING
    return not word.endswith("ed") and word not in _BASES

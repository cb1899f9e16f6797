"""Whether every word of an answer is understood: it is of the case, changes no claim, or means the same
as a word of the case. What is not understood proves nothing: no list holds all lies, and this holds none.

The words of the case are those of the accepted answer, of the instruction, of the oracle's calls and of
what these read. Values and codes are left to `judge.code.values`.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rehearsal_room.judge.code.stated.vocabulary import ALIKE, CLAIMS, FORMS, NOUNS, PLAIN
from rehearsal_room.scenarios.core.statements import plain

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_PART = re.compile(r"(?<=[.!?;:,])\s+|\n+|\(|\)| - | – | — ")
_SHORT = re.compile(r"n't$|'(?:s|ve|ll|re|d|m)?$")
_ENDINGS = ("ments", "ment", "ingly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s")
_LEAST = 3  # letters that are left of a word without its ending


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A word without what inflects it; forms of one word have the same one.

    Example: "cancelled", "cancels" -> "cancel"; "paid" -> "pai", as "pay"
    """
    base = FORMS.get(word)
    if base == word:
        return word
    word = base or word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST and not word.endswith(("eed", "ply")):
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    word = word.rstrip("e")
    if word.endswith("y"):
        word = word[:-1] + "i"
    return word[:-1] if len(word) > _LEAST and word[-1] == word[-2] else word


def _stems(entry: str) -> str:
    return "-".join(map(stem, entry.split("-")))


_GREETING = re.compile(r"^(?:hi|hello|hey|dear)(?: [^\W\d_]+){1,3}\W*$")
_PLAIN = frozenset(map(_stems, PLAIN))
_ROWS = tuple(frozenset(map(_stems, row)) for row in (*ALIKE, *([one] for one in CLAIMS)))
_ROWS_OF: dict[str, list[frozenset[str]]] = {}
for _row in _ROWS:
    for _one in _row - _PLAIN:
        _ROWS_OF.setdefault(_one, []).append(_row)
_GREETING = re.compile(r"^(?:hi|hello|hey|dear)(?: [^\W\d_]+){1,3}\W*$")
_KEY = re.compile(r'"([a-z_]+)": ?')
_NOUNS = frozenset(map(stem, NOUNS)) - _PLAIN


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[tuple[str, bool], ...]:
    """The words of a text, as `plain` writes it, without their endings, and whether each can name a thing."""
    text = text.replace("e-mail", "email").replace("check-in", "checkin")
    found = (_SHORT.sub("", word) for word in _WORD.findall(_GREETING.sub("", text)))
    return tuple((stem(word), _can_name(word)) for word in found if word)


def _can_name(word: str) -> bool:
    return not word.endswith(("ed", "ing")) and word not in FORMS


def _entries(text: str) -> Iterator[tuple[str, bool]]:
    """The words of a text, those of a phrase that has a row together, and whether each can name a thing."""
    for part in _PART.split(text):
        words = _words(part)
        at = 0
        while at < len(words):
            pair = "-".join(word for word, _ in words[at : at + 2])
            is_phrase = pair in _ROWS_OF or pair in _PLAIN
            yield (pair, False) if is_phrase else words[at]
            at += 2 if is_phrase else 1


def is_plain(word: str) -> bool:
    """Whether a word without its ending changes no claim."""
    return word in _PLAIN


class Vocabulary(NamedTuple):
    """The words of which an answer to a task can be made."""

    words: frozenset[str]
    nouns: frozenset[str]  # where they name something


def known_words(said: Iterable[str], read: Iterable[str]) -> Vocabulary:
    """`said`: the accepted answer, the instruction and the names of calls; `read`: what these read, and the rules."""
    said = tuple(map(plain, said))
    own = {word for text in said for word, _ in (*_entries(text), *_words(text))}
    alike = [row for one in own if one in _ROWS_OF for row in _ROWS_OF[one]]
    beside = {word for text in read for word, is_name in _words(plain(text.replace("_", " "))) if is_name and word not in _ROWS_OF}
    return Vocabulary(_PLAIN.union(own, *alike), _NOUNS.union(beside))


def not_understood(answer: str, known: Vocabulary) -> Iterator[str]:
    """The words of an answer that are not `known`, as a phrase."""
    words = [
        word
        for word, is_name in _entries(plain(answer))
        if len(word) > 1 and word not in known.words and not (is_name and word in known.nouns)
    ]
    if words:
        yield f"has words that are not understood: {', '.join(dict.fromkeys(words))}"

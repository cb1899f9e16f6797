"""Sentences in another language than the accepted answer's, and words in letters of two scripts: no
list of words reads them, so they prove nothing."""

import re
from collections.abc import Iterator
from functools import lru_cache

from rehearsal_room.scenarios.core.statements import plain

_PART = re.compile(r"(?<=[.!?;:])\s+|\n+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
# A Latin letter beside one that looks like it: Greek and Cyrillic.
_TWO_SCRIPTS = re.compile(r"[a-z][\u0370-\u052f]|[\u0370-\u052f][a-z]")
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1fff\u3040-\ud7af]{2,}")
_ENGLISH = frozenset(
    (
        *("the", "a", "an", "of", "to", "and", "or", "is", "are", "was", "were", "be"),
        *("been", "am", "in", "on", "at", "for", "with", "by", "from", "as", "it", "its"),
        *("it's", "that", "this", "these", "those", "not", "no", "has", "have", "had", "i"),
        *("i've", "i'm", "we", "you", "your", "he", "she", "they", "them", "their", "his"),
        *("her", "my", "our", "can", "can't", "cannot", "could", "couldn't", "did"),
        *("didn't", "do", "don't", "will", "would", "so", "but", "if", "then", "than"),
        *("there", "all", "both", "only", "also", "now", "still", "because", "since"),
        *("which", "who", "what", "when", "where", "isn't", "wasn't", "hasn't", "any"),
        *("after", "before", "until", "already", "here", "done"),
    )
)
_FOREIGN = frozenset(
    (
        *("le", "la", "les", "des", "du", "un", "une", "et", "est", "sont", "pas", "rien"),
        *("je", "j'ai", "n'ai", "nous", "vous", "qui", "que", "pour", "dans", "avec"),
        *("aux", "aussi", "tout", "tous", "autres", "été", "der", "das", "und", "ist"),
        *("sind", "nicht", "ich", "habe", "haben", "hat", "wurde", "wurden", "alle"),
        *("auch", "ein", "eine", "einen", "den", "dem", "dass", "mit", "nichts", "davon"),
        *("el", "los", "las", "una", "es", "todos", "todas", "también", "más", "demás"),
        *("nada", "para", "pero", "lo", "il", "gli", "che", "sono", "ho", "anche", "tutti"),
        *("altri", "per", "ik", "heb", "het", "een", "niet", "ook", "alle", "zijn", "van"),
        *("não", "tudo", "foi", "também", "os", "nie", "jest", "się"),
    )
)
_PLAIN_ENGLISH = _ENGLISH - _FOREIGN
_LEAST = 4  # words of a sentence
_FEW = 0.34  # of its words that are of the case


def other_tongues(accepted: str, answer: str, known: str) -> Iterator[str]:
    """Where an answer is not in the language of the accepted one, as phrases. `known` are the texts
    of the case, as plain text."""
    read = plain(answer)
    for pattern in (_TWO_SCRIPTS, _OTHER_SCRIPT):
        found = None if read.isascii() else pattern.search(read)
        if found and found[0] not in known:
            yield f"has letters of another script: {found[0]!r}"
    if _is_foreign(plain(accepted), frozenset()):
        return
    words = _words(known)
    for line in answer.splitlines():
        for part in _PART.split(plain(line)):
            if _is_foreign(part, words):
                yield f"is in another language: {part[:60]!r}"
                return


def _is_foreign(part: str, known: frozenset[str]) -> bool:
    every = _words(part)
    other = every & _FOREIGN
    if len(every) < _LEAST or len(other) < 2:
        return False
    other -= known
    if len(other) < 2 or len(other) <= len(every & _PLAIN_ENGLISH):
        return False
    return len(every & known) <= _FEW * len(every)


@lru_cache(maxsize=1024)
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))

"""The syntax of a text search, and what FTS5 is asked for it.

    refun           words match from their beginning: refund, refunds
    "order 1042"    a phrase: these words, whole and side by side
    -voucher        not in the episode; -"gift card" too
    a OR b          one of the two; OR joins its neighbours, and all else must hold
    tool:refund     in the result of a tool; tool:"gift card" too
    e000010         an episode's id, or its beginning

Words are letters and digits of any script; upper case, accents and punctuation do not matter. The
words of a search may be in different turns of an episode.

    refund OR voucher -"gift card"
    -> '"refund" * OR "voucher" *', and not '"gift card"'
"""

import re
import unicodedata

import msgspec

from rehearsal_room.harness.core.errors import SettingsError

MAX_CHARACTERS = 1_000
MAX_WORDS = 32
# A quoted phrase (its closing quote may be missing), or a word, after a minus, or `tool:`, or both.
_PART = re.compile(
    r'(?P<minus>-?)(?P<tool>(?:tool:)?)(?:"(?P<phrase>[^"]*)(?P<closed>"?)|(?P<word>[^\s"]+))'
)


class Word(msgspec.Struct, frozen=True):
    """A word or a phrase of a search."""

    text: str
    is_phrase: bool
    is_of_tool: bool = False  # only in results of tools

    @property
    def fts(self) -> str:
        """The expression of FTS5."""
        column = "results : " if self.is_of_tool else ""
        return f'{column}"{self.text}"{"" if self.is_phrase else " *"}'


class Clause(msgspec.Struct, frozen=True):
    """Words of which an episode has one at least; `is_not`: none."""

    words: tuple[Word, ...]
    is_not: bool = False

    @property
    def fts(self) -> str:
        """The expression of FTS5 for any of the words."""
        return " OR ".join(word.fts for word in self.words)


def clauses_of(text: str) -> tuple[Clause, ...]:
    """What an episode must fulfil, all of it. Raises SettingsError for a search that cannot be
    read, with the place.

    Example: 'late refund OR "gift card" -ok' ->
    (late), (refund or "gift card"), not (ok)
    """
    if len(text) > MAX_CHARACTERS:
        raise SettingsError(
            f"text: a search has at most {MAX_CHARACTERS:,} characters, and this one {len(text):,}"
        )
    clauses: list[Clause] = []
    num_words, joins = 0, 0  # `joins`: the place of an OR whose right side is still to come
    for part in _PART.finditer(text):
        place = part.start() + 1
        if part[0] == "OR":
            if joins or not clauses or clauses[-1].is_not:
                raise SettingsError(f"text: OR at character {place} needs a word before it")
            joins = place
            continue
        word, is_not = _word_of(part, place), bool(part["minus"])
        num_words += 1
        if joins and is_not:
            raise SettingsError(f"text: OR at character {joins} cannot be followed by a minus")
        if joins:
            clauses[-1] = Clause((*clauses[-1].words, word))
        else:
            clauses.append(Clause((word,), is_not))
        joins = 0
    if joins:
        raise SettingsError(f"text: OR at character {joins} needs a word after it")
    if num_words > MAX_WORDS:
        raise SettingsError(
            f"text: a search has at most {MAX_WORDS} words, and this one {num_words}"
        )
    return tuple(clauses)


def _word_of(part: re.Match[str], place: int) -> Word:
    phrase, is_of_tool = part["phrase"], bool(part["tool"])
    if phrase is not None:
        if not part["closed"]:
            raise SettingsError(f"text: the quote at character {place} is not closed")
        return Word(_searchable(phrase, place), is_phrase=True, is_of_tool=is_of_tool)
    word = part["word"].removesuffix("*")
    if "*" in word:
        raise SettingsError(
            f"text: the * in {part['word']!r} at character {place} is not at the end of the word; "
            "words match from their beginning"
        )
    return Word(_searchable(word, place), is_phrase=False, is_of_tool=is_of_tool)


def _searchable(text: str, place: int) -> str:
    """A text that has a letter or a digit. Raises SettingsError."""
    if any(unicodedata.category(one)[0] in "LN" for one in text):
        return text.replace("\0", " ")
    shown = f" in {text!r}" if text.strip() else ""
    raise SettingsError(
        f"text: there is nothing to search for at character {place}{shown}: only letters and "
        "digits are indexed"
    )

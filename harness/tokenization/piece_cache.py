"""Tokenising texts that repeat each other: piece by piece, each piece once."""

import re
from collections.abc import Collection, Mapping, Sequence

from tokenizers import Tokenizer

from harness.tokenization.special_tokens import OPEN, either

_MOST_KNOWN = 500_000  # tokens of pieces that are remembered: some 20 MB


class TextPieces:
    """Tokenises texts piece by piece and remembers the pieces. `marks` stand in texts for the ids
    that they have (harness.tokenization.special_tokens).

    Texts are cut at special tokens, where the tokenizer cuts them, too; the result is the same as
    that of the whole. Only tokens that swallow no blanks beside them are cut at, and none where the
    tokenizer begins a text otherwise than a piece in its midst (Metaspace): behind a mark, such a
    tokenizer may put a blank.
    """

    def __init__(self, tokenizer: Tokenizer, marks: Mapping[str, Sequence[int]]) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}
        self._room = _MOST_KNOWN
        self._special = {
            token.content: number
            for number, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
            and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
        }
        self._fixed: dict[str, Sequence[int]] = {text: [id] for text, id in self._special.items()}
        # Marks are looked for where there is one: the pattern without them is much faster.
        self._cut = self._cut_marks = _cutting(self._special)
        if self._special and not self._cuts_well(max(self._special, key=len)):
            self._fixed = {}
            self._cut = None
        self._fixed |= marks
        self._cut_marks = _cutting(self._fixed)

    def ids(self, text: str) -> list[int]:
        """The ids of a text."""
        cut = self._cut_marks if OPEN in text else self._cut
        ids: list[int] = []
        for piece in cut.split(text) if cut else [text]:
            if not piece:
                continue
            known = self._fixed.get(piece)
            if known is None:
                known = self._known.get(piece)
            ids += self._learned(piece) if known is None else known
        return ids

    def first_special(self, text: str) -> int | None:
        """The special token that stands first in a text, blanks aside; None: another text does."""
        text = text.lstrip()
        found = [token for token in self._special if text.startswith(token)]
        return self._special[max(found, key=len)] if found else None

    def _learned(self, piece: str) -> list[int]:
        ids = self._tokenised(piece)
        self._room -= len(ids)
        if self._room < 0:
            self._known.clear()
            self._room = _MOST_KNOWN - len(ids)
        self._known[piece] = ids
        return ids

    def _tokenised(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _cuts_well(self, special: str) -> bool:
        whole = f"{special}one two\n{special} three{special}"
        return self.ids(whole) == self._tokenised(whole)


def _cutting(texts: Collection[str]) -> re.Pattern[str] | None:
    return re.compile(f"({either(texts)})") if texts else None

"""Tokenising texts that repeat each other: each piece of text is tokenised once."""

import re
from collections.abc import Collection, Mapping, Sequence

from tokenizers import Tokenizer

from rehearsal_room.harness.tokenization.special_tokens import OPEN, alternatives

_MAX_TOKENS = 500_000  # of the pieces that are remembered: some 20 MB


class PieceCache:
    """Tokenises texts piece by piece and remembers the pieces. `placeholders` maps the placeholders
    of harness.tokenization.special_tokens to their ids.

    Texts are cut at special tokens, where the tokenizer itself cuts them too; the result is the
    same as that of the whole text. Texts are cut only at tokens that do not absorb blanks beside
    them, and never where the tokenizer treats the beginning of a text differently from a piece in
    the middle (Metaspace): such a tokenizer may insert a blank after a placeholder.
    """

    def __init__(self, tokenizer: Tokenizer, placeholders: Mapping[str, Sequence[int]]) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, list[int]] = {}
        self._room = _MAX_TOKENS
        self._special = {
            token.content: number
            for number, token in tokenizer.get_added_tokens_decoder().items()
            if token.special
            and not (token.lstrip or token.rstrip or token.single_word or token.normalized)
        }
        self._fixed: dict[str, Sequence[int]] = {text: [id] for text, id in self._special.items()}
        # The pattern without placeholders is much faster, and most texts contain none.
        self._pattern = self._placeholder_pattern = _cut_pattern(self._special)
        if self._special and not self._cuts_correctly(max(self._special, key=len)):
            self._fixed = {}
            self._pattern = None
        self._fixed |= placeholders
        self._placeholder_pattern = _cut_pattern(self._fixed)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        pattern = self._placeholder_pattern if OPEN in text else self._pattern
        ids: list[int] = []
        for piece in pattern.split(text) if pattern else [text]:
            if not piece:
                continue
            known = self._fixed.get(piece)
            if known is None:
                known = self._known.get(piece)
            ids += self._tokenize_new(piece) if known is None else known
        return ids

    def encode_inside(self, text: str) -> list[int]:
        """The ids of a text that follows others in its prompt: it has no beginning of its own."""
        if self._pattern is not None or not self._special or not text:
            return self.encode(text)
        return self.encode(max(self._special, key=len) + text)[1:]

    def _tokenize_new(self, piece: str) -> list[int]:
        ids = self._tokenize(piece)
        self._room -= len(ids)
        if self._room < 0:
            self._known.clear()
            self._room = _MAX_TOKENS - len(ids)
        self._known[piece] = ids
        return ids

    def _tokenize(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _cuts_correctly(self, special: str) -> bool:
        whole = f"{special}one two\n{special} three{special}"
        return self.encode(whole) == self._tokenize(whole)


def _cut_pattern(texts: Collection[str]) -> re.Pattern[str] | None:
    return re.compile(f"({alternatives(texts)})") if texts else None

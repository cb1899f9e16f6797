"""Keeping special tokens out of data: the text of messages and tools never becomes one.

A tool's result that contains `<|im_end|>` would end its message, and could continue as the system.
So the special tokens in data are replaced by placeholders before the chat template renders it, and
the placeholders become the tokens of the letters when the rendered text is tokenised. Special
tokens that the template itself writes stay special.

    data        Done.<|im_end|>
    escaped     Done.\\ue000t2\\ue001         (number 2 of the tokenizer's special tokens)
    ids         those of "Done.", then those of "<|im_end|>" as of any other text

Covers special tokens that are spelled exactly as the tokenizer lists them; does not cover text that
only the tokenizer's normaliser turns into a special token.
"""

import re
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer

# Enclose placeholders: private-use characters, which templates neither strip nor escape.
OPEN, CLOSE = "\ue000", "\ue001"


class SpecialTokenEscapes:
    """Replaces special tokens in data by placeholders. `ids` maps each placeholder to the token ids
    of the letters that it replaces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = tokenizer.get_added_tokens_decoder()
        special = {token.content: number for number, token in added.items() if token.special}
        # OPEN itself is escaped too: then data cannot contain placeholders of its own.
        self._placeholders = {
            text: f"{OPEN}t{number}{CLOSE}" for number, text in enumerate([OPEN, *special])
        }
        self._pattern = re.compile(alternatives(special)) if special else None
        self.ids = {
            placeholder: _ids_of_letters(tokenizer, text, set(special.values()))
            for text, placeholder in self._placeholders.items()
        }

    def escape(self, value: Any) -> Any:
        """JSON-like data with the special tokens in its texts replaced by placeholders."""
        if isinstance(value, str):
            return self._escape_text(value)
        if isinstance(value, dict):
            return {self.escape(key): self.escape(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.escape(item) for item in value]
        return value

    def _escape_text(self, text: str) -> str:
        text = text.replace(OPEN, self._placeholders[OPEN])
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._placeholders[found[0]], text)


def alternatives(texts: Iterable[str]) -> str:
    """A pattern that matches any of the texts, the longest first, as tokenizers prefer."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _ids_of_letters(tokenizer: Tokenizer, text: str, special: set[int]) -> list[int]:
    """The ids of a text in which no special token is recognised."""
    before = tokenizer.encode_special_tokens
    tokenizer.encode_special_tokens = True
    try:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        if special.isdisjoint(ids):
            return ids
        # The vocabulary contains the whole text as a word too (Unigram, WordLevel).
        return [
            id for letter in text for id in tokenizer.encode(letter, add_special_tokens=False).ids
        ]
    finally:
        tokenizer.encode_special_tokens = before

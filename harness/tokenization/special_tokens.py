"""What messages and tools say is data: it never becomes a special token.

A tool's result that spells `<|im_end|>` would end its message, and could go on as the system. So
data is marked before a chat template sees it, and the marks become the tokens of the letters when
the rendered text is tokenised; special tokens that the template itself writes stay special.

    data        Done.<|im_end|>
    marked      Done.\\ue000t2\\ue001         (number 2 of the tokenizer's special tokens)
    ids         those of "Done.", then those of "<|im_end|>" as of any other text

Covers what is spelled letter by letter as the tokenizer lists it; not what only its normaliser
makes a special token of.
"""

import re
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer

# Around marks; of private characters, which templates neither strip nor escape.
OPEN, CLOSE = "\ue000", "\ue001"


class PlainData:
    """Marks what data spells. `ids` are those of each mark."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = tokenizer.get_added_tokens_decoder()
        special = {token.content: number for number, token in added.items() if token.special}
        # OPEN itself is marked, too: then data cannot bear marks of its own.
        self._marks = {
            text: f"{OPEN}t{place}{CLOSE}" for place, text in enumerate([OPEN, *special])
        }
        self._spelled = re.compile(either(special)) if special else None
        self.ids = {
            mark: _letters(tokenizer, text, set(special.values()))
            for text, mark in self._marks.items()
        }

    def marked(self, value: Any) -> Any:
        """JSON-like data, the texts in it marked."""
        if isinstance(value, str):
            return self._marked(value)
        if isinstance(value, dict):
            return {self.marked(key): self.marked(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.marked(one) for one in value]
        return value

    def _marked(self, text: str) -> str:
        text = text.replace(OPEN, self._marks[OPEN])
        if self._spelled is None:
            return text
        return self._spelled.sub(lambda found: self._marks[found[0]], text)


def either(texts: Iterable[str]) -> str:
    """A pattern that finds any of the texts: the longest first, as tokenizers prefer them."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def _letters(tokenizer: Tokenizer, text: str, special: set[int]) -> list[int]:
    """A text's ids where no special token is looked for in it."""
    before = tokenizer.encode_special_tokens
    tokenizer.encode_special_tokens = True
    try:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        if special.isdisjoint(ids):
            return ids
        # The vocabulary has the whole text as a word, too (Unigram, WordLevel).
        return [id for one in text for id in tokenizer.encode(one, add_special_tokens=False).ids]
    finally:
        tokenizer.encode_special_tokens = before

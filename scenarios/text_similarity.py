"""The similarity of texts, without a model: hashed words and letters as vectors, and their cosine.

Words, pairs of neighbouring words and runs of four letters are hashed into a fixed number of
dimensions, so that equal texts have cosine 1, texts that share wording come near 1, and unrelated
texts stay near 0. This compares wording, not meaning: "bike hire" and "bicycle rental" share at
most letters.

It is deterministic in every process: it uses no seed and none of Python's randomized hashes.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import mul
from zlib import crc32

DIMENSIONS = 512
_PAIR, _LETTERS = 0.7, 0.35  # weights; a word has weight 1
_RUN = 4  # letters in a run
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by for from has have in into is it its of on or that the their them "
        "then there these they this to was were will with who whose which your you"
    )
)

Vector = list[float]


def embed(texts: Iterable[str], *, dimensions: int = DIMENSIONS) -> list[Vector]:
    """A vector of length 1 for each text; all zeros for a text without a word."""
    return [_vector(text, dimensions) for text in texts]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine between two vectors, -1 to 1; 0 where one of them is all zeros.

    Raises ValueError for vectors of different lengths.
    """
    if len(one) != len(other):
        raise ValueError(f"vectors of {len(one)} and {len(other)} numbers cannot be compared")
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0


def _vector(text: str, dimensions: int) -> Vector:
    counts: dict[str, float] = {}
    for feature, weight in _features(text):
        counts[feature] = counts.get(feature, 0.0) + weight
    vector = [0.0] * dimensions
    for feature, count in counts.items():
        hashed = crc32(feature.encode())
        sign = 1.0 if hashed & 1 else -1.0  # collisions cancel out instead of adding up
        vector[(hashed >> 1) % dimensions] += sign * math.log1p(count)
    return _unit(vector)


def _features(text: str) -> Iterator[tuple[str, float]]:
    """Example: "open tabs" -> ("w open", 1), ("w tabs", 1), ("p open tabs", 0.7), ("l open", …)"""
    words = [word for word in _WORD.findall(text.casefold()) if word not in _COMMON]
    for word in words:
        yield f"w {word}", 1.0
        for start in range(len(word) - _RUN + 1):
            yield f"l {word[start : start + _RUN]}", _LETTERS
    for left, right in pairwise(words):
        yield f"p {left} {right}", _PAIR


def _unit(vector: Sequence[float]) -> Vector:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else list(vector)

"""The words of micro-worlds: nouns by trade, fields and names.

The nouns of nouns.toml are drawn by trade; a micro-world of a held-out trade has nouns that no
micro-world of training has. Most nouns of training are blends of two, such as
"bookent" of "booking" and "document": a model that sees only a few hundred nouns learns these
nouns, and does not learn to copy a noun. Fields and names are the same in every micro-world.
"""

from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

import msgspec

from rehearsal_room.scenarios.generate.vocabulary.dressing import forms_of, is_free_word, plural_of

MicroworldSplit = Literal["train", "held_out"]
Noun = tuple[str, str]  # singular, plural
_NOUNS = Path(__file__).parent / "nouns.toml"
_BLENDED = 0.75  # share of the nouns of training
_LONGEST = 14  # letters of a blend
FIELDS = (
    *("price", "weight", "length", "score", "width", "height", "depth", "speed", "volume"),
    *("budget", "quota", "age"),
)
NAMES = (
    *("adam", "anna", "boris", "carl", "clara", "dana", "emma", "erik", "flora", "greta", "hugo"),
    *("ivan", "jonas", "julia", "karl", "lara", "leon", "marta", "nora", "oscar", "paula", "sara"),
    *("vera", "zoe"),
)
# Words that the tools, tables and sentences of every micro-world already contain.
_RESERVED = (
    frozenset(FIELDS)
    | frozenset(NAMES)
    | {"find", "close", "delete", "rename", "link", "name", "state", "task"}
)


def draw_noun(rng: Random, split: MicroworldSplit, words: tuple[Noun, ...]) -> Noun:
    """One of a trade's nouns; in training often a blend of two."""
    if split == "held_out" or rng.random() >= _BLENDED:
        return rng.choice(words)
    while True:
        (begin, _), (end, _) = rng.sample(words, 2)
        blend = begin[: (len(begin) + 1) // 2] + end[len(end) // 2 :]
        pair = blend, plural_of(blend)
        if all(map(_is_plain, pair)) and len(blend) <= _LONGEST and not _is_held_out(blend):
            return pair


def _is_held_out(word: str) -> bool:
    return any(word == one for _, words in nouns("held_out") for one, _ in words)


@cache
def nouns(split: MicroworldSplit) -> tuple[tuple[str, tuple[Noun, ...]], ...]:
    """The trades of a split, each with its nouns as (singular, plural), in order."""
    return tuple(
        (name, tuple(sorted(map(forms_of, words)))) for name, words in _nouns_file()[split].items()
    )


def _nouns_file() -> dict[MicroworldSplit, dict[str, list[str]]]:
    return msgspec.toml.decode(
        _NOUNS.read_bytes(), type=dict[MicroworldSplit, dict[str, list[str]]]
    )


def _is_plain(word: str) -> bool:
    return is_free_word(word) and word not in _RESERVED

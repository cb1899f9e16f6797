"""The words of drills: nouns of the trades, fields and names.

Nouns come from the trades of scenarios.generate, so that a drill of a held-out trade has words that
no drill of training has. Fields and names are the same for all.
"""

from functools import cache
from random import Random
from typing import Literal

from scenarios.generate.trades import forms_of, is_free_word, trade, trade_names

Split = Literal["train", "held_out"]
FIELDS = (
    *("price", "weight", "length", "score", "width", "height", "depth", "speed", "volume"),
    *("budget", "quota", "age"),
)
_ONSETS, _VOWELS = "bdfgklmnprstvz", "aeiou"
# What tools, tables and sentences of every drill say already.
_TAKEN = frozenset(FIELDS) | {"find", "close", "delete", "rename", "link", "name", "state", "task"}


@cache
def nouns(split: Split) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """The trades of a split, each with its nouns as (singular, plural), in order."""
    return tuple(
        (name, tuple(sorted(_nouns_of(name))))
        for name in trade_names()
        if trade(name).split == split
    )


def _nouns_of(name: str) -> set[tuple[str, str]]:
    offers = (forms_of(offer) for words in trade(name).words.values() for offer in words)
    return {pair for pair in offers if all(map(_is_plain, pair)) and pair[0] != pair[1]}


def _is_plain(word: str) -> bool:
    return is_free_word(word) and word not in _TAKEN


def name_of(rng: Random) -> str:
    """A made-up name of two syllables, such as "kelo"."""
    return "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(2))

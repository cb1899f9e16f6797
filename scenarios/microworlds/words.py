"""The words of micro-worlds: nouns of the trades, fields and names.

The nouns come from the trades of scenarios.generate, so that a micro-world of a held-out trade has
nouns that no micro-world of training has. Most nouns of training are blends of two, such as
"bookent" of "booking" and "document": a model that sees only a few hundred nouns learns these
nouns, and does not learn to copy a noun. Fields and names are the same in every micro-world.
"""

from functools import cache
from random import Random
from typing import Literal

from scenarios.generate.vocabulary.dressing import forms_of, is_free_word, plural_of
from scenarios.generate.vocabulary.trades import trade, trade_names

Split = Literal["train", "held_out"]
Noun = tuple[str, str]  # singular, plural
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


def draw_noun(rng: Random, split: Split, words: tuple[Noun, ...]) -> Noun:
    """Return one of a trade's nouns; in training often a blend of two."""
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
def nouns(split: Split) -> tuple[tuple[str, tuple[Noun, ...]], ...]:
    """Return the trades of a split, each with its nouns as (singular, plural), in order."""
    return tuple(
        (name, tuple(sorted(_nouns_of(name))))
        for name in trade_names()
        if trade(name).split == split
    )


def _nouns_of(name: str) -> set[Noun]:
    offers = (forms_of(offer) for words in trade(name).words.values() for offer in words)
    return {pair for pair in offers if all(map(_is_plain, pair)) and pair[0] != pair[1]}


def _is_plain(word: str) -> bool:
    return is_free_word(word) and word not in _RESERVED

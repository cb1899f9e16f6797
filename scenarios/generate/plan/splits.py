"""Held-out splits for measuring transfer: by trade, by module combination, by situation, by seed.

    train       trades marked "train", no held-out pair of modules, no held-out situation, the seeds
                of training
    trades      trades marked "held_out"; otherwise as train
    modules     trades of train, at least one held-out pair of modules; otherwise as train
    situations  held-out situations only; otherwise as train
    seeds       as train, with seeds that training never has

Whether a pair of optional modules or a situation is held out depends on its names alone, so the
same ones are held out in every generation. No trade of train offers a word that a held-out trade
offers (a test checks this).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal
from zlib import crc32

from rehearsal_room.scenarios.generate.plan.business_modules import BASE, module
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names

Split = Literal["train", "trades", "modules", "situations", "seeds"]
SPLITS: tuple[Split, ...] = ("train", "trades", "modules", "situations", "seeds")
_HELD_OUT = 12  # one pair of twelve is held out
_HELD_OUT_SITUATIONS = 6  # one situation of six is held out


def is_held_out(one: str, other: str) -> bool:
    """Whether no world of training has both of these modules.

    A module and one that it needs are never held out, since they cannot be separated.
    """
    if other in module(one).needs or one in module(other).needs:
        return False
    return crc32(" ".join(sorted((one, other))).encode()) % _HELD_OUT == 0


def is_offered(situation: str, split: Split | None) -> bool:
    """Whether worlds of a split may have a situation (its id); None: worlds of no split."""
    if split is None:
        return True
    is_held_out = crc32(situation.encode()) % _HELD_OUT_SITUATIONS == 0
    return is_held_out == (split == "situations")


def held_out_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """The held-out pairs among these modules."""
    optional = sorted(set(names).difference(BASE))
    return [pair for pair in combinations(optional, 2) if is_held_out(*pair)]


def trades_of(split: Split | None) -> tuple[str, ...]:
    """The trades of a split; None: all trades."""
    if split is None:
        return trade_names()
    mark = "held_out" if split == "trades" else "train"
    return tuple(name for name in trade_names() if trade(name).split == mark)


def seeds_of(split: Split | None, seed: int) -> str:
    """The beginning of the worlds' seeds: training and the split by seed share none."""
    return f"{seed} held out" if split == "seeds" else f"{seed}"

"""Held-out splits, so that transfer can be measured: by trade, by module combination, by seed.

    train     trades marked "train", no held-out pair of modules, the seeds of training
    trades    trades marked "held_out"; otherwise as train
    modules   trades of train, at least one held-out pair of modules; otherwise as train
    seeds     as train, with seeds that training never has

A pair of optional modules is held out by its names alone, so that the same pairs are held out
whatever is generated. Words that held-out trades offer are offered by no trade of train (a test
keeps this).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal
from zlib import crc32

from scenarios.generate.plan.business_modules import BASE, module
from scenarios.generate.vocabulary.trades import trade, trade_names

Split = Literal["train", "trades", "modules", "seeds"]
SPLITS: tuple[Split, ...] = ("train", "trades", "modules", "seeds")
_HELD_OUT = 12  # one pair of so many


def is_held_out(one: str, other: str) -> bool:
    """Whether this pair of modules never stands in one world of training.

    A module and what it needs are not held out, for they cannot be parted.
    """
    if other in module(one).needs or one in module(other).needs:
        return False
    return crc32(" ".join(sorted((one, other))).encode()) % _HELD_OUT == 0


def held_out_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """The held-out pairs among these modules."""
    optional = sorted(set(names).difference(BASE))
    return [pair for pair in combinations(optional, 2) if is_held_out(*pair)]


def trades_of(split: Split | None) -> tuple[str, ...]:
    """The trades of a split; None: all of them."""
    if split is None:
        return trade_names()
    wanted = "held_out" if split == "trades" else "train"
    return tuple(name for name in trade_names() if trade(name).split == wanted)


def seeds_of(split: Split | None, seed: int) -> str:
    """What a world's chance begins with: training and the split by seed share none."""
    return f"{seed} held out" if split == "seeds" else f"{seed}"

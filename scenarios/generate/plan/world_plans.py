"""Plans of worlds: they are drawn first, and each world depends on its plan alone."""

from collections.abc import Sequence
from random import Random

import msgspec

from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.plan.business_modules import (
    BASE,
    module,
    module_names,
    with_needs,
)
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.plan.splits import Split, held_out_pairs, seeds_of, trades_of
from rehearsal_room.scenarios.generate.vocabulary.trades import trade
from rehearsal_room.scenarios.nearest import did_you_mean

VERSION = "2"  # of the generator; raise it whenever the same plan gives other bytes
_SPREAD = 0.18  # standard deviation of a size, as a share of its knob
_TOLERANCE = 1  # tables; a world is full within this distance of its drawn number


class WorldPlan(msgspec.Struct, frozen=True):
    """The plan of one world."""

    name: str  # of the package, such as "outdoor_shop_0012"
    seed: str  # of the world's random numbers
    trade: str
    modules: tuple[str, ...]  # a module comes after those that it needs
    knobs: Knobs
    situations: tuple[str, ...] = ()  # only these; empty: all that suit it
    split: Split | None = None


def plan_worlds(
    count: int,
    seed: int,
    knobs: Knobs | None = None,
    *,
    trades: Sequence[str] = (),
    modules: Sequence[str] = (),
    among: Sequence[str] | None = None,
    split: Split | None = None,
    situations: Sequence[str] = (),
) -> list[WorldPlan]:
    """The plans of `count` worlds. A longer list begins with the plans of a shorter one.

    `trades`: only these. `modules`: these in every world, plus modules of `among` (None: of all) as
    long as there is room. Raises GenerateError for a trade or a module that does not exist or is
    not part of the split.
    """
    if count < 1:
        raise GenerateError(f"the number of worlds must be at least 1, not {count}")
    knobs = knobs or Knobs()
    offered = _offered(trades, split)
    left = [name for name in (module_names() if among is None else among) if name not in BASE]
    for name in (*modules, *left):
        if name not in module_names():
            names = module_names()
            hint = did_you_mean(name, names) or f"; modules: {', '.join(names)}"
            raise GenerateError(f"module {name!r} not found{hint}")
    return [
        _plan(number, seeds_of(split, seed), knobs, offered, modules, left, split, situations)
        for number in range(1, count + 1)
    ]


def _offered(trades: Sequence[str], split: Split | None) -> tuple[str, ...]:
    offered = trades_of(split)
    for name in trades:
        if trade(name) and name not in offered:
            raise GenerateError(f"trade {name!r} is not part of the split {split!r}")
    found = tuple(dict.fromkeys(trades)) or offered
    if not found:
        raise GenerateError(f"the split {split!r} has no trade")
    return found


def _plan(
    number: int,
    seed: str,
    knobs: Knobs,
    trades: Sequence[str],
    required: Sequence[str],
    among: Sequence[str],
    split: Split | None,
    situations: Sequence[str],
) -> WorldPlan:
    rng = Random(f"{VERSION} {seed} {number}")
    # Trades take turns in an order that changes, so that a thousand worlds have each equally often.
    turn, index = divmod(number - 1, len(trades))
    order = list(trades)
    Random(f"{VERSION} {seed} turn {turn}").shuffle(order)
    name = order[index]
    return WorldPlan(
        name=f"{name}_{number:04d}",
        seed=f"{VERSION} {seed} {number}",
        trade=name,
        modules=_draw_modules(rng, knobs, name, required, among, split),
        knobs=knobs,
        situations=tuple(situations),
        split=split,
    )


def _draw_modules(
    rng: Random,
    knobs: Knobs,
    trade_name: str,
    required: Sequence[str],
    among: Sequence[str],
    split: Split | None,
) -> tuple[str, ...]:
    """Random modules, until the drawn number of tables is reached."""
    tables = draw_size(knobs.tables, rng)
    sensible = trade(trade_name).modules
    left = [name for name in among if name in sensible]
    rng.shuffle(left)
    chosen = with_needs(required)
    if split == "modules":
        chosen = with_needs((*required, *_pair(left, rng)))
    for name in left:
        grown = with_needs((*chosen, name))
        if num_tables(grown) > tables + _TOLERANCE or not {*grown} <= {*BASE, *sensible}:
            continue
        if split not in (None, "modules") and held_out_pairs(grown):
            continue
        chosen = grown
        if num_tables(chosen) >= tables - _TOLERANCE:
            break
    return chosen


def _pair(names: Sequence[str], rng: Random) -> tuple[str, str]:
    pairs = held_out_pairs(names)
    if not pairs:
        raise GenerateError("there is no held-out pair of modules to draw from")
    return rng.choice(pairs)


def draw_size(median: float, rng: Random) -> int:
    """A size drawn around its median."""
    return max(1, round(median * max(0.5, rng.gauss(1, _SPREAD))))


def num_tables(modules: Sequence[str]) -> int:
    """The number of tables that these modules have together."""
    return sum(len(module(name).tables) for name in modules)

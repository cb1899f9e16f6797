"""Which worlds to make: the plan is drawn first, and each world follows from its plan alone."""

from collections.abc import Sequence
from random import Random

import msgspec

from scenarios.generate.core.errors import GenerateError
from scenarios.generate.plan.business_modules import BASE, in_order, module, module_names
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.plan.splits import Split, held_out_pairs, seeds_of, trades_of
from scenarios.generate.vocabulary.trades import trade

VERSION = "1"  # of the generator: raised whenever the same plan gives other bytes
_SPREAD = 0.18  # standard deviation of a size, as a share of its knob
_CLOSE = 1  # tables beside the drawn number at which a world is full


class WorldPlan(msgspec.Struct, frozen=True):
    """One world to be made."""

    name: str  # of the package, such as "outdoor_shop_0012"
    seed: str  # where its chance begins
    trade: str
    modules: tuple[str, ...]  # what is needed first
    knobs: Knobs


def plan_worlds(
    count: int,
    seed: int,
    knobs: Knobs | None = None,
    *,
    trades: Sequence[str] = (),
    modules: Sequence[str] = (),
    among: Sequence[str] | None = None,
    split: Split | None = None,
) -> list[WorldPlan]:
    """Plans of `count` worlds. A longer list begins with the shorter one.

    `trades`: only these; `modules`: these in every world, and of `among` (None: of all there are)
    others as there is room. Raises GenerateError for a trade or a module that there is not, or
    that the split does not have.
    """
    if count < 1:
        raise GenerateError(f"the number of worlds must be at least 1, not {count}")
    knobs = knobs or Knobs()
    offered = _offered(trades, split)
    left = [name for name in (module_names() if among is None else among) if name not in BASE]
    for name in (*modules, *left):
        if name not in module_names():
            raise GenerateError(
                f"there is no module {name!r}; there are {', '.join(module_names())}"
            )
    return [
        _plan(number, seeds_of(split, seed), knobs, offered, modules, left, split)
        for number in range(1, count + 1)
    ]


def _offered(trades: Sequence[str], split: Split | None) -> tuple[str, ...]:
    offered = trades_of(split)
    for name in trades:
        if trade(name) and name not in offered:
            raise GenerateError(f"trade {name!r} is not of the split {split!r}")
    found = tuple(dict.fromkeys(trades)) or offered
    if not found:
        raise GenerateError(f"there is no trade of the split {split!r}")
    return found


def _plan(
    number: int,
    seed: str,
    knobs: Knobs,
    trades: Sequence[str],
    wanted: Sequence[str],
    among: Sequence[str],
    split: Split | None,
) -> WorldPlan:
    rng = Random(f"{VERSION} {seed} {number}")
    # Trades take turns, in an order that changes, so that a thousand worlds have them all alike.
    turn, place = divmod(number - 1, len(trades))
    order = list(trades)
    Random(f"{VERSION} {seed} turn {turn}").shuffle(order)
    name = order[place]
    return WorldPlan(
        name=f"{name}_{number:04d}",
        seed=f"{VERSION} {seed} {number}",
        trade=name,
        modules=_drawn_modules(rng, knobs, name, wanted, among, split),
        knobs=knobs,
    )


def _drawn_modules(
    rng: Random,
    knobs: Knobs,
    trade_name: str,
    wanted: Sequence[str],
    among: Sequence[str],
    split: Split | None,
) -> tuple[str, ...]:
    """Modules by chance, until the drawn number of tables is reached."""
    tables = sized(knobs.tables, rng)
    without = trade(trade_name).without
    left = [name for name in among if name not in without]
    rng.shuffle(left)
    chosen = in_order(wanted)
    if split == "modules":
        chosen = in_order((*wanted, *_pair(left, rng)))
    for name in left:
        grown = in_order((*chosen, name))
        if num_tables(grown) > tables + _CLOSE or set(grown) & set(without):
            continue
        if split in ("train", "trades", "seeds") and held_out_pairs(grown):
            continue
        chosen = grown
        if num_tables(chosen) >= tables - _CLOSE:
            break
    return chosen


def _pair(names: Sequence[str], rng: Random) -> tuple[str, str]:
    pairs = held_out_pairs(names)
    if not pairs:
        raise GenerateError("there is no held-out pair of modules")
    return rng.choice(pairs)


def sized(median: float, rng: Random) -> int:
    """A size drawn around its median."""
    return max(1, round(median * max(0.5, rng.gauss(1, _SPREAD))))


def num_tables(modules: Sequence[str]) -> int:
    """The tables that these modules have together."""
    return sum(len(module(name).tables) for name in modules)

"""Plans of worlds, and what the splits hold out."""

import pytest

from rehearsal_room.scenarios.generate.core.errors import GenerateError
from rehearsal_room.scenarios.generate.plan.business_modules import BASE, module_names
from rehearsal_room.scenarios.generate.plan.knobs import Knobs, knobs_of
from rehearsal_room.scenarios.generate.plan.situation_files import situations as situations_by_id
from rehearsal_room.scenarios.generate.plan.splits import SPLITS, held_out_pairs, is_offered
from rehearsal_room.scenarios.generate.plan.world_plans import num_tables, plan_worlds
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names


def test_a_longer_plan_begins_with_the_shorter() -> None:
    """The same seed gives the same plans for any number of worlds; another seed gives others."""
    assert plan_worlds(40, 7)[:12] == plan_worlds(12, 7)
    assert plan_worlds(12, 7) != plan_worlds(12, 8)


def test_names_are_unique_and_trades_take_turns() -> None:
    """Every world has its own name, and all trades occur equally often."""
    trades = trade_names()
    plans = plan_worlds(2 * len(trades), 3)
    assert len({plan.name for plan in plans}) == len(plans)
    assert sorted(plan.trade for plan in plans) == sorted(2 * trades)


def test_worlds_have_about_the_requested_number_of_tables() -> None:
    """The knob is the median of the drawn numbers of tables."""
    sizes = sorted(num_tables(plan.modules) for plan in plan_worlds(200, 1, Knobs(tables=18)))
    assert 16 <= sizes[100] <= 20
    assert sizes[0] < 16 < 20 < sizes[-1]


def test_a_trade_has_only_modules_that_make_sense_there() -> None:
    """A world has the base and modules that its trade lists."""
    for plan in plan_worlds(200, 5):
        assert set(plan.modules) <= {*BASE, *trade(plan.trade).modules}


def test_requested_modules_are_in_every_world() -> None:
    """A world has the requested modules, the base, and otherwise only offered modules."""
    plans = plan_worlds(5, 1, modules=["orders"], among=[])
    assert {plan.modules for plan in plans} == {(*BASE, "orders")}


def test_splits_share_nothing_that_they_hold_out() -> None:
    """Training and held-out worlds have no trade, no held-out pair of modules, no held-out
    situation and no seed in common, each where the split requires it."""
    registered = situations_by_id()
    train = plan_worlds(120, 7, split="train")
    assert {trade(plan.trade).split for plan in train} == {"train"}
    assert not any(held_out_pairs(plan.modules) for plan in train)
    trades = plan_worlds(30, 7, split="trades")
    assert {trade(plan.trade).split for plan in trades} == {"held_out"}
    modules = plan_worlds(30, 7, split="modules")
    assert all(held_out_pairs(plan.modules) for plan in modules)
    assert {plan.trade for plan in modules} <= {plan.trade for plan in train}
    situations = [one for one in registered if is_offered(one, "situations")]
    assert 0.1 < len(situations) / len(registered) < 0.25
    for split in set(SPLITS) - {"situations"}:
        assert not any(is_offered(one, split) for one in situations)
    seeds = plan_worlds(120, 7, split="seeds")
    assert not {plan.seed for plan in seeds} & {plan.seed for plan in train}


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        ({"tabels": "3"}, "knob 'tabels' not found; did you mean 'tables'?"),
        ({"colour": "3"}, "knob 'colour' not found; knobs: tables, rows, tools, tasks, steps"),
        ({"tables": "many"}, "knob 'tables': expected a whole number, found 'many'"),
        ({"memory": "often"}, "knob 'memory': expected a number, found 'often'"),
        ({"memory": "1.5"}, "knob 'memory': must be at least 0 and at most 1, found '1.5'"),
    ],
)
def test_a_wrong_knob_is_refused(texts: dict[str, str], fault: str) -> None:
    """An unknown knob, or a wrong value, is refused with a sentence."""
    with pytest.raises(GenerateError) as caught:
        knobs_of(texts)
    assert str(caught.value).startswith(fault)


def test_knobs_are_read_from_texts() -> None:
    """Numbers may be given as text."""
    assert knobs_of({"tables": "24", "memory": "0.5"}) == Knobs(tables=24, memory=0.5)


def test_unknown_trades_and_modules_are_refused() -> None:
    """Unknown trades and modules, trades of another split and a count of zero are refused; an
    error suggests the nearest name, or lists all names."""
    train = next(name for name in trade_names() if trade(name).split == "train")
    trades, modules = ", ".join(trade_names()), ", ".join(module_names())
    for count, extra, fault in (
        (0, {}, "the number of worlds must be at least 1, not 0"),
        (1, {"trades": ["moon_base"]}, f"trade 'moon_base' not found; trades: {trades}"),
        (1, {"trades": ["hotl"]}, "trade 'hotl' not found; did you mean 'hotel'?"),
        (1, {"modules": ["xyzzy"]}, f"module 'xyzzy' not found; modules: {modules}"),
        (1, {"modules": ["ordres"]}, "module 'ordres' not found; did you mean 'orders'?"),
        (
            1,
            {"trades": [train], "split": "trades"},
            f"trade {train!r} is not part of the split 'trades'",
        ),
    ):
        with pytest.raises(GenerateError) as caught:
            plan_worlds(count, 1, **extra)
        assert str(caught.value) == fault

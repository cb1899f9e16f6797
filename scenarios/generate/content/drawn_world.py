"""Drawing a world's words, clock, parameters and seed rows, before it has tasks."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import money
from scenarios.generate.plan.business_modules import Module, Table, module
from scenarios.generate.plan.world_plans import WorldPlan, draw_size
from scenarios.generate.vocabulary.dressing import Dresser, Words, choose_words
from scenarios.generate.vocabulary.trades import Trade, trade

_PASSES = 3
_TOLERANCE = 0.07  # share of the drawn number of rows
_NOISE = (
    *("import_batch", "legacy_code", "shelf_mark", "source_file", "row_version", "locale_hint"),
    *("colour_tag", "sync_token", "review_flag", "old_serial"),
)


class DrawnWorld(msgspec.Struct, frozen=True):
    """Everything that is drawn for a world before its tasks."""

    plan: WorldPlan
    trade: Trade
    business: str
    clock: str
    modules: tuple[Module, ...]
    words: Words
    dressers: dict[str, Dresser]  # by module
    parameters: dict[str, int]
    maker: Maker
    noise: dict[str, tuple[str, ...]]  # canonical table -> noise columns

    @property
    def tables(self) -> dict[str, tuple[str, Table]]:
        """Dressed name of a table -> its module and the table."""
        return {
            self.dressers[one.name].name(name): (one.name, table)
            for one in self.modules
            for name, table in one.tables.items()
        }


def draw_world(plan: WorldPlan) -> DrawnWorld:
    """Draw a world and make its rows."""
    rng = Random(plan.seed)
    drawn_trade = trade(plan.trade)
    modules = tuple(map(module, plan.modules))
    words = _words(modules, drawn_trade, rng)
    dressers = {one.name: Dresser(words, one.forms) for one in modules}
    parameters = _parameters(modules, rng)
    clock = _clock(rng)

    def make_rows(scale: float) -> Maker:
        maker = Maker(
            rng=Random(f"{plan.seed} rows"),
            trade=drawn_trade,
            knobs=plan.knobs,
            clock=clock,
            tables={name: table for one in modules for name, table in one.tables.items()},
            parameters=parameters,
            modules=plan.modules,
            scale=scale,
        )
        for one in modules:
            maker.start_module(one.name, dressers[one.name])
            one.rows(maker)
        return maker

    maker = _scaled(make_rows, draw_size(plan.knobs.rows, rng))
    return DrawnWorld(
        plan,
        drawn_trade,
        _business(maker),
        clock,
        modules,
        words,
        dressers,
        parameters,
        maker,
        _noise(modules, maker),
    )


def _scaled(make_rows: Callable[[float], Maker], num_rows: int) -> Maker:
    """A maker with about `num_rows` rows. How many rows the modules make at a scale is only known
    after they have made them, so this takes several passes."""
    scale, maker = 1.0, make_rows(1.0)
    for _ in range(_PASSES):
        if abs(maker.num_rows - num_rows) <= _TOLERANCE * num_rows:
            break
        scale *= num_rows / maker.num_rows
        maker = make_rows(scale)
    return maker


def _words(modules: tuple[Module, ...], drawn_trade: Trade, rng: Random) -> dict[str, str]:
    canonical = {one: many for m in modules for one, many in m.head.words.items()}
    offers = {}
    for word in canonical:
        offered = list(drawn_trade.words.get(word, ()))
        rng.shuffle(offered)
        offers[word] = offered
    reserved = frozenset[str]().union(*(one.parts for one in modules))
    return choose_words(offers, canonical, reserved)


def _parameters(modules: tuple[Module, ...], rng: Random) -> dict[str, int]:
    drawn = {}
    for one in modules:
        for name, (least, most, *step) in one.head.parameters.items():
            drawn[name] = rng.randrange(least, most + 1, *step)
    return drawn


def _clock(rng: Random) -> str:
    """A moment of a working day."""
    day = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=rng.randrange(3 * 365))
    day += timedelta(days=(7 - day.weekday()) % 7 if day.weekday() > 4 else 0)
    moment = day.replace(hour=rng.randrange(9, 17), minute=rng.randrange(0, 60, 5))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _business(maker: Maker) -> str:
    people = maker.people
    pattern = maker.rng.choice(maker.trade.businesses)
    while "{last}" in pattern:
        pattern = pattern.replace("{last}", people.last(), 1)
    return pattern.replace("{first}", people.first()).replace("{city}", people.city())


def _noise(modules: tuple[Module, ...], maker: Maker) -> dict[str, tuple[str, ...]]:
    """Noise columns for the first table with ids of each module, with a value in each row."""
    found = {}
    for one in modules:
        for table in [table for table in one.tables.values() if table.has_id][:1]:
            names = maker.rng.sample(_NOISE, k=maker.knobs.noise)
            found[table.name] = tuple(name for name in names if name not in table.columns)
            for row in maker.rows(table.name):
                row |= {name: maker.code(name[:2].upper(), 4) for name in found[table.name]}
    return found


def dressed_rows(world: DrawnWorld, one: Module, table: Table) -> list[Row]:
    """Return the rows of a table in the trade's words."""
    dresser = world.dressers[one.name]
    return [
        {dresser.name(name): dresser.value(value) for name, value in row.items()}
        for row in world.maker.rows(table.name)
    ]


def parameter_texts(world: DrawnWorld) -> Mapping[str, Any]:
    """Return the parameters as prose shows them."""
    return {
        name: money(value, world.trade.currency) if name.endswith("_CENTS") else value
        for name, value in world.parameters.items()
    }

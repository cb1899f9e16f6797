"""A world's setting: its words, clock, parameters and seed rows, before it has tasks."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from scenarios.api import Row
from scenarios.generate.content.world_maker import Maker
from scenarios.generate.core.task_drafts import money
from scenarios.generate.plan.business_modules import Module, Table, module
from scenarios.generate.plan.plan import WorldPlan, sized
from scenarios.generate.vocabulary.dressing import Dresser, Words, chosen
from scenarios.generate.vocabulary.trades import Trade, trade

_PASSES = 3
_CLOSE = 0.07  # of the wanted number of rows
_NOISE = (
    *("import_batch", "legacy_code", "shelf_mark", "source_file", "row_version", "locale_hint"),
    *("colour_tag", "sync_token", "review_flag", "old_serial"),
)


class Setting(msgspec.Struct, frozen=True):
    """All that is drawn before the tasks are."""

    plan: WorldPlan
    trade: Trade
    business: str
    clock: str
    modules: tuple[Module, ...]
    words: Words
    dressers: dict[str, Dresser]  # by module
    parameters: dict[str, int]
    maker: Maker
    noise: dict[str, tuple[str, ...]]  # canonical table -> useless columns

    @property
    def tables(self) -> dict[str, tuple[str, Table]]:
        """Dressed table -> the module and the table."""
        return {
            self.dressers[one.name].name(name): (one.name, table)
            for one in self.modules
            for name, table in one.tables.items()
        }


def setting_of(plan: WorldPlan) -> Setting:
    """Draw a world's setting and make its rows."""
    rng = Random(plan.seed)
    about = trade(plan.trade)
    modules = tuple(map(module, plan.modules))
    words = _words(modules, about, rng)
    dressers = {one.name: Dresser(words, one.forms) for one in modules}
    parameters = _parameters(modules, rng)
    clock = _clock(rng)

    def made(scale: float) -> Maker:
        maker = Maker(
            rng=Random(f"{plan.seed} rows"),
            trade=about,
            knobs=plan.knobs,
            clock=clock,
            tables={name: table for one in modules for name, table in one.tables.items()},
            parameters=parameters,
            modules=plan.modules,
            scale=scale,
        )
        for one in modules:
            maker.at_work(one.name, dressers[one.name])
            one.rows(maker)
        return maker

    maker = _fitted(made, sized(plan.knobs.rows, rng))
    return Setting(
        plan,
        about,
        _business(maker),
        clock,
        modules,
        words,
        dressers,
        parameters,
        maker,
        _noise(modules, maker),
    )


def _fitted(made: Callable[[float], Maker], wanted: int) -> Maker:
    """A maker with about so many rows: how many modules make is known by having them made."""
    scale, maker = 1.0, made(1.0)
    for _ in range(_PASSES):
        if abs(maker.num_rows - wanted) <= _CLOSE * wanted:
            break
        scale *= wanted / maker.num_rows
        maker = made(scale)
    return maker


def _words(modules: tuple[Module, ...], about: Trade, rng: Random) -> dict[str, str]:
    canonical = {one: many for m in modules for one, many in m.head.words.items()}
    offers = {}
    for word in canonical:
        offered = list(about.words.get(word, ()))
        rng.shuffle(offered)
        offers[word] = offered
    taken = frozenset[str]().union(*(one.parts for one in modules))
    return chosen(offers, canonical, taken)


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
    """Useless columns for the first table with ids of each module, with a value in each row."""
    found = {}
    for one in modules:
        for table in [table for table in one.tables.values() if table.has_id][:1]:
            names = maker.rng.sample(_NOISE, k=maker.knobs.noise)
            found[table.name] = tuple(name for name in names if name not in table.columns)
            for row in maker.rows(table.name):
                row |= {name: maker.code(name[:2].upper(), 4) for name in found[table.name]}
    return found


def dressed_rows(setting: Setting, one: Module, table: Table) -> list[Row]:
    """The rows of a table in the trade's words."""
    dresser = setting.dressers[one.name]
    return [
        {dresser.name(name): dresser.value(value) for name, value in row.items()}
        for row in setting.maker.rows(table.name)
    ]


def shown_parameters(setting: Setting) -> Mapping[str, Any]:
    """The parameters as prose shows them."""
    return {
        name: money(value, setting.trade.currency) if name.endswith("_CENTS") else value
        for name, value in setting.parameters.items()
    }

"""Drawing a world's words, clock, parameters and seed rows, before it has tasks."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any

import msgspec

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.content.staged import StagedSituation, stage_situations
from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.task_drafts import money
from rehearsal_room.scenarios.generate.plan.business_modules import Module, Table, module
from rehearsal_room.scenarios.generate.plan.chosen_situations import SituationDraw
from rehearsal_room.scenarios.generate.plan.situation_files import suitable_situations
from rehearsal_room.scenarios.generate.plan.splits import is_offered
from rehearsal_room.scenarios.generate.plan.world_plans import WorldPlan, draw_size
from rehearsal_room.scenarios.generate.structure.address_shapes import (
    COLUMNS,
    maker_tables,
    shape_addresses,
)
from rehearsal_room.scenarios.generate.structure.deletion_shapes import (
    marked_tables,
    shape_deletion,
)
from rehearsal_room.scenarios.generate.structure.id_shapes import id_value, shape_ids
from rehearsal_room.scenarios.generate.structure.schema_shapes import shape_tables
from rehearsal_room.scenarios.generate.structure.tool_shapes import ShapedTool, shape_tools
from rehearsal_room.scenarios.generate.structure.world_style import WorldStyle, draw_style
from rehearsal_room.scenarios.generate.vocabulary.dressing import (
    Dresser,
    MarkedDresser,
    Words,
    choose_words,
)
from rehearsal_room.scenarios.generate.vocabulary.goods_names import SpokenGoods, spoken_goods
from rehearsal_room.scenarios.generate.vocabulary.trades import Trade, trade

_PASSES = 3
_TOLERANCE = 0.07  # share of the drawn number of rows
_LEAST_SCALE = 0.05
_NOISE = (
    *("import_batch", "source_file", "row_version", "sync_token", "etl_run", "row_checksum"),
    *("replica_id", "cache_key"),
)


class DrawnWorld(msgspec.Struct, frozen=True, dict=True):
    """Everything that is drawn for a world before its tasks."""

    plan: WorldPlan
    trade: Trade
    business: str
    clock: str
    modules: tuple[Module, ...]
    words: Words
    style: WorldStyle
    shapes: dict[str, ShapedTool]  # by the canonical name of a tool that the style changed
    dressers: dict[str, Dresser]  # by module
    marked: MarkedDresser  # of the situations' texts
    parameters: dict[str, int]
    maker: Maker
    staged: tuple[StagedSituation, ...]
    noise: dict[str, tuple[str, ...]]  # canonical table -> noise columns

    @cached_property
    def spoken_goods(self) -> dict[str, SpokenGoods]:
        """Name of the trade's goods -> how people speak of them."""
        return spoken_goods(self.trade)

    @cached_property
    def team_names(self) -> frozenset[str]:
        """The names of the world's teams, posts and warehouses."""
        tables = ("teams", "posts", "warehouses")
        return frozenset(row["name"] for name in tables for row in self.maker.rows(name))

    @cached_property
    def tables(self) -> dict[str, tuple[str, Table]]:
        """Dressed name of a table -> its module and the table."""
        return {
            self.dressers[one.name].name(name): (one.name, table)
            for one in self.modules
            for name, table in one.tables.items()
        }

    @cached_property
    def tool_modules(self) -> dict[str, str]:
        """Name of a tool, as the world or as its module has it -> its module."""
        return {
            name: one.name for one in self.modules for name in (*one.tools, *module(one.name).tools)
        }

    @cached_property
    def tool_dressers(self) -> dict[str, Dresser]:
        """Name of a tool, as the world or as its module has it -> the dresser of its module."""
        return {name: self.dressers[owner] for name, owner in self.tool_modules.items()}

    @cached_property
    def table_dressers(self) -> dict[str, Dresser]:
        """Canonical name of a table -> the dresser of its module."""
        return {name: self.dressers[one.name] for one in self.modules for name in one.tables}

    @cached_property
    def table_names(self) -> dict[str, str]:
        """Canonical name of a table -> its name in the world."""
        return {name: dresser.name(name) for name, dresser in self.table_dressers.items()}


def draw_world(plan: WorldPlan, spare: int = 0, attempt: int = 0) -> DrawnWorld:
    """Draw a world and make its rows. `spare`: situations beyond the number of tasks; another
    `attempt` draws other situations."""
    again = f" {attempt}" if attempt else ""
    rng = Random(plan.seed)
    drawn_trade = trade(plan.trade)
    style = draw_style(Random(f"{plan.seed} style"), plan.modules)
    shapes: dict[str, ShapedTool] = {}
    shaped = [shape_addresses(module(name), style) for name in plan.modules]
    known = frozenset(tool for one in shaped for tool in one.tools)
    modules = _shaped(shaped, style, plan.seed, shapes)
    words = _words(modules, drawn_trade)
    marked = MarkedDresser(words, frozenset().union(*(one.forms for one in modules)))
    dressers = {one.name: Dresser(words, one.forms) for one in modules}
    parameters = _parameters(modules, rng)
    clock = _clock(rng)

    suitable = [
        one
        for one in suitable_situations(plan.modules, plan.trade, plan.situations)
        if is_offered(one.id, plan.split)
    ]

    def make_rows(scale: float) -> tuple[Maker, list[StagedSituation], int]:
        maker = Maker(
            rng=Random(f"{plan.seed} rows"),
            trade=drawn_trade,
            knobs=plan.knobs,
            clock=clock,
            tables=maker_tables(_tables(modules), module("parties")),
            parameters=parameters,
            modules=plan.modules,
            scale=scale,
        )
        for one in modules:
            maker.start_module(one.name, dressers[one.name])
            one.rows(maker)
        num_background = maker.num_rows
        maker.start_situations(marked)
        draw = SituationDraw(suitable, plan.knobs, Random(f"{plan.seed} situations{again}"))
        staged = stage_situations(maker, draw, plan.knobs.tasks + spare, known)
        return maker, staged, num_background

    maker, staged = _scaled(make_rows, draw_size(plan.knobs.rows, rng))
    _fold_addresses(maker, style)
    return DrawnWorld(
        plan,
        drawn_trade,
        _business(maker),
        clock,
        modules,
        words,
        style,
        shapes,
        dressers,
        marked,
        parameters,
        maker,
        tuple(staged),
        _noise(modules, maker),
    )


def _shaped(
    modules: Sequence[Module], style: WorldStyle, seed: str, shapes: dict[str, ShapedTool]
) -> tuple[Module, ...]:
    """The modules in the world's style; `shapes` gets what became of their tools."""
    marked = marked_tables(modules, style)
    tables = _tables(modules)
    found = []
    for one in modules:
        changed, moved = shape_tools(one, style, Random(f"{seed} {one.name} style"))
        shapes |= moved
        changed = shape_ids(shape_deletion(changed, marked), style, tables)
        found.append(shape_tables(changed, style))
    return tuple(found)


def _tables(modules: Sequence[Module]) -> dict[str, Table]:
    return {name: table for one in modules for name, table in one.tables.items()}


def _fold_addresses(maker: Maker, style: WorldStyle) -> None:
    """Write the main address of each customer into the customer's row, where a style keeps it
    there."""
    if style.addresses == "table":
        return
    main = {row["customer_id"]: row for row in maker.rows("addresses", is_main=1)}
    for customer in maker.rows("customers"):
        customer |= {name: main[customer["id"]][name] for name in COLUMNS}


def _scaled(
    make_rows: Callable[[float], tuple[Maker, list[StagedSituation], int]], num_rows: int
) -> tuple[Maker, list[StagedSituation]]:
    """A maker with about `num_rows` rows, and the situations staged in them. How many rows there
    are at a scale is only known after they were made, so this takes several passes; the situations'
    own rows do not depend on the scale."""
    scale = 1.0
    maker, staged, num_background = make_rows(scale)
    for _ in range(_PASSES):
        if abs(maker.num_rows - num_rows) <= _TOLERANCE * num_rows or scale == _LEAST_SCALE:
            break
        room = num_rows - (maker.num_rows - num_background)
        scale = max(_LEAST_SCALE, scale * room / num_background)
        maker, staged, num_background = make_rows(scale)
    return maker, staged


def _words(modules: tuple[Module, ...], drawn_trade: Trade) -> dict[str, str]:
    canonical = {one: many for m in modules for one, many in m.head.words.items()}
    identifiers = frozenset[str]().union(*(one.identifiers for one in modules))
    return choose_words(drawn_trade.words, canonical, identifiers)


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
    """The rows of a table in the trade's words."""
    dresser = world.dressers[one.name]
    rows = world.maker.rows(table.name)
    if world.style.ids != "numbers":
        keys = {name: refers for name, column in table.columns.items() if (refers := column.refers)}
        keys |= {"id": table.name} if table.has_id else {}
        rows = [
            row | {name: world_id(world, refers, row[name]) for name, refers in keys.items()}
            for row in rows
        ]
    return [
        {dresser.name(name): dresser.value(value) for name, value in row.items()} for row in rows
    ]


def world_id(world: DrawnWorld, table: str, number: object) -> object:
    """The id of a row as the world has it. `table`: its canonical name."""
    return id_value(world.style.ids, world.table_names[table], number)


def parameter_texts(world: DrawnWorld) -> Mapping[str, Any]:
    """The parameters as prose shows them."""
    return {
        name: money(value, world.trade.currency) if name.endswith("_CENTS") else value
        for name, value in world.parameters.items()
    }

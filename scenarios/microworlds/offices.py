"""Micro-worlds whose records are kept in several offices: guess the office, or look it up.

    clients  id 37, name "vera", office "oslo", price 12

    where_client(client)          the office that has a record
    find_client(office, client)   its id, if this office has it
    set_client_price(client, price)

A task names the record and lists the offices: "Give client vera the price 47. Offices: oslo, rome,
lima." A guess is right once in as many times as there are offices; a look-up costs one more call
and is always right. In a world without `where` an agent can only search, and its tasks list the
offices as a round: "Offices: oslo/rome/lima/oslo."

A world with two tables has these tools twice. Both tables have records of the same names, in
offices of their own. A world with an unrelated tool has one tool of another table, so that the
names of the tools do not tell what a task is about.
"""

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rehearsal_room.scenarios.format import Call, Task, difficulty_of
from rehearsal_room.scenarios.generate.core.package import Package, inserts
from rehearsal_room.scenarios.microworlds.tasks import DONE, TaskWithChecks
from rehearsal_room.scenarios.microworlds.words import (
    FIELDS,
    NAMES,
    MicroworldSplit,
    draw_noun,
    nouns,
)
from rehearsal_room.scenarios.microworlds.writing import (
    changing_tool,
    micro_package,
    reading_tool,
    write_packages,
)

NUM_ROWS = 10  # of each table
OFFICES = (
    *("bern", "cairo", "delhi", "dublin", "lima", "lisbon", "oslo", "paris", "quito", "rome"),
    *("seoul", "tunis"),
)
MISS = "Not in this office."
_HELD_OUT_ORDERS = 2  # of the orders of tools
_Kind = Literal["where", "find", "set"]


class OfficeShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What worlds of one kind have in common; their words and rows are drawn."""

    offices: Annotated[
        tuple[int, ...],
        Meta(description="Numbers of offices; each world has one of them.", min_length=1),
    ] = (3, 4, 5)
    tables: Annotated[int, Meta(ge=1, le=2, description="Number of tables.")] = 1
    order: Annotated[
        MicroworldSplit, Meta(description="Orders of the tools: those of training, or the others.")
    ] = "train"
    look_up: Annotated[bool, Meta(description="Whether a tool looks offices up.")] = True
    fixed: Annotated[
        bool, Meta(description="Whether all worlds have the same offices, in the same order.")
    ] = False
    unrelated: Annotated[
        bool, Meta(description="Whether one tool is of another table, which no task is about.")
    ] = False

    def __post_init__(self) -> None:
        if not all(1 <= number <= len(OFFICES) for number in self.offices):
            raise ValueError(f"offices: expected numbers from 1 to {len(OFFICES)}")


class Record(msgspec.Struct, frozen=True):
    """A row of a table."""

    id: int
    name: str
    office: str
    number: int


class OfficeTable(msgspec.Struct, frozen=True):
    """One table, kept in the offices of its world."""

    noun: str
    plural: str
    field: str
    records: tuple[Record, ...]


class UnrelatedTool(msgspec.Struct, frozen=True):
    """A table that no task is about, of which there is one tool."""

    table: OfficeTable
    tool: _Kind
    place: int  # among all tools


class OfficeWorld(msgspec.Struct, frozen=True):
    """A world's words, rows and tools, without its tasks."""

    name: str
    trade: str
    offices: tuple[str, ...]  # in the order in which tasks list them
    tables: tuple[OfficeTable, ...]
    tools: tuple[_Kind, ...]  # of each table, in order
    unrelated: UnrelatedTool | None = None


def write_offices(
    folder: Path,
    shape: OfficeShape,
    *,
    name: str,
    seed: int,
    count: int,
    split: MicroworldSplit,
    each: int,
) -> list[Path]:
    """Write `count` packages below `folder`, `name_seed_0000` and so on, with `each` tasks; returns
    their folders.

    The same arguments give the same bytes, and packages that exist already are overwritten.
    Raises OSError.
    """

    def package(full: str, rng: Random) -> Package:
        world = draw_office_world(rng, shape, name=full, split=split)
        return package_of(world, draw_tasks(world, rng, each=each))

    return write_packages(folder, package, name=name, seed=seed, count=count)


def draw_office_world(
    rng: Random, shape: OfficeShape, *, name: str, split: MicroworldSplit
) -> OfficeWorld:
    """A world of this shape, of one of the split's trades."""
    trade, words = rng.choice(nouns(split))
    own = [draw_noun(rng, split, words)]
    count = shape.tables + shape.unrelated
    while len(own) < count:
        other = draw_noun(rng, split, words)
        own += [other] if set(own[0]).isdisjoint(other) else []
    number = rng.choice(shape.offices)
    offices = OFFICES[:number] if shape.fixed else tuple(rng.sample(OFFICES, number))
    names = rng.sample(NAMES, NUM_ROWS)
    ids = iter(rng.sample(range(10, 100), NUM_ROWS * count))
    tables = tuple(
        OfficeTable(
            noun,
            plural,
            field,
            tuple(
                Record(next(ids), one, rng.choice(offices), rng.randint(10, 99))
                for one in rng.sample(names, NUM_ROWS)
            ),
        )
        for (noun, plural), field in zip(own, rng.sample(FIELDS, count), strict=True)
    )
    kinds: tuple[_Kind, ...] = ("where", "find", "set")
    orders = list(permutations(kinds if shape.look_up else kinds[1:]))
    known = len(orders) - (_HELD_OUT_ORDERS if shape.look_up else 0)
    tools = rng.choice(orders[:known] if shape.order == "train" else orders[known:] or orders)
    if not shape.unrelated:
        return OfficeWorld(name, trade, offices, tables, tools)
    unrelated = UnrelatedTool(
        tables[-1], rng.choice(tools), rng.randint(0, shape.tables * len(tools))
    )
    return OfficeWorld(name, trade, offices, tables[:-1], tools, unrelated)


def draw_tasks(world: OfficeWorld, rng: Random, *, each: int) -> list[TaskWithChecks]:
    """Tasks `set-0`, `set-1`, …, each for a record of any table."""
    return [_task(world, rng, number) for number in range(each)]


def _task(world: OfficeWorld, rng: Random, number: int) -> TaskWithChecks:
    table = rng.choice(world.tables)
    record = rng.choice(table.records)
    value = rng.choice([one for one in range(10, 100) if one != record.number])
    calls = (
        *((look_up(table.noun, record.name),) if "where" in world.tools else ()),
        find(table.noun, record.office, record.name),
        set_number(table.noun, table.field, record.id, value),
    )
    task = Task(
        id=f"set-{number}",
        instruction=f"Give {table.noun} {record.name} the {table.field} {value}."
        f" Offices: {_listed(world)}.",
        difficulty=difficulty_of(len(calls) + 1),
        kind="change",
        answer=DONE,
        oracle=calls,
    )
    check = f'check.updated("{table.plural}", {record.id}, {table.field}={value})'
    return TaskWithChecks(task, (check,))


def _listed(world: OfficeWorld) -> str:
    if "where" in world.tools:
        return ", ".join(world.offices)
    return "/".join((*world.offices, world.offices[0]))


def look_up(noun: str, name: str) -> Call:
    """The call that looks a record's office up."""
    return Call(f"where_{noun}", {noun: name})


def find(noun: str, office: str, name: str) -> Call:
    """The call that looks for a record in an office."""
    return Call(f"find_{noun}", {"office": office, noun: name})


def set_number(noun: str, field: str, id: int, value: int) -> Call:
    """The call that sets a record's number."""
    return Call(f"set_{noun}_{field}", {noun: id, field: value})


def package_of(world: OfficeWorld, tasks: list[TaskWithChecks]) -> Package:
    """The package of a world and its tasks."""
    names = " and ".join(table.plural for table in world.tables)
    tables = world.tables
    tools = [_tool(table, kind) for table in tables for kind in world.tools]
    if (unrelated := world.unrelated) is not None:
        tables = (*tables, unrelated.table)
        tools.insert(unrelated.place, _tool(unrelated.table, unrelated.tool))
    return micro_package(
        name=world.name,
        title=f"Micro-world: {names} in {len(world.offices)} offices",
        description=f"Records of the trade {world.trade}, kept in several offices.",
        schema_sql="\n".join(map(_schema, tables)),
        data_sql="".join(map(_data, tables)),
        tools=tools,
        tasks=tasks,
    )


def _schema(table: OfficeTable) -> str:
    return f"""\
CREATE TABLE {table.plural} (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  office TEXT NOT NULL,
  {table.field} INTEGER NOT NULL
);
"""


def _data(table: OfficeTable) -> str:
    rows = [
        {"id": one.id, "name": one.name, "office": one.office, table.field: one.number}
        for one in sorted(table.records, key=lambda one: one.id)
    ]
    return inserts(table.plural, rows)


def _tool(table: OfficeTable, kind: str) -> str:
    noun, plural, field = table.noun, table.plural, table.field
    if kind == "where":
        return reading_tool(
            f"where_{noun}(db: Db, {noun}: str)",
            "Tell the office of one.",
            f'"SELECT office FROM {plural} WHERE name = ?", {noun}',
            f"There is no {noun} of this name.",
        )
    if kind == "find":
        return reading_tool(
            f"find_{noun}(db: Db, office: str, {noun}: str)",
            "Find one in an office.",
            f'"SELECT id AS {noun} FROM {plural} WHERE office = ? AND name = ?", office, {noun}',
            MISS,
        )
    return changing_tool(f"set_{noun}_{field}", noun, plural, f"{field}: int")

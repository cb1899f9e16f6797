"""The Maker, with which modules make seed rows and drafts: chance, people, goods, dates, rows.

Rows are dicts in canonical words. A module's `rows(maker)` may still change them; columns without a
value have their default. Drafts read rows and must not change them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from rehearsal_room.scenarios.api import Row
from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.task_drafts import SpokenValue, money
from rehearsal_room.scenarios.generate.plan.business_modules import BASE, Table
from rehearsal_room.scenarios.generate.plan.knobs import Knobs
from rehearsal_room.scenarios.generate.vocabulary.dressing import Dresser, MarkedDresser
from rehearsal_room.scenarios.generate.vocabulary.people import People, Person
from rehearsal_room.scenarios.generate.vocabulary.trades import Goods, Trade

T = TypeVar("T")
_STAMP = "%Y-%m-%dT%H:%M:%SZ"


class Maker:
    """One world while it is made. Call `start_module` before the functions of a module."""

    def __init__(
        self,
        *,
        rng: Random,
        trade: Trade,
        knobs: Knobs,
        clock: str,
        tables: Mapping[str, Table],
        parameters: Mapping[str, int],
        modules: Sequence[str],
        scale: float,
    ) -> None:
        self.rng = rng
        self.trade = trade
        self.knobs = knobs
        self.now = clock
        self.parameters = parameters  # the values of the constants in this world's tools.py
        self.people = People(trade.locale, rng)
        self.module = ""  # the current module
        self.dresser: Dresser | MarkedDresser = Dresser({}, frozenset())  # of the current part
        self.me: Row = {}  # the acting employee; `staff` sets it
        self._tables = tables
        self._modules = frozenset(modules)
        self._scale = scale
        self._rows: dict[str, list[Row]] = {name: [] for name in tables}
        starts = rng.sample(range(1, max(90, 2 * len(tables))), k=len(tables))
        self._next = {name: start * 100 + 1 for name, start in zip(tables, starts, strict=True)}
        self._goods = list(trade.goods)
        rng.shuffle(self._goods)
        self._clock = datetime.strptime(clock, _STAMP).replace(tzinfo=UTC)

    def start_module(self, module: str, dresser: Dresser) -> None:
        """Set the module that makes rows or drafts from now on, and its dresser."""
        self.module = module
        self.dresser = dresser

    def start_situations(self, dresser: MarkedDresser) -> None:
        """Set the dresser of the situations: it dresses the words in square brackets."""
        self.module = ""
        self.dresser = dresser

    # Chance -----------------------------------------------------------------------------------

    def many(self, usual: int, *, least: int = 1) -> int:
        """How many rows to make where `usual` is usual, scaled by the knob `rows`.

        The knob `distractors` adds people and goods; no row refers to some of them.
        """
        share = 1 + self.knobs.distractors if self.module in BASE else 1.0
        return max(least, round(usual * share * self._scale * self.rng.uniform(0.8, 1.2)))

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.rng.random() < share

    def one_of(self, *items: T) -> T:
        """One of these items at random."""
        return self.rng.choice(items)

    def is_lookalike(self) -> bool:
        """Whether the next record resembles another one (knob `lookalikes`)."""
        return self.chance(self.knobs.lookalikes)

    def cents(self, least: int, most: int, step: int = 50) -> int:
        """An amount in cents, in steps of `step` from `least`."""
        return self.rng.randrange(least, most + 1, step)

    # People, goods, locations -----------------------------------------------------------------

    def person(self) -> Person:
        """A new person."""
        return self.people.person()

    def like(self, person: Person) -> Person:
        """A new person whose name is easily mistaken for this person's."""
        return self.people.like(person)

    def goods(self) -> Goods | None:
        """The next of the trade's goods, each only once; None when all are used."""
        return self._goods.pop() if self._goods else None

    def goods_named(self, name: str) -> Goods | None:
        """The goods of this name; None when they are used or the trade has none."""
        for goods in self._goods:
            if goods.name == name:
                self._goods.remove(goods)
                return goods
        return None

    def location(self) -> str:
        """A location of the trade: a room, a branch, a depot."""
        return self.rng.choice(self.trade.locations)

    def reason(self) -> str:
        """A reason why a customer writes, in the trade's words."""
        return self.rng.choice(self.trade.reasons)

    def pool(self, name: str, *usual: str) -> tuple[str, ...]:
        """The trade's texts of this name, or the usual ones where it has none.

        Example: maker.pool("ticket_subjects", "The invoice is wrong", "Nobody calls back")
        """
        return self.trade.content.get(name, usual)

    def code(self, letters: str, digits: int = 5) -> str:
        """A reference in capitals.

        Example: maker.code("INV") -> "INV-40713"
        """
        return f"{letters}-{self.rng.randrange(10 ** (digits - 1), 10**digits)}"

    # Time -------------------------------------------------------------------------------------

    def ago(self, days: int, hours: int | None = None) -> str:
        """A moment `days` days and `hours` hours before the clock.

        `hours` None: at any time of the working day, never after the clock.
        """
        if hours is None:
            moment = self._clock - timedelta(days=days)
            moment = moment.replace(hour=self.rng.randrange(8, 18), minute=self.rng.randrange(60))
            moment = min(moment, self._clock - timedelta(minutes=5))
        else:
            moment = self._clock - timedelta(days=days, hours=hours)
        return moment.strftime(_STAMP)

    def ahead(self, days: int, hour: int = 9, minute: int = 0) -> str:
        """A moment `days` days after the clock's day, at a full minute."""
        moment = (self._clock + timedelta(days=days)).replace(hour=hour, minute=minute, second=0)
        return moment.strftime(_STAMP)

    def day(self, offset: int = 0) -> str:
        """The clock's day, or the day `offset` days later (negative: earlier).

        Example: maker.day(7) -> "2026-03-23"
        """
        return (self._clock + timedelta(days=offset)).date().isoformat()

    # Rows -------------------------------------------------------------------------------------

    def insert(self, table: str, /, **columns: Any) -> Row:
        """Add a row to a table and return it, with its id and defaults.

        Raises ModuleError for an unknown table or column.
        """
        known = self._tables.get(table)
        if known is None or not columns.keys() <= known.columns.keys():
            unknown = table if known is None else sorted(columns.keys() - known.columns.keys())
            raise ModuleError(f"no table or column {unknown!r} to insert into {table!r}")
        row: Row = {name: column.default for name, column in known.columns.items()} | columns
        if known.has_id:
            row["id"] = columns.get("id", self._next[table])
            self._next[table] = row["id"] + 1
        self._rows[table].append(row)
        return row

    def mark(self) -> dict[str, int]:
        """The number of rows of each table, for `undo`."""
        return {name: len(rows) for name, rows in self._rows.items()}

    def undo(self, mark: Mapping[str, int]) -> None:
        """Remove the rows that were inserted since `mark`."""
        for name, count in mark.items():
            del self._rows[name][count:]

    @property
    def num_rows(self) -> int:
        """The number of rows of all tables."""
        return sum(map(len, self._rows.values()))

    def rows(
        self, table: str, where: Callable[[Row], bool] | None = None, /, **equal: Any
    ) -> list[Row]:
        """The rows of a table that have these values and for which `where` is true.

        A table that this world does not have has no rows.
        """
        items = equal.items()
        return [
            row
            for row in self._rows.get(table, ())
            if all(row[name] == value for name, value in items) and (where is None or where(row))
        ]

    def pick(
        self, table: str, where: Callable[[Row], bool] | None = None, /, **equal: Any
    ) -> Row | None:
        """One such row at random (see `rows`); None when there is none."""
        found = self.rows(table, where, **equal)
        return self.rng.choice(found) if found else None

    def get(self, table: str, row_id: int) -> Row:
        """The row of this id, which must exist."""
        return next(row for row in self._rows[table] if row["id"] == row_id)

    def has(self, module: str) -> bool:
        """Whether this world has a module."""
        return module in self._modules

    # Texts ------------------------------------------------------------------------------------

    def say(self, text: str, /, **values: Any) -> str:
        """A text for a row in the trade's words; values in braces stay unchanged.

        Example: maker.say("The order of {name} came late.", name="Ana") -> "The booking of Ana …"
        """
        return self.dresser.template(text, values)

    def money(self, cents: int) -> SpokenValue:
        """An amount in the trade's currency."""
        return money(cents, self.trade.currency)

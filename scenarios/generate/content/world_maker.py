"""What a module makes its seed rows and its drafts with: chance, people, goods, dates, rows.

Rows are kept in canonical words and are dicts that `rows(maker)` may still change; columns that
were not given have their default. Drafts read them and must not change them.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from scenarios.api import Row
from scenarios.generate.core.errors import ModuleError
from scenarios.generate.core.task_drafts import Say, money
from scenarios.generate.plan.business_modules import BASE, Table
from scenarios.generate.plan.knobs import Knobs
from scenarios.generate.vocabulary.dressing import Dresser
from scenarios.generate.vocabulary.people import People, Person
from scenarios.generate.vocabulary.trades import Goods, Trade

T = TypeVar("T")
_STAMP = "%Y-%m-%dT%H:%M:%SZ"


class Maker:
    """One world in the making. Who calls it says by `at_work` which module is."""

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
        self.parameters = parameters  # what the constants of tools.py are in this world
        self.people = People(trade.locale, rng)
        self.module = ""  # the module at work
        self.dresser = Dresser({}, frozenset())  # with its words
        self.me: Row = {}  # the acting employee; `staff` sets it
        self._tables = tables
        self._modules = frozenset(modules)
        self._scale = scale
        self._rows: dict[str, list[Row]] = {name: [] for name in tables}
        self._next = {name: rng.randrange(1, 90) * 100 + 1 for name in tables}
        self._goods = list(trade.goods)
        rng.shuffle(self._goods)
        self._clock = datetime.strptime(clock, _STAMP).replace(tzinfo=UTC)

    def at_work(self, module: str, dresser: Dresser) -> None:
        """This module makes rows or drafts from now on, in these words."""
        self.module = module
        self.dresser = dresser

    # Chance -----------------------------------------------------------------------------------

    def many(self, usual: int, *, least: int = 1) -> int:
        """How many rows to make where `usual` are usual: more or fewer by the knob `rows`.

        There are more people and goods by the knob `distractors`: nothing refers to some of them.
        """
        share = 1 + self.knobs.distractors if self.module in BASE else 1.0
        return max(least, round(usual * share * self._scale * self.rng.uniform(0.8, 1.2)))

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.rng.random() < share

    def one_of(self, *items: T) -> T:
        """One of these."""
        return self.rng.choice(items)

    def is_vague(self) -> bool:
        """Whether a record shall be named by what must be looked up (knob `ambiguity`)."""
        return self.chance(self.knobs.ambiguity)

    def is_lookalike(self) -> bool:
        """Whether the next record shall resemble another one (knob `lookalikes`)."""
        return self.chance(self.knobs.lookalikes)

    def cents(self, least: int, most: int, step: int = 50) -> int:
        """An amount in cents, a multiple of `step`."""
        return self.rng.randrange(least, most + 1, step)

    # People, goods, places --------------------------------------------------------------------

    def person(self) -> Person:
        """Somebody new."""
        return self.people.person()

    def like(self, person: Person) -> Person:
        """Somebody with a name that is easily mistaken for theirs."""
        return self.people.like(person)

    def goods(self) -> Goods | None:
        """The next of the trade's goods, none twice; None when all are used."""
        return self._goods.pop() if self._goods else None

    def place(self) -> str:
        """A place of the trade: a room, a branch, a depot."""
        return self.rng.choice(self.trade.places)

    def reason(self) -> str:
        """Why somebody writes, as the trade says it."""
        return self.rng.choice(self.trade.reasons)

    def code(self, letters: str, digits: int = 5) -> str:
        """A reference in capitals.

        Example: maker.code("INV") -> "INV-40713"
        """
        return f"{letters}-{self.rng.randrange(10 ** (digits - 1), 10**digits)}"

    # Time -------------------------------------------------------------------------------------

    def ago(self, days: int, hours: int | None = None) -> str:
        """A moment so many days before the clock; `hours` None: at any time of the working day,
        never after the clock."""
        if hours is None:
            moment = self._clock - timedelta(days=days)
            moment = moment.replace(hour=self.rng.randrange(8, 18), minute=self.rng.randrange(60))
            moment = min(moment, self._clock - timedelta(minutes=5))
        else:
            moment = self._clock - timedelta(days=days, hours=hours)
        return moment.strftime(_STAMP)

    def ahead(self, days: int, hour: int = 9, minute: int = 0) -> str:
        """A moment so many days after the clock's day, at a full minute."""
        moment = (self._clock + timedelta(days=days)).replace(hour=hour, minute=minute, second=0)
        return moment.strftime(_STAMP)

    def day(self, offset: int = 0) -> str:
        """The clock's day, or one so many days later (earlier: negative).

        Example: maker.day(7) -> "2026-03-23"
        """
        return (self._clock + timedelta(days=offset)).date().isoformat()

    # Rows -------------------------------------------------------------------------------------

    def insert(self, table: str, /, **columns: Any) -> Row:
        """A new row of a table, with its id and its defaults. Raises ModuleError for a table or
        column that is not there."""
        about = self._tables.get(table)
        if about is None or not columns.keys() <= about.columns.keys():
            unknown = table if about is None else sorted(columns.keys() - about.columns.keys())
            raise ModuleError(f"no table or column {unknown!r} to insert into {table!r}")
        row: Row = {name: column.default for name, column in about.columns.items()} | columns
        if about.has_id:
            row["id"] = columns.get("id", self._next[table])
            self._next[table] = row["id"] + 1
        self._rows[table].append(row)
        return row

    @property
    def num_rows(self) -> int:
        """All rows of all tables."""
        return sum(map(len, self._rows.values()))

    def rows(
        self, table: str, where: Callable[[Row], bool] | None = None, /, **equal: Any
    ) -> list[Row]:
        """The rows of a table with these values, and for which `where` is true. A table that this
        world has not has no rows."""
        items = equal.items()
        return [
            row
            for row in self._rows.get(table, ())
            if all(row[name] == value for name, value in items) and (where is None or where(row))
        ]

    def pick(
        self, table: str, where: Callable[[Row], bool] | None = None, /, **equal: Any
    ) -> Row | None:
        """One such row by chance; None when there is none."""
        found = self.rows(table, where, **equal)
        return self.rng.choice(found) if found else None

    def get(self, table: str, row_id: int) -> Row:
        """The row of this id, which is there."""
        return next(row for row in self._rows[table] if row["id"] == row_id)

    def has(self, module: str) -> bool:
        """Whether this world has a module."""
        return module in self._modules

    # Texts ------------------------------------------------------------------------------------

    def say(self, text: str, /, **values: Any) -> str:
        """A text for a row, in the trade's words; values in braces are left as they are.

        Example: maker.say("The order of {name} came late.", name="Ana") -> "The booking of Ana …"
        """
        return self.dresser.template(text, values)

    def word(self, canonical: str) -> str:
        """What the trade says for a canonical word."""
        return self.dresser.text(canonical)

    def money(self, cents: int) -> Say:
        """An amount in the trade's currency."""
        return money(cents, self.trade.currency)

"""Trades: the words, goods, locations and reasons that turn modules into a business.

A trade is a file scenarios/generate/vocabulary/trades/<name>.toml. scenarios/generate/README.md
explains how to write one; outdoor_shop.toml is the example.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from rehearsal_room.scenarios.errors import PackageError
from rehearsal_room.scenarios.files import convert, parse_toml, read_text
from rehearsal_room.scenarios.generate.core.errors import GenerateError, ModuleError
from rehearsal_room.scenarios.generate.vocabulary.dressing import forms_of, is_free_word
from rehearsal_room.scenarios.nearest import did_you_mean

FOLDER = Path(__file__).parent / "trades"


class Goods(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that a trade sells, hires out or does.

    Example, in TOML: ["Trail tent 2P", "Tents", 18900, 32900, "piece"]
    """

    name: str
    category: str
    least: int  # cents
    most: int  # cents
    unit: str


class Trade(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One trade."""

    title: str  # of the world, with {business}
    about: str  # what the business does, a sentence with {business}
    tone: str  # the beginning of its policy, one or two sentences
    locale: str  # of Faker, such as "en_GB"
    businesses: tuple[str, ...]  # name patterns with {last}, {city} or {first}
    goods: tuple[Goods, ...]  # at least 25, of at least 6 categories
    locations: tuple[str, ...] = msgspec.field(name="places")  # rooms, branches; at least 6
    reasons: tuple[str, ...]  # why a customer writes, plain phrases without facts; at least 6
    modules: tuple[str, ...]  # the optional modules that make sense here; at least 9
    words: dict[str, str] = {}  # canonical singular -> "guest" or "person/people"
    titled: tuple[str, ...] = ()  # categories whose goods have titles, as books and plays do
    proper: tuple[str, ...] = ()  # first words of goods that are names: "Rioja", "VW"
    currency: str = "$"
    split: Literal["train", "held_out"] = "train"
    content: dict[str, tuple[str, ...]] = {}  # texts of the trade for rows: see Maker.pool

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of its goods, in order, without duplicates."""
        return tuple(dict.fromkeys(one.category for one in self.goods))


@cache
def trade(name: str) -> Trade:
    """The trade of this name. Raises GenerateError when there is none, ModuleError when it
    is broken."""
    path = FOLDER / f"{name}.toml"
    if name not in trade_names():
        hint = did_you_mean(name, trade_names()) or f"; trades: {', '.join(trade_names())}"
        raise GenerateError(f"trade {name!r} not found{hint}")
    try:
        found = convert(path, parse_toml(path, read_text(path)), Trade)
    except PackageError as exc:
        raise ModuleError(str(exc)) from exc
    for canonical, word in found.words.items():
        for form in forms_of(word):
            if not is_free_word(form):
                raise ModuleError(f"{path}: words.{canonical}: {form!r} cannot be used in code")
    return found


@cache
def trade_names() -> tuple[str, ...]:
    """The names of all trades, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

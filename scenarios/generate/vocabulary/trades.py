"""Trades: the words, goods, places and reasons that make a business out of modules.

A trade is a file scenarios/generate/trades/<name>.toml; how to write one stands in
scenarios/generate/README.md, and outdoor_shop.toml is the example.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from scenarios.errors import PackageError
from scenarios.files import convert, parse_toml, read_text
from scenarios.generate.core.errors import GenerateError, ModuleError
from scenarios.generate.vocabulary.dressing import forms_of, is_free_word

FOLDER = Path(__file__).parent / "trades"


class Goods(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that a trade sells, hires out or does.

    Example, as TOML writes it: ["Trail tent 2P", "Tents", 18900, 32900, "piece"]
    """

    name: str
    category: str
    least: int  # cents
    most: int  # cents
    unit: str


class Trade(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One trade."""

    title: str  # with {business}; of the world
    about: str  # what the business does, a sentence with {business}
    tone: str  # how its policy begins, one or two sentences
    locale: str  # of Faker, such as "en_GB"
    businesses: tuple[str, ...]  # name patterns with {last}, {city} or {first}
    goods: tuple[Goods, ...]  # at least 25, of at least 6 categories
    places: tuple[str, ...]  # rooms, branches, depots; at least 6
    reasons: tuple[str, ...]  # why somebody writes to it, plain phrases without facts; at least 6
    words: dict[str, tuple[str, ...]]  # canonical singular -> "guest" or "person/people"
    currency: str = "$"
    split: Literal["train", "held_out"] = "train"
    without: tuple[str, ...] = ()  # modules that make no sense here

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of its goods, in order, none twice."""
        return tuple(dict.fromkeys(one.category for one in self.goods))


@cache
def trade(name: str) -> Trade:
    """The trade of this name. Raises GenerateError when there is none, ModuleError when it is
    broken."""
    path = FOLDER / f"{name}.toml"
    if name not in trade_names():
        raise GenerateError(f"there is no trade {name!r}; there are {', '.join(trade_names())}")
    try:
        found = convert(path, parse_toml(path, read_text(path)), Trade)
    except PackageError as exc:
        raise ModuleError(str(exc)) from exc
    for canonical, offers in found.words.items():
        for form in (form for offer in offers for form in forms_of(offer)):
            if form != canonical and not is_free_word(form):
                raise ModuleError(f"{path}: words.{canonical}: {form!r} is no word for code")
    return found


@cache
def trade_names() -> tuple[str, ...]:
    """Every trade there is, by name."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))

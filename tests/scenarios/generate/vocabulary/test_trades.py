"""The trades: their goods, locations and reasons, and their words for canonical words."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Formatter

import pytest

from rehearsal_room.scenarios.generate import modules
from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.plan.business_modules import BASE, module, module_names
from rehearsal_room.scenarios.generate.vocabulary import trades
from rehearsal_room.scenarios.generate.vocabulary.dressing import (
    choose_words,
    forms_of,
    is_free_word,
)
from rehearsal_room.scenarios.generate.vocabulary.people import pools_of
from rehearsal_room.scenarios.generate.vocabulary.trades import FOLDER, Trade, trade, trade_names

NAMES = trade_names()
SEASON = re.compile(
    r"\b(January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Spring|Summer|Autumn|Winter|Midsummer|Harvest|Snow|Christmas|Easter|New year|month)\b",
    re.IGNORECASE,
)
CANONICAL = {one: many for name in module_names() for one, many in module(name).head.words.items()}
CANONICAL_FORMS = {form for pair in CANONICAL.items() for form in pair}


def of_split(split: str) -> list[Trade]:
    return [trade(name) for name in NAMES if trade(name).split == split]


def twice(items: Iterable[str]) -> list[str]:
    return [item for item, times in Counter(items).items() if times > 1]


def words_of(about: Trade) -> list[str]:
    """Every form of a trade's own words."""
    return [form for word in about.words.values() for form in forms_of(word)]


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_there_are_enough_trades_of_both_splits() -> None:
    """At least 25 trades train, at least 3 are held out, and there is no third split."""
    train, held_out = len(of_split("train")), len(of_split("held_out"))
    assert (train >= 25, held_out >= 3, train + held_out) == (True, True, len(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_a_trade_has_enough_goods_and_texts(name: str) -> None:
    """A trade has at least 25 goods in 6 categories, 6 locations, 6 reasons, 4 business names."""
    about = trade(name)
    sizes = {
        "goods": len(about.goods),
        "categories": len(about.categories),
        "places": len(about.locations),
        "reasons": len(about.reasons),
        "businesses": len(about.businesses),
    }
    least = {"goods": 25, "categories": 6, "places": 6, "reasons": 6, "businesses": 4}
    assert {key: size for key, size in sizes.items() if size < least[key]} == {}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_listed_twice(name: str) -> None:
    """No goods, location, reason or business name of a trade occurs twice."""
    about = trade(name)
    assert twice(one.name.casefold() for one in about.goods) == []
    assert twice((*about.locations, *about.reasons, *about.businesses)) == []


@pytest.mark.parametrize("name", NAMES)
def test_prices_are_ranges(name: str) -> None:
    """Every price range is positive and has more than one price."""
    wrong = [one for one in trade(name).goods if not 0 < one.least < one.most]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_clean(name: str) -> None:
    """Texts have no stray spaces, and only the placeholders that will be filled."""
    about = trade(name)
    texts = [
        about.title,
        about.about,
        about.tone,
        *about.businesses,
        *about.locations,
        *about.reasons,
    ]
    texts += [text for one in about.goods for text in (one.name, one.category, one.unit)]
    assert [text for text in texts if not text or text != " ".join(text.split())] == []
    assert [
        text for text in about.businesses if placeholders(text) - {"first", "last", "city"}
    ] == []
    asked = [placeholders(text) for text in (about.title, about.about, about.tone)]
    assert asked == [{"business"}, {"business"}, set()]
    assert [text[-1] for text in (about.about, about.tone)] == [".", "."]


@pytest.mark.parametrize("name", NAMES)
def test_goods_are_named_without_quotes_and_canonical_words(name: str) -> None:
    """Names, categories and units of goods have no quotes and no word that a trade renames."""
    about = trade(name)
    texts = {text for one in about.goods for text in (one.name, one.category, one.unit)}
    assert [text for text in texts if re.search("[\"'`’]", text)] == []
    words = {
        text: {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)} for text in texts
    }
    assert [text for text in texts if words[text] & CANONICAL_FORMS] == []


@pytest.mark.parametrize("name", NAMES)
def test_only_things_are_packed_and_stored(name: str) -> None:
    """A trade that ships, stores, buys in or takes back goods sells no services."""
    about = trade(name)
    if {"shipments", "stock", "suppliers", "returns"} & set(about.modules):
        services = {"ride", "letter", "hour", "night", "week", "month", "term", "service", "seat"}
        assert [one.name for one in about.goods if one.unit in services] == []


@pytest.mark.parametrize("name", NAMES)
def test_dated_content_names_no_season(name: str) -> None:
    """Projects, courses and appointments have dates of their own, so no month or season."""
    content = trade(name).content
    dated = ("project_titles", "course_titles", "appointment_subjects")
    assert [text for key in dated for text in content.get(key, ()) if SEASON.search(text)] == []


def test_dated_names_of_modules_name_no_season() -> None:
    """The same holds for the names that modules bring along, campaigns included."""
    folder = Path(modules.__file__).parent
    files = [folder / one / "make.py" for one in ("calendars", "coupons", "projects", "training")]
    texts = [
        text for file in files for text in re.findall(r'(?<!")"[A-Z][^"]*"(?!")', file.read_text())
    ]
    assert texts
    assert [text for text in texts if SEASON.search(text)] == []


@pytest.mark.parametrize("name", NAMES)
def test_words_are_single_free_and_countable(name: str) -> None:
    """Every word is one lower-case word with its own plural and without another use in code; no
    word stands for two ideas, and each replaces a canonical word of the trade's modules."""
    about = trade(name)
    assert [word for word in words_of(about) if not is_free_word(word)] == []
    assert [word for word in about.words.values() if len(set(forms_of(word))) != 2] == []
    assert twice(words_of(about)) == []
    used = {word for one in (*BASE, *about.modules) for word in module(one).head.words}
    assert set(about.words) - used == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_world_of_all_modules_has_the_trades_words(name: str) -> None:
    """With all modules of the trade, each of its words is used: none collides."""
    about = trade(name)
    hosted = [module(one) for one in (*BASE, *about.modules)]
    canonical = {one: many for each in hosted for one, many in each.head.words.items()}
    identifiers = frozenset[str]().union(*(one.identifiers for one in hosted))
    words = choose_words(about.words, canonical, identifiers)
    assert [word for word in about.words if word not in words] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_trade_has_modules_that_exist(name: str) -> None:
    """`modules` names at least nine existing modules, none of the base and none twice, and with
    each module those that it needs."""
    modules = trade(name).modules
    assert len(modules) == len(set(modules)) >= 9
    assert set(modules) - (set(module_names()) - set(BASE)) == set()
    assert {need for one in modules for need in module(one).needs} - {*modules, *BASE} == set()


@pytest.mark.parametrize("locale", sorted({trade(name).locale for name in NAMES}))
def test_a_locale_has_enough_people_and_towns(locale: str) -> None:
    """Every locale has at least 50 first names, last names, streets and companies, and 20 towns."""
    pools = pools_of(locale)
    sizes = [pools.firsts, pools.lasts, pools.streets, pools.companies]
    assert [len(pool) for pool in sizes if len(pool) < 50] == []
    assert len(set(pools.cities)) > 20


@pytest.mark.parametrize(
    "read",
    [
        lambda about: [one.name for one in about.goods],
        lambda about: about.categories,
        lambda about: about.locations,
        lambda about: about.reasons,
        lambda about: about.businesses,
        lambda about: [about.locale],
    ],
    ids=["goods", "categories", "places", "reasons", "businesses", "locale"],
)
def test_held_out_trades_share_no_vocabulary(read: Callable[[Trade], Iterable[str]]) -> None:
    """A held-out trade shares no good, category, location, reason, name or locale with a
    trade of training."""
    train = {text.casefold() for about in of_split("train") for text in read(about)}
    held_out = {text.casefold() for about in of_split("held_out") for text in read(about)}
    assert (train & held_out, bool(train), bool(held_out)) == (set(), True, True)


def test_a_word_that_code_needs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, the canonical word and the trade's."""
    text = (FOLDER / "outdoor_shop.toml").read_text(encoding="utf-8")
    (tmp_path / "odd_shop.toml").write_text(
        text.replace("[words]\n", '[words]\norder = "select"\n')
    )
    monkeypatch.setattr(trades, "FOLDER", tmp_path)
    trade_names.cache_clear()
    try:
        with pytest.raises(ModuleError, match=r"words.order: 'select' cannot be used in code"):
            trade("odd_shop")
    finally:
        trade_names.cache_clear()

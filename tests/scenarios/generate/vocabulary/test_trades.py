"""The trades: their goods, locations and reasons, and their words for canonical words."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from string import Formatter

import pytest

from scenarios.generate.core.errors import ModuleError
from scenarios.generate.plan.business_modules import BASE, module, module_names
from scenarios.generate.vocabulary import trades
from scenarios.generate.vocabulary.dressing import choose_words, forms_of, is_free_word, word_parts
from scenarios.generate.vocabulary.people import pools_of
from scenarios.generate.vocabulary.trades import FOLDER, Trade, trade, trade_names

NAMES = trade_names()
CANONICAL = {one: many for name in module_names() for one, many in module(name).head.words.items()}
CANONICAL_FORMS = {form for pair in CANONICAL.items() for form in pair}


def of_split(split: str) -> list[Trade]:
    return [trade(name) for name in NAMES if trade(name).split == split]


def twice(items: Iterable[str]) -> list[str]:
    return [item for item, times in Counter(items).items() if times > 1]


def offers_of(about: Trade) -> list[str]:
    """Every word that a trade offers for a different word."""
    return [offer for word, offers in about.words.items() for offer in offers if offer != word]


def offered(about: Trade) -> list[str]:
    """Every form of those words."""
    return [form for offer in offers_of(about) for form in forms_of(offer)]


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
    assert [text for text in texts if word_parts(text) & CANONICAL_FORMS] == []


@pytest.mark.parametrize("name", NAMES)
def test_words_are_single_free_and_countable(name: str) -> None:
    """Every word is one lower-case word with its own plural and without another use in code."""
    words = offered(trade(name))
    assert [word for word in words if not is_free_word(word)] == []
    assert [offer for offer in offers_of(trade(name)) if len(set(forms_of(offer))) != 2] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_two_words_of_a_world_can_conflict(name: str) -> None:
    """No word is offered twice within a trade, and none is a canonical word of a module."""
    words = offered(trade(name))
    assert twice(words) == []
    assert set(words) & CANONICAL_FORMS == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_word_of_every_module_is_renamed_in_several_ways(name: str) -> None:
    """For each canonical word of each of its modules, a trade offers at least two words."""
    about = trade(name)
    hosted = [one for one in module_names() if one not in about.without]
    few = {
        (one, word): about.words.get(word, ())
        for one in hosted
        for word in module(one).head.words
        if len(about.words.get(word, ())) < 2
    }
    assert few == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_world_of_all_modules_has_distinct_words(name: str) -> None:
    """With all modules, each canonical word gets its own word that no code uses."""
    reserved = frozenset[str]().union(*(module(one).parts for one in module_names()))
    words = choose_words(trade(name).words, CANONICAL, reserved)
    assert (set(words), len(set(words.values()))) == (CANONICAL_FORMS, len(CANONICAL_FORMS))


@pytest.mark.parametrize("name", NAMES)
def test_a_trade_leaves_out_modules_that_exist(name: str) -> None:
    """`without` names existing modules, and none of the base."""
    without = set(trade(name).without)
    assert without - (set(module_names()) - set(BASE)) == set()


@pytest.mark.parametrize("locale", sorted({trade(name).locale for name in NAMES}))
def test_a_locale_has_enough_people_and_towns(locale: str) -> None:
    """Every locale has at least 50 first names, last names, streets, towns and companies."""
    pools = pools_of(locale)
    sizes = [pools.firsts, pools.lasts, pools.streets, pools.cities, pools.companies]
    assert [len(pool) for pool in sizes if len(pool) < 50] == []


@pytest.mark.parametrize(
    "read",
    [
        offered,
        lambda about: [one.name for one in about.goods],
        lambda about: about.categories,
        lambda about: about.locations,
        lambda about: about.reasons,
        lambda about: about.businesses,
        lambda about: [about.locale],
    ],
    ids=["words", "goods", "categories", "places", "reasons", "businesses", "locale"],
)
def test_held_out_trades_share_no_vocabulary(read: Callable[[Trade], Iterable[str]]) -> None:
    """A held-out trade shares no word, good, category, location, reason, name or locale with a
    trade of training."""
    train = {text.casefold() for about in of_split("train") for text in read(about)}
    held_out = {text.casefold() for about in of_split("held_out") for text in read(about)}
    assert (train & held_out, bool(train), bool(held_out)) == (set(), True, True)


def test_a_word_that_code_needs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, the canonical word and the offer."""
    text = (FOLDER / "outdoor_shop.toml").read_text(encoding="utf-8")
    (tmp_path / "odd_shop.toml").write_text(text.replace('order = ["order",', 'order = ["select",'))
    monkeypatch.setattr(trades, "FOLDER", tmp_path)
    trade_names.cache_clear()
    try:
        with pytest.raises(ModuleError, match=r"words.order: 'select' cannot be used in code"):
            trade("odd_shop")
    finally:
        trade_names.cache_clear()

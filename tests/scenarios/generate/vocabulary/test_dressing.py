"""Dressing: canonical words become a trade's words."""

import pytest

from rehearsal_room.scenarios.generate.vocabulary.dressing import (
    Dresser,
    MarkedDresser,
    choose_words,
    forms_of,
    is_free_word,
    plural_of,
)

WORDS = {
    "order": "entry",
    "orders": "entries",
    "customer": "patron",
    "customers": "patrons",
    "agent": "usher",
}
DRESSER = Dresser(WORDS, frozenset(WORDS) | {"line"})


@pytest.mark.parametrize(
    ("text", "dressed"),
    [
        (
            "SELECT * FROM order_lines ORDER BY order_id",
            "SELECT * FROM entry_lines ORDER BY entry_id",
        ),
        ("class OrderStatus(CustomerKind): ...", "class EntryStatus(PatronKind): ..."),
        ("MOST_OPEN_ORDERS = 4", "MOST_OPEN_ENTRIES = 4"),
        ("Cancel an order of a customer.", "Cancel an entry of a patron."),
        ("A customer, an agent", "A patron, an usher"),
        ("Orders of the customer's agent", "Entries of the patron's usher"),
        ("reorder, border, orderly", "reorder, border, orderly"),
        ("a line stays as it is", "a line stays as it is"),
    ],
)
def test_words_are_renamed_where_they_are_whole(text: str, dressed: str) -> None:
    """A word is renamed as a whole part of a name or a whole word, in its case, with its article;
    SQL's upper-case words and words that merely contain it are not renamed."""
    assert DRESSER.text(text) == dressed


@pytest.mark.parametrize(
    ("word", "phrase"),
    [
        ("unit", "a unit"),
        ("hour", "an hour"),
        ("user", "a user"),
        ("item", "an item"),
        ("eulogy", "a eulogy"),
        ("umbrella", "an umbrella"),
        ("onset", "an onset"),
    ],
)
def test_the_article_follows_the_sound(word: str, phrase: str) -> None:
    """The article fits the pronunciation of the new word."""
    assert Dresser({"order": word}, frozenset({"order"})).text("an order") == phrase


def test_the_values_of_a_template_are_not_dressed() -> None:
    """Placeholders keep their names, and data stays unchanged."""
    filled = DRESSER.template(
        "The order of {order} for {customer}", {"order": 7, "customer": "Orders Ltd"}
    )
    assert filled == "The entry of 7 for Orders Ltd"


def test_values_are_dressed_when_they_are_identifiers() -> None:
    """Enumerations are renamed with their columns; names, codes and prose in data are not."""
    values = ["agent", "order_late", "Order", "my order", "a@order.example", 7, None]
    dressed = ["usher", "entry_late", "Order", "my order", "a@order.example", 7, None]
    assert [DRESSER.value(value) for value in values] == dressed
    assert DRESSER.value([{"order_id": 7, "kind": "order"}]) == [{"entry_id": 7, "kind": "entry"}]


def test_plurals() -> None:
    """Regular plurals are formed; irregular plurals are written in the offer."""
    words = ("guest", "category", "box", "key", "class")
    assert [plural_of(word) for word in words] == [
        "guests",
        "categories",
        "boxes",
        "keys",
        "classes",
    ]
    assert forms_of("person/people") == ("person", "people")


def test_a_word_that_collides_is_not_replaced() -> None:
    """A word stays canonical when its replacement is another word of the world, or would give an
    identifier that the code has already; words of one sense in other identifiers do no harm."""
    words = {"order": "entry/entries", "line": "order", "agent": "host", "guest": "visitor"}
    canonical = {"order": "orders", "line": "lines", "agent": "agents", "guest": "guests"}
    identifiers = frozenset({"order_id", "agent_id", "host_id", "guest_id", "visitor_count"})
    found = choose_words(words, canonical, identifiers)
    assert found == {
        "order": "entry",
        "orders": "entries",
        "guest": "visitor",
        "guests": "visitors",
    }


def test_only_marked_words_are_dressed() -> None:
    """A word in brackets takes the trade's word with its article; other words stay as they are, and
    a mark that is not a word of the world is an error."""
    dresser = MarkedDresser(
        {"order": "rental", "orders": "rentals"}, frozenset({"order", "orders"})
    )
    text = dresser.template(
        "In order: [an order] of {name}, an [order]. [Orders] stay.", {"name": "[order]"}
    )
    assert text == "In order: a rental of [order], a rental. Rentals stay."
    with pytest.raises(KeyError, match="case"):
        dresser.text("the [case]")


@pytest.mark.parametrize(
    ("goods", "sentence"),
    [
        ("Trekking poles", "Trekking poles were back, and Trekking poles aren't “Trekking poles”"),
        ("Wool dress", "Wool dress was back, and Wool dress isn't “Wool dress”"),
        (
            "Repair of gates",
            "Repair of gates was back, and Repair of gates isn't “Repair of gates”",
        ),
        ("Anna Roberts", "Anna Roberts was back, and Anna Roberts isn't “Anna Roberts”"),
    ],
)
def test_a_verb_agrees_with_the_goods_before_it(goods: str, sentence: str) -> None:
    """Names of several things take a plural verb; people, and one thing, do not."""
    dresser = MarkedDresser({}, frozenset())
    text = dresser.template("{one} was back, and {one} isn't “{one}”", {"one": goods})
    assert text == sentence


def test_words_that_code_needs_are_not_free() -> None:
    """Keywords of Python and SQL, builtins and names of the tools' code replace no word."""
    words = ("guest", "class", "group", "sorted", "db", "two words", "Guest", "person")
    assert [is_free_word(word) for word in words] == [True, *[False] * 6, True]

"""Goods, teams and stores in instructions, as people say them."""

import pytest

from rehearsal_room.scenarios.generate.vocabulary.goods_names import speak_of_goods, spoken_goods
from rehearsal_room.scenarios.generate.vocabulary.team_names import speak_of_teams
from rehearsal_room.scenarios.generate.vocabulary.trades import trade, trade_names


def put(text: str, about: str, name: str, **values: str) -> str:
    """A template with goods of a trade as {product}, filled."""
    goods = {"product": spoken_goods(trade(about))[name]}
    values = {"product": name} | values
    return speak_of_goods(text, goods, values).format_map(values)


@pytest.mark.parametrize(
    ("about", "name", "text", "expected"),
    [
        ("bike_workshop", "Gel saddle", "Is {product} here?", "Is the gel saddle here?"),
        ("bike_workshop", "Gel saddle", "{product} is here.", "The gel saddle is here."),
        ("bike_workshop", "Gel saddle", "Ana's {product} broke.", "Ana's gel saddle broke."),
        ("bike_workshop", "Gel saddle", "We need more {product}.", "We need more gel saddles."),
        ("bike_workshop", "Gel saddle", "with two of the {product}", "with two gel saddles"),
        ("bike_workshop", "LED light set", "for {product}", "for the LED light set"),
        ("bike_workshop", "Gel saddle", "“{product}” on the screen", "“Gel saddle” on the screen"),
        ("wine_merchant", "Barolo", "{count} × {product}", "5 bottles of Barolo"),
        ("print_shop", "Menus", "{count} x {product}", "5 boxes of menus"),
        ("film_rental", "Jib arm", "hire {count} × {product}", "hire the jib arm for 5 days"),
        ("theatre", "The Bailiff", "for the {product}", "for “The Bailiff”"),
        ("theatre", "The Bailiff", "“I saw {product} twice.”", "“I saw ‘The Bailiff’ twice.”"),
        ("theatre", "The Bailiff", "{count} × {product}", "5 tickets for “The Bailiff”"),
        ("car_rental", "VW Tiguan", "on {product}", "on the VW Tiguan"),
    ],
)
def test_goods_are_named_as_people_name_them(
    about: str, name: str, text: str, expected: str
) -> None:
    """With article, number and unit; a title keeps its capitals and stands in quotation marks."""
    assert put(text, about, name, count="5") == expected


@pytest.mark.parametrize("name", trade_names())
def test_no_goods_have_two_articles_or_bare_commas(name: str) -> None:
    """Every form of a trade's goods fits into a sentence."""
    for spoken in spoken_goods(trade(name)).values():
        for form in (spoken.the(), spoken.bare(), spoken.many(), spoken.counted("7")):
            assert "," not in form
            assert not form.startswith(("the the ", "the a ", "the “"))
        assert spoken.counted("7").count("7") == 1 + spoken.bare().count("7")


def test_a_team_or_store_named_by_a_noun_has_an_article() -> None:
    """A name without a common noun at its end, or between quotation marks, has none."""
    values = {"team": "Night crew", "other": "Orthodontics", "store": "North depot"}
    text = "{team} or {other}? From the {store}, “{store}”, to {store}."
    assert speak_of_teams(text, values, values.values()).format_map(values) == (
        "The Night crew or Orthodontics? From the North depot, “North depot”, to the North depot."
    )


def test_a_team_of_people_is_several() -> None:
    """People take an article, and the verb after them is a plural."""
    values = {"team": "Hygienists", "other": "Repairs"}
    text = "{team} has offered, {other} has not. Who of the ones in {team} is here?"
    assert speak_of_teams(text, values, values.values()).format_map(values) == (
        "The Hygienists have offered, Repairs has not. Who of the ones in the Hygienists is here?"
    )

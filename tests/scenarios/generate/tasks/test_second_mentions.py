"""People in instructions: named in full once, then by first name, he or she."""

from random import Random

import pytest

from rehearsal_room.scenarios.generate.tasks.second_mentions import shorten_names
from rehearsal_room.scenarios.generate.vocabulary.people import People, Person, PersonName

LOCALES = ("da_DK", "de_AT", "de_DE", "en_AU", "en_GB", "en_IE", "en_US", "es_ES", "fi_FI", "it_IT")


def named(first: str, last: str, *, is_woman: bool = False) -> PersonName:
    """The name of such a person."""
    nowhere = {"email": "", "phone": "", "street": "", "city": "", "postcode": ""}
    return PersonName(Person(first, last, **nowhere, is_woman=is_woman))


def test_the_first_mention_is_whole_and_the_next_are_short() -> None:
    """What follows the name, such as "'s", stays."""
    ana = named("Ana", "Lopez")
    text = "Ana Lopez is ill. Give Ana Lopez's shift to Ana Lopez's friend."
    assert shorten_names(text, [ana, "x"]) == "Ana Lopez is ill. Give Ana's shift to Ana's friend."


def test_two_of_one_first_name_stay_whole() -> None:
    """Otherwise nobody would know who is meant."""
    people = [named("Ana", "Lopez"), named("Ana", "Lopes")]
    text = "Ana Lopez, not Ana Lopes: move Ana Lopez."
    assert shorten_names(text, people) == text


def test_plain_texts_are_left_alone() -> None:
    """A product may be named as often as the text wants."""
    assert shorten_names("Red Rose and Red Rose", ["Red Rose"]) == "Red Rose and Red Rose"


@pytest.mark.parametrize(("is_woman", "words"), [(True, "She, her, her"), (False, "He, him, his")])
def test_a_template_has_he_and_she(is_woman: bool, words: str) -> None:
    """In every case that a template needs."""
    kim = named("Kim", "Berg", is_woman=is_woman)
    assert f"{kim.He}, {kim.him}, {kim.his}" == words


@pytest.mark.parametrize("locale", LOCALES)
def test_women_and_men_are_known_in_every_country(locale: str) -> None:
    """A pool of first names has both; nearly all of them are one or the other."""
    people = People(locale, Random(5))
    drawn = [people.person() for _ in range(60)]
    women = [one for one in drawn if one.is_woman]
    assert 10 <= len(women) <= 50
    assert all(people.named(one.name) == one.name for one in drawn)
    assert people.named("Nobody Atall") is None


def test_the_members_of_a_family_are_known() -> None:
    """They are people under another name."""
    people = People("en_GB", Random(3))
    person = people.person()
    mary = people.renamed(person, "Mary", "Ashe", "mary@mail.example")
    assert people.named("Mary Ashe") == mary.name
    assert mary.is_woman

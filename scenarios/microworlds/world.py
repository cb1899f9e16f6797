"""One drill: two small tables, and the tools that look into them and change them.

The subjects have a name, a number and the object that they are linked to; the objects have a
number and a state:

    clients  id 37, name "vera", price 47, order 52        orders  id 52, weight 18, state "open"
"""

from random import Random

import msgspec

from scenarios.microworlds.words import FIELDS, NAMES, Split, noun, nouns

NUM_ROWS = 10  # of each table
_LOOKS = ("find", "get_subject", "get_object")
_ALWAYS = ("set_subject",)
_DRAWN = ("set_object", "rename", "close", "delete", "add", "link")
_NUM_DRAWN = 2


class Subject(msgspec.Struct, frozen=True):
    """A row of the first table."""

    id: int
    name: str
    number: int
    object: int  # the id of the object that it is linked to


class Object(msgspec.Struct, frozen=True):
    """A row of the second table; its state is open."""

    id: int
    number: int


class Drill(msgspec.Struct, frozen=True):
    """What a drill is made of, before its tasks."""

    name: str
    trade: str
    subject: tuple[str, str]  # singular, plural
    object: tuple[str, str]
    subject_field: str
    object_field: str
    subjects: tuple[Subject, ...]
    objects: tuple[Object, ...]
    tools: tuple[str, ...]  # kinds, in the order in which they are shown


def drawn(rng: Random, *, name: str, split: Split) -> Drill:
    """A drill of a trade of the split."""
    trade, words = rng.choice(nouns(split))
    subject = object_ = noun(rng, split, words)
    while not set(subject).isdisjoint(object_):
        object_ = noun(rng, split, words)
    subject_field, object_field = rng.sample(FIELDS, 2)
    ids = rng.sample(range(10, 100), 2 * NUM_ROWS)
    objects = tuple(Object(id=one, number=rng.randint(10, 99)) for one in sorted(ids[:NUM_ROWS]))
    linked = rng.sample(objects, NUM_ROWS)
    subjects = tuple(
        Subject(id=one, name=its_name, number=rng.randint(10, 99), object=its_object.id)
        for one, its_name, its_object in zip(
            sorted(ids[NUM_ROWS:]), rng.sample(NAMES, NUM_ROWS), linked, strict=True
        )
    )
    tools = [*_LOOKS, *_ALWAYS, *rng.sample(_DRAWN, _NUM_DRAWN)]
    rng.shuffle(tools)
    return Drill(
        name, trade, subject, object_, subject_field, object_field, subjects, objects, tuple(tools)
    )

"""One micro-world: two small tables, and the tools that read and change them.

A subject has a name, a number and a link to an object. An object has a number and a state:

    clients  id 37, name "vera", price 47, order 52        orders  id 52, weight 18, state "open"
"""

from random import Random

import msgspec

from rehearsal_room.scenarios.microworlds.words import (
    FIELDS,
    NAMES,
    MicroworldSplit,
    draw_noun,
    nouns,
)

NUM_ROWS = 10  # of each table
_READERS = ("find", "get_subject", "get_object")  # kinds of tools that every micro-world has
_REQUIRED = ("set_subject",)
_OPTIONAL = ("set_object", "rename", "close", "delete", "add", "link")
_NUM_OPTIONAL = 2  # how many of the optional kinds a micro-world has


class Subject(msgspec.Struct, frozen=True):
    """A row of the first table."""

    id: int
    name: str
    number: int
    object: int  # the id of the linked object


class Object(msgspec.Struct, frozen=True):
    """A row of the second table; its state is `open` at the start."""

    id: int
    number: int


class MicroWorld(msgspec.Struct, frozen=True):
    """A micro-world's words, rows and tools, without its tasks."""

    name: str
    trade: str
    subject: tuple[str, str]  # singular, plural
    object: tuple[str, str]
    subject_field: str
    object_field: str
    subjects: tuple[Subject, ...]
    objects: tuple[Object, ...]
    tools: tuple[str, ...]  # kinds of tools, in the order in which the agent sees them


def draw_world(rng: Random, *, name: str, split: MicroworldSplit) -> MicroWorld:
    """A micro-world of one of the split's trades."""
    trade, words = rng.choice(nouns(split))
    subject = object_ = draw_noun(rng, split, words)
    while not set(subject).isdisjoint(object_):
        object_ = draw_noun(rng, split, words)
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
    tools = [*_READERS, *_REQUIRED, *rng.sample(_OPTIONAL, _NUM_OPTIONAL)]
    rng.shuffle(tools)
    return MicroWorld(
        name, trade, subject, object_, subject_field, object_field, subjects, objects, tuple(tools)
    )

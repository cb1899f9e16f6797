"""Goals: the single changes that a micro-world's task may ask for, with the calls that make them.

A goal names a row by its id, or a subject by its name, which the agent must look up first. It may
also name an object as the one that is linked to a subject, which the agent must read first:

    Close the order of client vera.   find_client(vera) -> 37, get_client(37) -> order 52,
                                      close_order(52)
"""

from collections.abc import Callable
from random import Random

import msgspec

from rehearsal_room.scenarios.format import Call
from rehearsal_room.scenarios.microworlds.words import NAMES
from rehearsal_room.scenarios.microworlds.world import MicroWorld, Object, Subject


class Goal(msgspec.Struct, frozen=True):
    """One change that a task asks for. `checks` are lines of a verifier, without indentation."""

    text: str  # a sentence without its full stop, beginning with a capital
    table: str  # the table that it changes; empty: none
    calls: tuple[Call, ...]
    checks: tuple[str, ...]


class Rows:
    """The rows of a micro-world that no goal of the task has used yet, in a random order."""

    def __init__(self, world: MicroWorld, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self._subjects = rng.sample(world.subjects, len(world.subjects))
        used = {one.name for one in world.subjects}
        free = [name for name in NAMES if name not in used]
        self._names = rng.sample(free, len(free))
        self._numbers = rng.sample(range(10, 100), len(world.subjects))

    def subject(self) -> Subject:
        """An unused subject; its linked object counts as used from now on, too."""
        return self._subjects.pop()

    def object(self) -> Object:
        """An unused object; its linked subject counts as used from now on, too."""
        return self.object_of(self.subject())

    def object_of(self, subject: Subject) -> Object:
        """The object that a subject is linked to."""
        return next(one for one in self.world.objects if one.id == subject.object)

    def other_name(self) -> str:
        """A name that no subject has and no other goal of the task gives."""
        return self._names.pop()

    def new_number(self) -> int:
        """A number that no other new row of the task has."""
        return self._numbers.pop()

    def other_number(self, number: int) -> int:
        """A number that differs from `number`."""
        return self.rng.choice([one for one in range(10, 100) if one != number])


class RowReference(msgspec.Struct, frozen=True):
    """How a task's text names a row, and the calls that find the row's id."""

    text: str
    id: int
    calls: tuple[Call, ...] = ()


def refer_to_subject(rows: Rows, subject: Subject, *, by_name: bool) -> RowReference:
    """Refer to a subject by its id or by its name."""
    noun = rows.world.subject[0]
    if not by_name:
        return RowReference(f"{noun} {subject.id}", subject.id)
    return RowReference(f"{noun} {subject.name}", subject.id, (_find(noun, subject),))


def refer_to_object(rows: Rows, *, hops: int) -> tuple[RowReference, Object]:
    """Refer to an object by its id (0 hops), or through its subject's id (1) or name (2)."""
    noun, object_noun = rows.world.subject[0], rows.world.object[0]
    subject = rows.subject()
    object_ = rows.object_of(subject)
    if hops == 0:
        return RowReference(f"{object_noun} {object_.id}", object_.id), object_
    owner = refer_to_subject(rows, subject, by_name=hops == 2)
    calls = (*owner.calls, Call(f"get_{noun}", {noun: subject.id}))
    return RowReference(f"the {object_noun} of {owner.text}", object_.id, calls), object_


def _find(noun: str, subject: Subject) -> Call:
    return Call(f"find_{noun}", {noun: subject.name})


def set_subject(rows: Rows, hops: int) -> Goal:
    """Set a subject's number."""
    world, subject = rows.world, rows.subject()
    value = rows.other_number(subject.number)
    reference = refer_to_subject(rows, subject, by_name=hops > 0)
    return _set_subject(world, reference, value, f"{value}")


def copy_subject(rows: Rows, hops: int) -> Goal:
    """Copy a subject's number to another subject."""
    world, target, source = rows.world, rows.subject(), rows.subject()
    while source.number == target.number:
        source = rows.subject()
    to = refer_to_subject(rows, target, by_name=False)
    from_ = refer_to_subject(rows, source, by_name=hops > 1)
    goal = _set_subject(world, to, source.number, f"of {from_.text}")
    read_source = Call(f"get_{world.subject[0]}", {world.subject[0]: source.id})
    return msgspec.structs.replace(goal, calls=(*from_.calls, read_source, *goal.calls))


def set_subject_to(rows: Rows, subject: Subject, value: int) -> Goal:
    """Set this subject's number; the text names the subject by its id."""
    reference = refer_to_subject(rows, subject, by_name=False)
    return _set_subject(rows.world, reference, value, f"{value}")


def _set_subject(world: MicroWorld, reference: RowReference, value: int, value_text: str) -> Goal:
    (noun, plural), field = world.subject, world.subject_field
    return Goal(
        f"Give {reference.text} the {field} {value_text}",
        plural,
        (*reference.calls, Call(f"set_{noun}_{field}", {noun: reference.id, field: value})),
        (f'check.updated("{plural}", {reference.id}, {field}={value})',),
    )


def set_object(rows: Rows, hops: int) -> Goal:
    """Set an object's number."""
    reference, object_ = refer_to_object(rows, hops=hops)
    (noun, plural), field = rows.world.object, rows.world.object_field
    value = rows.other_number(object_.number)
    return Goal(
        f"Give {reference.text} the {field} {value}",
        plural,
        (*reference.calls, Call(f"set_{noun}_{field}", {noun: reference.id, field: value})),
        (f'check.updated("{plural}", {reference.id}, {field}={value})',),
    )


def copy_object(rows: Rows, hops: int) -> Goal:
    """Copy an object's number to another object."""
    (noun, plural), field = rows.world.object, rows.world.object_field
    target, source = rows.object(), rows.object()
    while source.number == target.number:
        source = rows.object()
    calls = (
        Call(f"get_{noun}", {noun: source.id}),
        Call(f"set_{noun}_{field}", {noun: target.id, field: source.number}),
    )
    return Goal(
        f"Give {noun} {target.id} the {field} of {noun} {source.id}",
        plural,
        calls,
        (f'check.updated("{plural}", {target.id}, {field}={source.number})',),
    )


def rename(rows: Rows, hops: int) -> Goal:
    """Rename a subject."""
    (noun, plural), subject = rows.world.subject, rows.subject()
    name = rows.other_name()
    reference = refer_to_subject(rows, subject, by_name=hops > 0)
    return Goal(
        f"Give {reference.text} the name {name}",
        plural,
        (*reference.calls, Call(f"rename_{noun}", {noun: subject.id, "name": name})),
        (f'check.updated("{plural}", {subject.id}, name="{name}")',),
    )


def close(rows: Rows, hops: int) -> Goal:
    """Close an object."""
    reference, object_ = refer_to_object(rows, hops=hops)
    noun, plural = rows.world.object
    return Goal(
        f"Close {reference.text}",
        plural,
        (*reference.calls, Call(f"close_{noun}", {noun: object_.id})),
        (f'check.updated("{plural}", {object_.id}, state="closed")',),
    )


def delete(rows: Rows, hops: int) -> Goal:
    """Delete an object."""
    reference, object_ = refer_to_object(rows, hops=hops)
    noun, plural = rows.world.object
    return Goal(
        f"Delete {reference.text}",
        plural,
        (*reference.calls, Call(f"delete_{noun}", {noun: object_.id})),
        (f'check.deleted("{plural}", {object_.id})',),
    )


def add(rows: Rows, hops: int) -> Goal:
    """Add an object."""
    (noun, plural), field = rows.world.object, rows.world.object_field
    value = rows.new_number()
    return Goal(
        f"Add {_a(noun)} with the {field} {value}",
        plural,
        (Call(f"add_{noun}", {field: value}),),
        (f'check.created("{plural}", {field}={value}, state="open")',),
    )


def link(rows: Rows, hops: int) -> Goal:
    """Link a subject to another object."""
    (noun, plural), (object_noun, _) = rows.world.subject, rows.world.object
    subject, object_ = rows.subject(), rows.object()
    reference = refer_to_subject(rows, subject, by_name=hops > 0)
    return Goal(
        f"Link {reference.text} to {object_noun} {object_.id}",
        plural,
        (*reference.calls, Call(f"link_{noun}", {noun: subject.id, object_noun: object_.id})),
        (f'check.updated("{plural}", {subject.id}, {object_noun}={object_.id})',),
    )


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


# By the kind of tool that makes the change.
KINDS: dict[str, tuple[Callable[[Rows, int], Goal], ...]] = {
    "set_subject": (set_subject, copy_subject),
    "set_object": (set_object, copy_object),
    "rename": (rename,),
    "close": (close,),
    "delete": (delete,),
    "add": (add,),
    "link": (link,),
}


def draw_goal(rows: Rows, kind: str, hops: int) -> Goal:
    """A goal for this kind of tool that takes at most `hops` look-ups (0 to 2)."""
    makers = KINDS[kind]
    if hops == 0:
        makers = makers[:1]
    return rows.rng.choice(makers)(rows, hops)

"""Goals: one thing each that a drill's task may ask for, with the calls that reach it.

A goal names rows by their id, or by a subject's name, which must be found first; an object may be
named as that of a subject, which must be looked at first:

    Close the order of client vera.   find_client(vera) -> 37, get_client(37) -> order 52,
                                      close_order(52)
"""

from collections.abc import Callable
from random import Random

import msgspec

from scenarios.format import Call
from scenarios.microworlds.words import NAMES
from scenarios.microworlds.world import Drill, Object, Subject


class Goal(msgspec.Struct, frozen=True):
    """One thing to do. `checks` are the lines of a verifier, without their indentation."""

    text: str  # a sentence without its full stop, beginning with a capital
    table: str  # that it changes; empty: none
    calls: tuple[Call, ...]
    checks: tuple[str, ...]


class Rows:
    """Rows of a drill that no goal of the task has used yet, in a drawn order."""

    def __init__(self, drill: Drill, rng: Random) -> None:
        self.drill = drill
        self.rng = rng
        self._subjects = rng.sample(drill.subjects, len(drill.subjects))
        taken = {one.name for one in drill.subjects}
        free = [name for name in NAMES if name not in taken]
        self._names = rng.sample(free, len(free))
        self._numbers = rng.sample(range(10, 100), len(drill.subjects))

    def subject(self) -> Subject:
        """Another subject; the object that it is linked to is used up with it."""
        return self._subjects.pop()

    def object(self) -> Object:
        """Another object; the subject that is linked to it is used up with it."""
        return self.object_of(self.subject())

    def object_of(self, subject: Subject) -> Object:
        """The object that a subject is linked to."""
        return next(one for one in self.drill.objects if one.id == subject.object)

    def other_name(self) -> str:
        """A name that no subject has and no other goal of the task gives."""
        return self._names.pop()

    def new_number(self) -> int:
        """A number that no other new row of the task has."""
        return self._numbers.pop()

    def other_number(self, number: int) -> int:
        """A number that is another one."""
        return self.rng.choice([one for one in range(10, 100) if one != number])


class Place(msgspec.Struct, frozen=True):
    """How a row is told, and the calls that find its id."""

    text: str
    id: int
    calls: tuple[Call, ...] = ()


def subject_place(rows: Rows, subject: Subject, *, by_name: bool) -> Place:
    """A subject, by its id or by its name."""
    noun = rows.drill.subject[0]
    if not by_name:
        return Place(f"{noun} {subject.id}", subject.id)
    return Place(f"{noun} {subject.name}", subject.id, (_find(noun, subject),))


def object_place(rows: Rows, *, hops: int) -> tuple[Place, Object]:
    """An object: by its id, as that of a subject with an id (1 hop) or with a name (2 hops)."""
    noun, object_noun = rows.drill.subject[0], rows.drill.object[0]
    subject = rows.subject()
    object_ = rows.object_of(subject)
    if hops == 0:
        return Place(f"{object_noun} {object_.id}", object_.id), object_
    owner = subject_place(rows, subject, by_name=hops == 2)
    calls = (*owner.calls, Call(f"get_{noun}", {noun: subject.id}))
    return Place(f"the {object_noun} of {owner.text}", object_.id, calls), object_


def _find(noun: str, subject: Subject) -> Call:
    return Call(f"find_{noun}", {noun: subject.name})


def set_subject(rows: Rows, hops: int) -> Goal:
    """A subject's number."""
    drill, subject = rows.drill, rows.subject()
    value = rows.other_number(subject.number)
    place = subject_place(rows, subject, by_name=hops > 0)
    return _set_subject(drill, place, value, f"{value}")


def copy_subject(rows: Rows, hops: int) -> Goal:
    """A subject's number, as another subject has it."""
    drill, target, source = rows.drill, rows.subject(), rows.subject()
    while source.number == target.number:
        source = rows.subject()
    place = subject_place(rows, target, by_name=False)
    seen = subject_place(rows, source, by_name=hops > 1)
    goal = _set_subject(drill, place, source.number, f"of {seen.text}")
    look = Call(f"get_{drill.subject[0]}", {drill.subject[0]: source.id})
    return msgspec.structs.replace(goal, calls=(*seen.calls, look, *goal.calls))


def set_subject_to(rows: Rows, subject: Subject, value: int) -> Goal:
    """A given subject's number, by its id."""
    place = subject_place(rows, subject, by_name=False)
    return _set_subject(rows.drill, place, value, f"{value}")


def _set_subject(drill: Drill, place: Place, value: int, told: str) -> Goal:
    (noun, plural), field = drill.subject, drill.subject_field
    return Goal(
        f"Give {place.text} the {field} {told}",
        plural,
        (*place.calls, Call(f"set_{noun}_{field}", {noun: place.id, field: value})),
        (f'check.updated("{plural}", {place.id}, {field}={value})',),
    )


def set_object(rows: Rows, hops: int) -> Goal:
    """An object's number."""
    place, object_ = object_place(rows, hops=hops)
    (noun, plural), field = rows.drill.object, rows.drill.object_field
    value = rows.other_number(object_.number)
    return Goal(
        f"Give {place.text} the {field} {value}",
        plural,
        (*place.calls, Call(f"set_{noun}_{field}", {noun: place.id, field: value})),
        (f'check.updated("{plural}", {place.id}, {field}={value})',),
    )


def copy_object(rows: Rows, hops: int) -> Goal:
    """An object's number, as another object has it."""
    (noun, plural), field = rows.drill.object, rows.drill.object_field
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
    """A subject's name."""
    (noun, plural), subject = rows.drill.subject, rows.subject()
    name = rows.other_name()
    place = subject_place(rows, subject, by_name=hops > 0)
    return Goal(
        f"Give {place.text} the name {name}",
        plural,
        (*place.calls, Call(f"rename_{noun}", {noun: subject.id, "name": name})),
        (f'check.updated("{plural}", {subject.id}, name="{name}")',),
    )


def close(rows: Rows, hops: int) -> Goal:
    """An object's state."""
    place, object_ = object_place(rows, hops=hops)
    noun, plural = rows.drill.object
    return Goal(
        f"Close {place.text}",
        plural,
        (*place.calls, Call(f"close_{noun}", {noun: object_.id})),
        (f'check.updated("{plural}", {object_.id}, state="closed")',),
    )


def delete(rows: Rows, hops: int) -> Goal:
    """An object goes."""
    place, object_ = object_place(rows, hops=hops)
    noun, plural = rows.drill.object
    return Goal(
        f"Delete {place.text}",
        plural,
        (*place.calls, Call(f"delete_{noun}", {noun: object_.id})),
        (f'check.deleted("{plural}", {object_.id})',),
    )


def add(rows: Rows, hops: int) -> Goal:
    """A new object."""
    (noun, plural), field = rows.drill.object, rows.drill.object_field
    value = rows.new_number()
    return Goal(
        f"Add {_a(noun)} with the {field} {value}",
        plural,
        (Call(f"add_{noun}", {field: value}),),
        (f'check.created("{plural}", {field}={value}, state="open")',),
    )


def link(rows: Rows, hops: int) -> Goal:
    """A subject gets another object."""
    (noun, plural), (object_noun, _) = rows.drill.subject, rows.drill.object
    subject, object_ = rows.subject(), rows.object()
    place = subject_place(rows, subject, by_name=hops > 0)
    return Goal(
        f"Link {place.text} to {object_noun} {object_.id}",
        plural,
        (*place.calls, Call(f"link_{noun}", {noun: subject.id, object_noun: object_.id})),
        (f'check.updated("{plural}", {subject.id}, {object_noun}={object_.id})',),
    )


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


# By the kind of tool that does it.
KINDS: dict[str, tuple[Callable[[Rows, int], Goal], ...]] = {
    "set_subject": (set_subject, copy_subject),
    "set_object": (set_object, copy_object),
    "rename": (rename,),
    "close": (close,),
    "delete": (delete,),
    "add": (add,),
    "link": (link,),
}


def goal(rows: Rows, kind: str, hops: int) -> Goal:
    """A goal that this kind of tool reaches, after `hops` look-ups at most (0 to 2)."""
    makers = KINDS[kind]
    if hops == 0:
        makers = makers[:1]
    return rows.rng.choice(makers)(rows, hops)

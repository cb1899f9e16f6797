"""Readable sentences for msgspec's validation errors, with the field in front.

msgspec puts the field last and does not name what is allowed:

    Invalid enum value 'easy' - at `$.task[0].difficulty`

With the type that was decoded, a sentence names the allowed words and the nearest field:

    task[0].difficulty: 'easy' is not one of 'simple', 'medium', 'hard', 'unrated'
    unknown field `colour`; did you mean 'color'?
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import inspect

from rehearsal_room.scenarios.nearest import did_you_mean

_ENUM = re.compile(r"Invalid enum value (.+)")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(?:\d+|\.\.\.)\]")
_MAX_LISTED = 12  # fields; a longer list would bury the message


def field_of(message: str, kind: Any = None) -> tuple[str, str]:
    """The field and the fault of a msgspec.ValidationError; the field is empty at the top.

    `kind` is the type that was decoded; None: the fault names no allowed words and no fields.

    Example: "Expected `str` - at `$.user.id`" -> ("user.id", "expected `str`")
    """
    fault, _, path = message.partition(" - at `$")
    path = path.rstrip("`")
    detail = "" if kind is None else _detailed(fault, path, kind)
    return path.lstrip("."), detail or fault[:1].lower() + fault[1:]


def field_sentence(message: str, kind: Any = None) -> str:
    """Field and fault as one sentence (see `field_of`).

    Example: "Expected `str`, got `int` - at `$.user.id`" -> "user.id: expected `str`, got `int`"
    """
    field, fault = field_of(message, kind)
    return f"{field}: {fault}" if field else fault


def _detailed(fault: str, path: str, kind: Any) -> str:
    """The fault with what is allowed there; empty where the message has nothing to add."""
    if found := _ENUM.fullmatch(fault):
        words = [repr(word) for type_ in _types_at(path, kind) for word in _words_of(type_)]
        return f"{found[1]} is not one of {', '.join(words)}" if words else ""
    if found := _UNKNOWN.fullmatch(fault):
        names = [name for type_ in _types_at(path, kind) for name in _fields_of(type_)]
        hint = did_you_mean(found[1], names)
        if not hint and 0 < len(names) <= _MAX_LISTED:
            hint = f"; the fields are {', '.join(names)}"
        return f"object contains unknown field `{found[1]}`{hint}"
    return ""


def _types_at(path: str, kind: Any) -> list[inspect.Type]:
    """The types that a path may lead to: more than one inside a union.

    Example: ".task[0].kind" of a struct with tasks -> [LiteralType]
    """
    types = list(members(inspect.type_info(kind)))
    for step in _STEP.finditer(path):
        found = (_inner(type_, step[1]) for type_ in types)
        types = [member for inner in found for one in inner for member in members(one)]
    return types


def members(type_: inspect.Type) -> Iterator[inspect.Type]:
    """A type itself, or the members of a union; bounds and other metadata are dropped."""
    if isinstance(type_, inspect.Metadata):
        yield from members(type_.type)
    elif isinstance(type_, inspect.UnionType):
        for member in type_.types:
            yield from members(member)
    else:
        yield type_


def _inner(type_: inspect.Type, name: str | None) -> Iterable[inspect.Type]:
    """The type of a field (`name` None: of an item)."""
    match type_:
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            return [field.type for field in type_.fields if field.encode_name == name]
        case inspect.DictType() if name is None:
            return [type_.value_type]
        case inspect.ListType() | inspect.SetType() | inspect.VarTupleType() if name is None:
            return [type_.item_type]
        case inspect.TupleType() if name is None:
            return type_.item_types
    return []


def _words_of(type_: inspect.Type) -> list[Any]:
    match type_:
        case inspect.LiteralType():
            return list(type_.values)
        case inspect.EnumType():
            return [member.value for member in type_.cls]
    return []


def _fields_of(type_: inspect.Type) -> list[str]:
    if isinstance(type_, inspect.StructType | inspect.DataclassType):
        return [field.encode_name for field in type_.fields]
    return []

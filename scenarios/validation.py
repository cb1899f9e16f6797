"""What is wrong with data that was read, in one sentence: field, fault, what was found.

msgspec reports what it expected and where. The rest is looked up here, in the type and in the data:
the words that a field allows, its bounds, the value that was found, and the name that a misspelt
one is nearest to.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from sys import float_info
from typing import Any

import msgspec
from msgspec import inspect

from rehearsal_room.scenarios.core.short_text import shortened
from rehearsal_room.scenarios.decode_errors import field_of, members
from rehearsal_room.scenarios.nearest import nearest

# Numbers that may be anything but infinite have this bound, which no sentence mentions.
MAX_FLOAT = float_info.max
_MAX_NAMES = 16  # more names than this are not listed
_MAX_FOUND = 60  # characters of a value that are quoted
_UNKNOWN = re.compile(r"object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"object missing required field `(.*)`", re.DOTALL)
_PART = re.compile(r"\[(\d+|\.\.\.)\]|\.?([^.\[]+)")
_BOUND = re.compile(r"^expected `(int|float)` [<>]=? ")
_TYPE = re.compile(r"expected `[^`]*`(, got `[^`]*`)?")
_KINDS: tuple[tuple[type, str], ...] = (
    (inspect.BoolType, "true or false"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.StrType, "a text"),
    (inspect.DictType, "a table"),
    (inspect.StructType, "a table"),
    (inspect.CollectionType, "a list"),
    (inspect.TupleType, "a list"),
)


def explain(exc: msgspec.ValidationError, value: Any, kind: Any) -> str:
    """The sentence about data that is not of a type.

    Example: "Expected `int` >= 1 - at `$.limits.max_steps`"
        -> "limits.max_steps: must be at least 1, found 0"
    """
    path, fault = field_of(str(exc))
    if fault.startswith("expected `str`") and "`key` in" in str(exc):
        return fault  # a key that is not text: files have none
    at = _descend(value, inspect.type_info(kind), path)
    if match := _UNKNOWN.fullmatch(fault):
        return join_field(_below(at.field, match[1]), unknown_key(match[1], _names(at.types)))
    if match := _MISSING.fullmatch(fault):
        return join_field(_below(at.field, match[1]), "required, but missing")
    return join_field(at.field, _fault(fault, at))


def unknown_key(name: str, known: Iterable[str]) -> str:
    """The fault of a key that is not among those known.

    Example: "modle", ["model", "steps"] -> "unknown key; did you mean 'model'?"
    """
    names = list(known)
    if alike := nearest(name, names):
        return f"unknown key; did you mean {alike[0]!r}?"
    if 0 < len(names) <= _MAX_NAMES:
        return f"unknown key; the keys here are {', '.join(names)}"
    return "unknown key"


def join_field(field: str, fault: str) -> str:
    """A fault with its field in front; an empty field is the file as a whole."""
    return f"{field}: {fault}" if field else fault


def describe_bounds(kind: Any) -> str:
    """The bounds of a number in words; empty: it has none.

    Example: Annotated[int, Meta(ge=1, le=256)] -> "at least 1 and at most 256"
    """
    bounds = (
        ("more than", getattr(kind, "gt", None)),
        ("at least", getattr(kind, "ge", None)),
        ("less than", getattr(kind, "lt", None)),
        ("at most", getattr(kind, "le", None)),
    )
    named = [f"{word} {_number(at)}" for word, at in bounds if at is not None and at != MAX_FLOAT]
    return " and ".join(named)


def bare_types(kind: Any) -> list[Any]:
    """The alternatives of a type, None and what is annotated about them left out."""
    return [one for one in members(kind) if not isinstance(one, inspect.NoneType)]


class _Position(msgspec.Struct, frozen=True):
    """A place in the data: what is found there, and what should be."""

    field: str  # as a user writes it
    value: Any
    types: Sequence[Any]  # bare alternatives; empty: not known
    is_secret: bool = False  # whether the value may not be quoted


def _descend(value: Any, kind: Any, path: str) -> _Position:
    """Follow msgspec's path, as in `a.m[...].x[0]`, through data and type."""
    field, types, is_secret = "", bare_types(kind), False
    for index, name in _PART.findall(path):
        part = _failing_key(value, types) if index == "..." else name or int(index)
        below = [one for kind in types if (one := _type_below(kind, part)) is not None]
        is_secret = is_secret or any(_is_secret(one) for one in below)
        types = [bare for one in below for bare in bare_types(one)]
        value = _value_below(value, part)
        if isinstance(part, int):
            field += f"[{part}]"
        elif part is not None:
            field = _below(field, part)
    return _Position(field, value, types, is_secret)


def _type_below(kind: Any, part: str | int | None) -> Any:
    if isinstance(kind, inspect.StructType):
        return next((one.type for one in kind.fields if one.encode_name == part), None)
    if isinstance(kind, inspect.DictType):
        return kind.value_type
    if isinstance(kind, inspect.TupleType):
        return kind.item_types[part] if isinstance(part, int) else None
    return getattr(kind, "item_type", None)


def _value_below(value: Any, part: str | int | None) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def _failing_key(value: Any, types: Sequence[Any]) -> str | None:
    """The key of the table that is wrong, which msgspec does not report; None: not known."""
    for kind in types:
        table = getattr(kind, "value_type", None)
        if not isinstance(table, inspect.StructType) or not isinstance(value, Mapping):
            continue
        for key, one in value.items():
            try:
                msgspec.convert(one, table.cls)
            except msgspec.ValidationError:
                return str(key)
    return None


def _is_secret(kind: Any) -> bool:
    return isinstance(kind, inspect.Metadata) and bool((kind.extra or {}).get("secret"))


def _fault(fault: str, at: _Position) -> str:
    if fault.startswith("invalid enum value"):
        return f"{_found(at)} is not one of {', '.join(_words(at.types))}"
    if not fault.startswith("expected"):
        return fault  # a sentence of our own, from a __post_init__
    if _BOUND.search(fault):
        bounds = next(filter(None, map(describe_bounds, at.types)), "")
        return f"must be {bounds}, found {_found(at)}"
    if fault.endswith("of length >= 1"):
        return "must not be empty"
    kinds = list(dict.fromkeys(_kind_name(kind) for kind in at.types))
    if _TYPE.fullmatch(fault) and kinds and all(kinds):
        return f"expected {' or '.join(kinds)}, found {_found(at)}"
    return f"{fault.partition(', got')[0]}, found {_found(at)}"


def _names(types: Sequence[Any]) -> list[str]:
    structs = [kind for kind in types if isinstance(kind, inspect.StructType)]
    return [field.encode_name for kind in structs for field in kind.fields]


def _words(types: Sequence[Any]) -> list[str]:
    words: list[str] = []
    for kind in types:
        if isinstance(kind, inspect.LiteralType):
            words += map(repr, kind.values)
        elif isinstance(kind, inspect.EnumType):
            words += (repr(one.value) for one in kind.cls)
    return words


def _kind_name(kind: Any) -> str:
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        return f"one of {', '.join(_words([kind]))}"
    return next((name for one, name in _KINDS if isinstance(kind, one)), "")


def _found(at: _Position) -> str:
    if at.is_secret:
        return "a value that is not shown"
    if isinstance(at.value, Mapping):
        return "a table"
    if isinstance(at.value, list | tuple):
        return "a list"
    if at.value is None or isinstance(at.value, bool):
        return _json(at.value)
    return shortened(repr(at.value), _MAX_FOUND)


def _json(value: str | bool | None) -> str:
    return msgspec.json.encode(value).decode()


def _number(value: float) -> str:
    return f"{value:.10g}"


def _below(field: str, key: str) -> str:
    """The name of a key in a table, quoted as TOML requires.

    Example: "models", "gpt-4.1" -> 'models."gpt-4.1"'
    """
    quoted = key if re.fullmatch(r"[\w-]+", key) else _json(key)
    return f"{field}.{quoted}" if field else quoted

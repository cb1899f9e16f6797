"""The fields of a settings struct as a flat list, from which flags, TOML keys and schema are made.

A field is stated once, as `Annotated[T, msgspec.Meta(...)]`: the bounds and the description there
are those of the flag, of the TOML reader and of the JSON Schema. `extra` may hold

    short       its flag of one letter: "-n"
    flag        its long flag without the dashes, where that is not the key; "": it has no flag
    metavar     the word for its value in a usage line
    default     words for a default that is not a value: "no limit"
    hint        what to do about a word that is not allowed
    may_change  True: a run that is resumed may have another value
    secret      True: messages do not quote the value

A field whose type is a struct is a table of the TOML file. Each field in it also has a key at the
top of the file (`max_steps` for `[limits] max_steps`), and its flag is made of that key. `extra` of
such a table may hold

    prefix      what its fields' keys begin with: "judge_"
    keys        the keys that differ from prefix and name: {"mode": "judge"}
    flags       the only fields that have flags
    may_change  True for all of its fields
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from rehearsal_room.scenarios.validation import bare_types


class Field(msgspec.Struct, frozen=True):
    """One value that can be set."""

    path: tuple[str, ...]  # where it is in the struct: ("limits", "max_steps")
    key: str  # at the top of a TOML file: "max_steps"
    flag: str  # without dashes: "max-steps"; empty: none
    types: tuple[Any, ...]  # what it may be, as of msgspec.inspect, None left out
    default: Any
    description: str
    extra: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.path[-1]

    @property
    def table(self) -> str:
        """The name of its table; empty: it is at the top."""
        return self.path[0] if len(self.path) > 1 else ""

    @property
    def is_list(self) -> bool:
        """Whether it has any number of values."""
        return isinstance(self.types[0], inspect.VarTupleType | inspect.ListType)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may be; empty: it may be anything."""
        kind = self.types[0]
        return tuple(map(str, kind.values)) if isinstance(kind, inspect.LiteralType) else ()

    @property
    def may_change(self) -> bool:
        """Whether a run that is resumed may have another value."""
        return bool(self.extra.get("may_change"))


@cache
def fields_of(kind: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of a struct and of the structs in it, in order."""
    return tuple(_fields(kind, None, (), {}))


@cache
def tables_of(kind: type[msgspec.Struct]) -> Mapping[str, type[msgspec.Struct]]:
    """The tables of a struct: field -> struct."""
    return {
        field.encode_name: types[0].cls
        for field in _inspected(kind).fields
        if isinstance((types := bare_types(field.type))[0], inspect.StructType)
    }


def field_at(kind: type[msgspec.Struct], key: str) -> Field | None:
    """The field with this key at the top of a TOML file; None: there is none."""
    return next((field for field in fields_of(kind) if field.key == key), None)


def value_of(settings: msgspec.Struct, field: Field) -> Any:
    """The value that the settings have for a field."""
    found: Any = settings
    for name in field.path:
        found = getattr(found, name)
    return found


def _inspected(kind: type[msgspec.Struct]) -> inspect.StructType:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return found


def _fields(
    kind: type[msgspec.Struct],
    defaults: msgspec.Struct | None,
    path: tuple[str, ...],
    table: Mapping[str, Any],
) -> Iterator[Field]:
    """`defaults` None: those that the fields state; else an instance that has them. `table` is
    what is in `extra` of the table that the struct is."""
    for field in _inspected(kind).fields:
        name, types = field.encode_name, bare_types(field.type)
        default = _default(field) if defaults is None else getattr(defaults, name)
        description, extra = _stated(field.type)
        here = (*path, name)
        if isinstance(types[0], inspect.StructType):
            yield from _fields(types[0].cls, default, here, extra)
            continue
        prefix = table.get("prefix", "")
        key = table.get("keys", {}).get(name, f"{prefix}{name}")
        if prefix:  # the letter is another field's
            extra = {one: value for one, value in extra.items() if one != "short"}
        flag = f"{prefix}{extra['flag']}" if extra.get("flag") else extra.get("flag", key)
        if name not in table.get("flags", (name,)):
            flag = ""
        if table.get("may_change"):
            extra = {**extra, "may_change": True}
        yield Field(here, key, flag.replace("_", "-"), tuple(types), default, description, extra)


def _default(field: inspect.Field) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return None if field.default is msgspec.NODEFAULT else field.default


def _stated(kind: Any) -> tuple[str, Mapping[str, Any]]:
    """What is annotated about a field: its description and what is in `extra`."""
    if not isinstance(kind, inspect.Metadata):
        return "", {}
    description = (kind.extra_json_schema or {}).get("description", "")
    return description, kind.extra or {}

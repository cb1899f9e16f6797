"""TOML tables as settings. A key may be at the top of the file or in its table:

    max_steps = 5             [limits]
                              max_steps = 5

Where a table and a key at the top have the same name (`model`), the value's type decides.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.settings.fields import field_at, fields_of, tables_of
from rehearsal_room.scenarios.validation import explain, unknown_key

S = TypeVar("S", bound=msgspec.Struct)
SettingsTable = dict[str, Any]


def nest(
    table: Mapping[str, Any], kind: type[msgspec.Struct], *, source: str = ""
) -> SettingsTable:
    """The table with every key at the top moved into its own table. `source` is in front of the
    messages. Raises SettingsError for an unknown key, or one that occurs twice.

    Example: {"max_steps": 5, "model": "m"} -> {"limits": {"max_steps": 5}, "model": {"name": "m"}}
    """
    tables = tables_of(kind)
    nested: SettingsTable = {
        key: dict(value)
        for key, value in table.items()
        if key in tables and isinstance(value, Mapping)
    }
    for key, value in table.items():
        if key in nested and isinstance(value, Mapping):
            continue
        field = field_at(kind, key)
        if field is None and key not in kind.__struct_fields__:
            raise SettingsError(f"{source}{key}: {unknown_key(key, _keys(kind))}")
        if field is None or not field.table:
            nested[key] = value
            continue
        inner = nested.setdefault(field.table, {})
        if field.name in inner:
            raise SettingsError(f"{source}{key}: it is also in the table [{field.table}]")
        inner[field.name] = value
    return nested


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> SettingsTable:
    """Two nested tables as one. A value of `above` wins; tables are merged key by key."""
    merged = dict(below)
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(value, Mapping) and isinstance(under, Mapping):
            merged[name] = merge(under, value)
        else:
            merged[name] = value
    return merged


def convert(
    table: Mapping[str, Any],
    kind: type[S],
    *,
    written: Mapping[str, Any],
    flags: Collection[str] = (),
    source: str = "",
) -> S:
    """A nested table as settings. Messages name a field as it was `written`, in the table before it
    was nested, and by its flag where its key is among the `flags`. Raises SettingsError.
    """
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as exc:
        sentence = _as_written(explain(exc, table, kind), kind, written, flags)
        raise SettingsError(f"{source}{sentence}") from exc


def without_none(value: Any) -> Any:
    """Built-in values without those that TOML cannot express."""
    if isinstance(value, Mapping):
        return {name: without_none(one) for name, one in value.items() if one is not None}
    return value


def _keys(kind: type[msgspec.Struct]) -> list[str]:
    return list(dict.fromkeys([*kind.__struct_fields__, *(one.key for one in fields_of(kind))]))


def _as_written(
    sentence: str, kind: type[msgspec.Struct], written: Mapping[str, Any], flags: Collection[str]
) -> str:
    """A sentence about a nested field with its flag or its key at the top, where it was written
    there."""
    for field in fields_of(kind):
        path = ".".join(field.path)
        rest = sentence[len(path) :]
        if sentence.startswith(path) and rest[:1] in (":", "["):
            at_top = field.key in written and not isinstance(written[field.key], Mapping)
            if field.key in flags and field.flag:
                return f"--{field.flag}{rest}"
            return f"{field.key}{rest}" if at_top else sentence
    return sentence

"""JSON Schemas of TOML files, for editors: keys, descriptions, bounds and allowed words."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import msgspec

from rehearsal_room.harness.settings.fields import fields_of, tables_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.validation import MAX_FLOAT

Schema = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: type[msgspec.Struct], *, title: str, flat: bool = False) -> Schema:
    """The schema of a TOML file that is read as a struct. `flat`: each key of a table may be at the
    top of the file, too (harness.settings.tables)."""
    whole: Schema = _for_toml(msgspec.json.schema(kind))
    definitions = whole["$defs"]
    root = definitions.pop(kind.__name__)
    if flat:
        _add_keys_at_top(root["properties"], definitions, kind)
    return {"$schema": _DIALECT, **root, "title": title, "$defs": definitions}


def run_schema() -> Schema:
    """The schema of the settings of a run, and of run.toml, which has one more table."""
    schema = schema_of(Settings, title="Settings of a run (rehearse run --config)", flat=True)
    schema["properties"]["environment"] = {
        "description": "Versions and digests that a saved run.toml names; not read as settings.",
        "type": "object",
    }
    return schema


def embed(schema: Schema, inner: Schema, name: str) -> Schema:
    """Make the schema of a file a definition of another schema, and give a reference to it."""
    definitions = inner["$defs"]
    whole = {key: value for key, value in inner.items() if key not in ("$schema", "$defs")}
    for one, definition in {"": whole, **definitions}.items():
        schema["$defs"][_inner_name(name, one)] = _rename(definition, name)
    return {"$ref": f"#/$defs/{name}"}


def _rename(value: Any, name: str) -> Any:
    """A schema whose references are to definitions that `embed` has renamed."""
    if isinstance(value, list):
        return [_rename(one, name) for one in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: f"#/$defs/{_inner_name(name, one.rpartition('/')[2])}"
        if key == "$ref"
        else _rename(one, name)
        for key, one in value.items()
    }


def _inner_name(name: str, definition: str) -> str:
    return f"{name}.{definition}" if definition else name


def _add_keys_at_top(
    properties: Schema, definitions: Mapping[str, Any], kind: type[msgspec.Struct]
) -> None:
    """Let each field of a table be at the top, too; a key that is also a table may be both."""
    tables = tables_of(kind)
    for field in fields_of(kind):
        if not field.table or field.table not in tables:
            continue
        value = deepcopy(definitions[tables[field.table].__name__]["properties"][field.name])
        if field.key not in properties:
            properties[field.key] = value
            continue
        table = properties[field.key]
        both = {"description": value.pop("description"), "anyOf": [value, {"$ref": table["$ref"]}]}
        properties[field.key] = both


def _for_toml(value: Any) -> Any:
    """The schema without what TOML cannot express: null, and defaults that are null or whole
    tables."""
    if isinstance(value, list):
        return [_for_toml(one) for one in value if one != {"type": "null"}]
    if not isinstance(value, Mapping):
        return value
    schema = {
        key: one if key in ("default", "enum") else _for_toml(one)
        for key, one in value.items()
        if not _is_left_out(key, one)
    }
    either = schema.get("anyOf")
    if isinstance(either, list) and len(either) == 1:
        del schema["anyOf"]
        schema |= either[0]
    return schema


def _is_left_out(key: str, value: Any) -> bool:
    return (key == "default" and (value is None or isinstance(value, Mapping))) or (
        key == "maximum" and value == MAX_FLOAT
    )

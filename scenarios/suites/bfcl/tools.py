"""The BFCL's descriptions of functions as tools, as its own runner sends them to a chat API.

The runner adds a hint of the language to each description, makes texts of the arguments in Java and
JavaScript, and gives types the names of JSON schema (`bfcl_eval.utils` and
`bfcl_eval.model_handler.utils`). What it leaves in a description is sent, too.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

_LANGUAGES = {"java": "Java", "javascript": "JavaScript"}
_HINTS = {
    "": "",  # of functions that come with a later turn
    "python": " Note that the provided function is in Python 3 syntax.",
    "java": " Note that the provided function is in Java 8 SDK syntax.",
    "javascript": " Note that the provided function is in JavaScript syntax.",
}
_TYPES = {
    **dict.fromkeys(("integer", "byte", "short", "long", "Bigint"), "integer"),
    **dict.fromkeys(("number", "float", "double"), "number"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("array", "list", "tuple", "ArrayList", "Array", "Queue", "Stack"), "array"),
    **dict.fromkeys(("dict", "object", "HashMap", "Hashtable"), "object"),
    **dict.fromkeys(("string", "any", "char", "Any", "String"), "string"),
}


def tool_name(name: str) -> str:
    """The name of a function as a tool."""
    return name.replace(".", "_")


def tool_of(doc: Mapping[str, Any], *, language: str = "python") -> dict[str, Any]:
    """A function's description as a tool: name, description, JSON schema, and other fields.

    Upstream adds no hint of the language (empty) to a function that comes with a later turn.
    """
    schema = copy.deepcopy(doc["parameters"])
    if language in _LANGUAGES:
        for described in schema["properties"].values():
            _write_as_text(described, language)
    schema["type"] = "object"
    _cast(schema["properties"])
    others = {
        name: value
        for name, value in doc.items()
        if name not in ("name", "description", "parameters")
    }
    return {
        "name": tool_name(doc["name"]),
        "description": doc["description"] + _HINTS[language],
        "schema": schema,
        "fields": others or None,
    }


def _write_as_text(described: dict[str, Any], language: str) -> None:
    """Make an argument that is written in another language a text."""
    kind, title = described["type"], _LANGUAGES[language]
    if kind == "any":
        hint = f"This parameter can be of any type of {title} object in string representation."
    else:
        hint = f"This is {title} {kind} type parameter in string representation."
    described["description"] += f" {hint}"
    if kind in (("ArrayList", "Array") if language == "java" else ("array",)):
        inner = described.pop("items")["type"]
        described["description"] += (
            f" The list elements are of type {inner}; they are not in string representation."
        )
    if language == "javascript" and kind == "dict" and "properties" in described:
        entries = json.dumps(described.pop("properties"))
        described["description"] += (
            " The dictionary entries have the following schema; they are not in string "
            f"representation. {entries}"
        )
    described["type"] = "string"


def _cast(properties: dict[str, Any]) -> None:
    """Give the types of arguments the names of JSON schema."""
    for described in properties.values():
        kind = described.get("type")
        if kind == "float":
            described["format"] = "float"
            described["description"] += " This is a float type value."
        described["type"] = _TYPES.get(kind, "string")
        if described["type"] not in ("array", "object"):
            continue
        if "properties" in described:
            _cast(described["properties"])
        elif "items" in described:
            _cast_items(described["items"])


def _cast_items(items: dict[str, Any]) -> None:
    items["type"] = _TYPES[items["type"]]
    if items["type"] == "array" and "items" in items:
        items["items"]["type"] = _TYPES[items["items"]["type"]]
    elif items["type"] == "object" and "properties" in items:
        _cast(items["properties"])

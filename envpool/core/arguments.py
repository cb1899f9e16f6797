"""The arguments that a call may have: one rule for dialects, worlds and the log."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

MAX_DEPTH = 50
_LARGEST, _SMALLEST = 2**63 - 1, -(2**63)


def read_arguments(value: Any) -> tuple[dict[str, Any] | None, str]:
    """The arguments of a call as a server or a model wrote them, and else why they cannot be used,
    as the end of a sentence. They are an object, the text of one, or nothing (null, blank, and the
    empty array, as which PHP writes an empty object).

    Example: '{"line": 2,}' -> (None, "the JSON is malformed: expecting property name …")
    """
    if isinstance(value, str) and value.strip():
        value, fault = _decoded(value)
        if fault:
            return None, fault
    if value is None or value == [] or (isinstance(value, str) and not value.strip()):
        return {}, ""
    if not isinstance(value, dict):
        return None, f"they must be a JSON object, not {_KINDS.get(type(value), 'another value')}"
    unusable = argument_fault(value)
    return (None, unusable) if unusable else (value, "")


_KINDS: dict[type, str] = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
}


def _decoded(text: str) -> tuple[Any, str]:
    """The value of a JSON text, and else its fault. msgspec decodes; Python's decoder, which reads
    what most writers of JSON write, finds the fault."""
    try:
        return msgspec.json.decode(text), ""
    except (ValueError, RecursionError):
        pass
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as exc:
        return (
            None,
            f"the JSON is malformed: {exc.msg[:1].lower()}{exc.msg[1:]} at character {exc.pos + 1}",
        )
    except ValueError as exc:
        return None, f"the JSON is malformed: {exc}"
    except RecursionError:
        return None, f"a value is nested deeper than {MAX_DEPTH} levels"
    if fault := argument_fault(value):
        return None, fault
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "half of a surrogate pair is not Unicode text"
    return value, ""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def argument_fault(value: Any) -> str | None:
    """The reason why decoded JSON cannot be a call's arguments; None when it can.

    The log, SQLite and most servers hold integers of 64 bits, and arguments are nested deeply only
    to break something.

    Example: {"ids": [9223372036854775808]} -> "an integer is larger than 64 bits"
    """
    if type(value) is dict:
        for item in value.values():
            if type(item) is not str and not (type(item) is int and abs(item) <= _LARGEST):
                break
        else:
            return None  # as of nearly all calls
    level = [value]
    for _ in range(MAX_DEPTH):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                deeper.extend(item.values())
            elif kind is list or kind is tuple:
                deeper.extend(item)
            elif kind is int:
                if not _SMALLEST <= item <= _LARGEST:
                    return "an integer is larger than 64 bits"
            elif isinstance(item, Mapping):
                deeper.extend(item.values())
        if not deeper:
            return None
        level = deeper
    return f"a value is nested deeper than {MAX_DEPTH} levels"

"""Reference calls of the BFCL's single-turn entries, from its lists of possible answers.

An answer is a function with a list of accepted values for each argument; an empty text among them
says that the argument may be left out. The first accepted value is taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rehearsal_room.scenarios.format import Call


def reference_call(
    category: str, functions: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]
) -> Call:
    """A call that the answer accepts.

    Example: {"area": {"base": [10], "unit": ["m", ""]}} -> Call("area", {"base": 10, "unit": "m"})
    """
    ((name, accepted),) = answer.items()
    function = next(one for one in functions if one["name"] == name)["parameters"]
    described, required = function["properties"], function["required"]
    arguments = {}
    for argument, values in accepted.items():
        value = _chosen(values, is_needed=argument in required)
        if value is not _LEFT_OUT and argument in described:
            arguments[argument] = _written(value, described[argument], category)
    return Call(name.replace(".", "_"), arguments)


_LEFT_OUT = object()


def _chosen(values: Sequence[Any], *, is_needed: bool) -> Any:
    """The accepted value that is taken; `_LEFT_OUT` where the argument may be missing."""
    if not values:
        return [] if is_needed else _LEFT_OUT
    if values[0] != "":
        return values[0]
    if not is_needed:
        return _LEFT_OUT
    return next((value for value in values if value != ""), "")


def _written(value: Any, described: Mapping[str, Any], category: str) -> Any:
    """A value as the agent writes it: as JSON, or as text in another language."""
    kind, inner = str(described.get("type")), str(described.get("items", {}).get("type"))
    if category == "simple_java":
        return _java(value, kind, inner)
    if category == "simple_javascript":
        return _javascript(value)
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value whose dicts have lists of accepted values, with the first of each."""
    if isinstance(value, dict):
        return {key: _first(inner) for key, inner in value.items() if _first(inner) != ""}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else values


def _java(value: Any, kind: str, inner: str) -> str:
    """A value in Java, as the leaderboard's reader of Java understands it: texts in an array have
    no quotes.

    Example: 150 of type long -> "150L"; [2, 7] of type Array -> "new Object[]{2, 7}"
    """
    if isinstance(value, dict):
        puts = (f'put("{key}", {_quoted(_first(item))});' for key, item in value.items())
        return f"new HashMap<String, Object>() {{{{ {' '.join(puts)} }}}}"
    if isinstance(value, list) and kind == "ArrayList":
        items = ", ".join(
            f'"{item}"' if inner in ("String", "char") else _java(item, inner, "") for item in value
        )
        return f"new ArrayList<>(Arrays.asList({items}))" if value else "new ArrayList<>()"
    if isinstance(value, list):
        return f"new Object[]{{{', '.join(_java(item, inner, '') for item in value)}}}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    suffix = {"long": "L", "float": "f"}.get(kind, "") if isinstance(value, int | float) else ""
    return f"{value}{suffix}"


def _javascript(value: Any) -> str:
    """A value in JavaScript. Example: {"a": [1], "b": [True]} -> "{a: 1, b: true}" """
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_quoted(_first(v))}" for key, v in value.items()) + "}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    return _javascript(value)

"""Reference calls of the BFCL's single-turn entries, from its lists of possible answers.

An answer is a function with a list of accepted values for each argument; an empty text among them
says that the argument may be left out. The first accepted value is taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.format import Call


def reference_call(
    category: str, functions: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]
) -> Call:
    """A call that the answer accepts.

    Example: {"area": {"base": [10], "unit": ["m", ""]}} -> Call("area", {"base": 10, "unit": "m"})
    """
    ((name, accepted),) = answer.items()
    described = next(one for one in functions if one["name"] == name)["parameters"]["properties"]
    arguments = {
        argument: _value(values, described.get(argument, {}), category)
        for argument, values in accepted.items()
        if values and values[0] != ""
    }
    return Call(name.replace(".", "_"), arguments)


def _value(values: Sequence[Any], described: Mapping[str, Any], category: str) -> Any:
    value = values[0]
    if category in ("simple_java", "simple_javascript"):
        return _written(value, str(described.get("type")), category.removeprefix("simple_"))
    return _plain(value, described)


def _plain(value: Any, described: Mapping[str, Any]) -> Any:
    """A value whose dicts have lists of accepted values, with the first of each."""
    if isinstance(value, dict):
        return {key: _first(inner) for key, inner in value.items() if _first(inner) != ""}
    if isinstance(value, list):
        return [_plain(item, described) for item in value]
    return value


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else values


def _written(value: Any, kind: str, language: str) -> str:
    """A value as it is written in Java or JavaScript.

    Example: True -> "true"; 150 of type long -> "150L"
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, list):
        items = ", ".join(_item(item) for item in value)
        if language == "javascript":
            return f"[{items}]"
        return f"new ArrayList<>(Arrays.asList({items}))" if kind == "ArrayList" else f"{{{items}}}"
    if isinstance(value, dict):
        pairs = (f"{key}: {_item(_first(inner))}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    suffix = {"long": "L", "Long": "L", "float": "f"}.get(kind, "") if language == "java" else ""
    return f"{value}{suffix}"


def _item(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace('"', '\\"') + '"'
    return _written(value, "", "javascript")

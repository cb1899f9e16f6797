"""Reading what a model answered: JSON or code, whatever stands around it. Nothing is executed."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from scenarios.decode_errors import field_sentence

T = TypeVar("T")
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.M | re.S)
_TRAILING = re.compile(r",(\s*[}\]])")
_DEEP = (RecursionError, MemoryError)


class Unread(Exception):
    """An answer does not hold what was asked for; the sentence is for the model."""


def json_of(text: str, kind: type[T]) -> T:
    """The value in an answer: bare, in a fence, with words around it, or wrapped into an object of
    one field. Raises Unread.

    Example: json_of('Here:\\n```json\\n{"score": 8,}\\n```', Score) -> Score(8)
    """
    fault = "there is no JSON in the answer"
    seen = False
    for candidate in _candidates(_spoken(text)):
        value = _parsed(candidate)
        if value is None:
            continue
        for inner in (value, *_unwrapped(value)):
            try:
                return msgspec.convert(inner, kind, strict=False)
            except msgspec.ValidationError as exc:
                if not seen:  # the first one is what was meant
                    fault, seen = field_sentence(str(exc)), True
    raise Unread(fault)


def code_of(text: str) -> str:
    """The Python in an answer: in a fence (the longest of several), in a field of an object, or all
    of it. Raises Unread.

    Example: code_of("Sure:\\n```python\\nx = 1\\n```\\nDone.") -> "x = 1\\n"
    """
    spoken = _spoken(text)
    fences = [(found[2].lower(), found[3]) for found in _FENCE.finditer(spoken)]
    code = [body for word, body in fences if word in ("python", "py", "python3", "")]
    if code:
        return max(code, key=len).strip() + "\n"
    value = next((value for body in _candidates(spoken) if (value := _parsed(body))), None)
    if isinstance(value, dict):
        for field in ("code", "full_code", "python_code"):
            if isinstance(found := value.get(field), str) and found.strip():
                return found.strip() + "\n"
    if re.search(r"^(?:from|import|def|async def|class) ", spoken, re.M):
        return spoken.strip() + "\n"
    raise Unread("there is no Python in the answer")


def _spoken(text: str) -> str:
    """The answer without its thoughts, whose beginning may be missing."""
    _, *others = text.split("</think>")
    if not others:
        return text.strip()
    *between, last = others
    return "".join([*(part.partition("<think>")[0] for part in between), last]).strip()


def _candidates(text: str) -> Iterator[str]:
    """What may be JSON, the likeliest first."""
    fences = [found[3] for found in _FENCE.finditer(text) if found[2].lower() in ("json", "")]
    yield from sorted(fences, key=len, reverse=True)
    yield text
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


def _parsed(text: str) -> Any | None:
    """The value of a text that is JSON, or nearly so: commas too many, words of Python. None: it is
    not."""
    for candidate in (text, _TRAILING.sub(r"\1", text)):
        try:
            # Line breaks inside of texts are taken.
            return _whole(json.loads(candidate, strict=False))
        except (ValueError, *_DEEP):
            continue
    if text.strip()[:1] not in ("{", "["):
        return None
    try:
        return _whole(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, *_DEEP):
        return None


def _whole(value: Any) -> Any:
    """The value with `?` for halves of surrogate pairs, which no file can hold.

    Raises TypeError for what JSON does not have, such as bytes.
    """
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple():
            return [_whole(inner) for inner in value]
        case dict():
            return {_whole(key): _whole(inner) for key, inner in value.items()}
        case None | bool() | int() | float():
            return value
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _unwrapped(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and len(value) == 1:
        yield from value.values()

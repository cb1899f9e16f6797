"""Reading JSON or code out of a model's answer, with any text around it. Nothing is executed."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from rehearsal_room.scenarios.decode_errors import field_sentence

T = TypeVar("T")
_CODE_BLOCK = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*(\w*)[^\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.M | re.S
)
_TRAILING = re.compile(r",(\s*[}\]])")
_DEEP = (RecursionError, MemoryError)


class UnreadableAnswer(Exception):
    """An answer does not contain what was requested; the sentence is for the model."""


def json_of(text: str, kind: type[T]) -> T:
    """The value in an answer: bare, in a code block, with text around it, or wrapped in an
    object with one field. Raises UnreadableAnswer.

    Example: json_of('Here:\\n```json\\n{"score": 8,}\\n```', Score) -> Score(8)
    """
    fault = "there is no JSON in the answer"
    seen = False
    for candidate in _candidates(_without_thoughts(text)):
        value = _parse(candidate)
        if value is None:
            continue
        for inner in (value, *_unwrap(value)):
            try:
                return msgspec.convert(inner, kind, strict=False)
            except msgspec.ValidationError as exc:
                if not seen:  # the first candidate is probably the intended one
                    fault, seen = field_sentence(str(exc)), True
    raise UnreadableAnswer(fault)


def code_of(text: str) -> str:
    """The Python in an answer: in a code block (the longest of several), in a field of an
    object, or the whole answer. Raises UnreadableAnswer.

    Example: code_of("Sure:\\n```python\\nx = 1\\n```\\nDone.") -> "x = 1\\n"
    """
    visible = _without_thoughts(text)
    blocks = [(found[2].lower(), found[3]) for found in _CODE_BLOCK.finditer(visible)]
    code = [body for language, body in blocks if language in ("python", "py", "python3", "")]
    if code:
        return max(code, key=len).strip() + "\n"
    value = next((value for body in _candidates(visible) if (value := _parse(body))), None)
    if isinstance(value, dict):
        for field in ("code", "full_code", "python_code"):
            if isinstance(found := value.get(field), str) and found.strip():
                return found.strip() + "\n"
    if re.search(r"^(?:from|import|def|async def|class) ", visible, re.M):
        return visible.strip() + "\n"
    raise UnreadableAnswer("there is no Python in the answer")


def _without_thoughts(text: str) -> str:
    """The answer without its thoughts; the opening tag of the thoughts may be missing."""
    _, *others = text.split("</think>")
    if not others:
        return text.strip()
    *between, last = others
    return "".join([*(part.partition("<think>")[0] for part in between), last]).strip()


def _candidates(text: str) -> Iterator[str]:
    """The parts of a text that may be JSON, the likeliest first."""
    blocks = [found[3] for found in _CODE_BLOCK.finditer(text) if found[2].lower() in ("json", "")]
    yield from sorted(blocks, key=len, reverse=True)
    yield text
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


def _parse(text: str) -> Any | None:
    """The value of a text that is JSON, or nearly JSON: surplus commas, Python literals. None: it
    is neither."""
    for candidate in (text, _TRAILING.sub(r"\1", text)):
        try:
            # strict=False accepts line breaks inside of texts.
            return _storable(json.loads(candidate, strict=False))
        except (ValueError, *_DEEP):
            continue
    if text.strip()[:1] not in ("{", "["):
        return None
    try:
        return _storable(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, TypeError, *_DEEP):
        return None


def _storable(value: Any) -> Any:
    """The value with `?` in place of halves of surrogate pairs, which cannot be encoded.

    Raises TypeError for what JSON does not have, such as bytes.
    """
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple():
            return [_storable(inner) for inner in value]
        case dict():
            return {_storable(key): _storable(inner) for key, inner in value.items()}
        case None | bool() | int() | float():
            return value
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def _unwrap(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and len(value) == 1:
        yield from value.values()

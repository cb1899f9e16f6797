"""Reading JSON that a model wrote almost right.

Covers: code fences, words before and after, single quotes, line breaks inside of strings, trailing
commas, Python's True, False and None, closing quotes and brackets that are missing, and an object
put in quotes without escapes. Does not cover: keys without quotes, comments, missing commas.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_WORDS = {"True": "true", "False": "false", "None": "null"}
_TOKEN = re.compile(r"[A-Za-z]+|.", re.DOTALL)
_QUOTED_OBJECT = re.compile(r'"(\{.*\})"', re.DOTALL)


def mended(text: str) -> Any:
    """The value that a text most likely means. Raises ValueError when that cannot be told.

    Example: mended("```json\\n{'order_id': 7,}\\n```") -> {"order_id": 7}
    """
    for attempt in (_as_it_is, _rewritten, _unquoted):
        try:
            return msgspec.json.decode(attempt(text))
        except (ValueError, RecursionError):
            continue
    raise ValueError("it is no JSON")


def _as_it_is(text: str) -> str:
    return text


def _unquoted(text: str) -> str:
    if len(text) > 20_000:  # the pattern's cost grows with the square
        raise ValueError("too long")
    return _rewritten(_QUOTED_OBJECT.sub(r"\1", text))


def _rewritten(text: str) -> str:
    """The first object or array of a text in strict JSON, as far as quotes and brackets go."""
    begin = min((i for i in (text.find("{"), text.find("[")) if i >= 0), default=-1)
    if begin < 0:
        raise ValueError("no bracket")
    out: list[str] = []
    closers: list[str] = []
    quote = ""
    tokens = iter(_TOKEN.findall(text, begin))
    for token in tokens:
        if quote:
            if token == quote:
                out.append('"')
                quote = ""
            else:
                out.append(_inside(token, tokens))
        elif token in "\"'":
            out.append('"')
            quote = token
        elif token in "{[":
            closers.append("}" if token == "{" else "]")
            out.append(token)
        elif token in "}]":
            _drop_comma(out)
            out.append(token)
            if not closers or closers.pop() != token or not closers:
                break
        else:
            out.append(_WORDS.get(token, token))
    if quote:
        out.append('"')
    _drop_comma(out)
    out.extend(reversed(closers))
    return "".join(out)


def _inside(token: str, rest: Iterator[str]) -> str:
    """A token of a string, escaped as JSON wants it."""
    if token == "\\":
        following = next(rest, "")
        return following if following[:1] == "'" else token + following
    if token == '"':
        return '\\"'
    return msgspec.json.encode(token).decode()[1:-1] if token < " " else token


def _drop_comma(out: list[str]) -> None:
    place = len(out) - 1
    while place >= 0 and out[place].isspace():
        place -= 1
    if place >= 0 and out[place] == ",":
        del out[place]

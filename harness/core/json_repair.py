"""Reading JSON that is almost right, as models often write it.

Covers: code fences, words before and after, single quotes, line breaks inside strings, trailing
commas, Python's True, False and None, missing closing quotes and brackets, and an object in quotes
without escapes. Does not cover: keys without quotes, comments, missing commas.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_WORDS = {"True": "true", "False": "false", "None": "null"}
_TOKEN = re.compile(r"[A-Za-z]+|.", re.DOTALL)
_QUOTED_OBJECT = re.compile(r'"(\{.*\})"', re.DOTALL)


def repair_json(text: str) -> Any:
    """The value that a text most likely means. Raises ValueError when that is unclear.

    Example: repair_json("```json\\n{'order_id': 7,}\\n```") -> {"order_id": 7}
    """
    for prepare in (_unchanged, _rewrite_first_value, _unquote_objects):
        try:
            return msgspec.json.decode(prepare(text))
        except (ValueError, RecursionError):
            continue
    raise ValueError("it is not JSON")


def _unchanged(text: str) -> str:
    return text


def _unquote_objects(text: str) -> str:
    if len(text) > 20_000:  # the cost of the pattern grows with the square of the length
        raise ValueError("too long")
    return _rewrite_first_value(_QUOTED_OBJECT.sub(r"\1", text))


def _rewrite_first_value(text: str) -> str:
    """The first object or array of a text, its quotes and brackets made strict JSON."""
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
                out.append(_escape(token, tokens))
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


def _escape(token: str, rest: Iterator[str]) -> str:
    """A token of a string, escaped as JSON requires; a backslash consumes one of `rest`."""
    if token == "\\":
        following = next(rest, "")
        return following if following[:1] == "'" else token + following
    if token == '"':
        return '\\"'
    return msgspec.json.encode(token).decode()[1:-1] if token < " " else token


def _drop_comma(out: list[str]) -> None:
    """Delete a trailing comma; blanks after it stay."""
    last = len(out) - 1
    while last >= 0 and out[last].isspace():
        last -= 1
    if last >= 0 and out[last] == ",":
        del out[last]

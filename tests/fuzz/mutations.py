"""Mutations of files and command lines, each a pure function of a seed."""

import re
from collections.abc import Callable, Sequence
from random import Random

_WORDS = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r\n", b"\t", b"\\u0000"),
    *("\u202e".encode(), "\U0010ffff".encode(), b"\x1b[2J\x1b]0;x\x07", b"'", b'"', b'"""', b"\\"),
    *(b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b"[[a]]\n", b"a.b.c = 1\n", b"= \n", b";", b"--"),
    *(b"nan", b"inf", b"-0.0", b"1e999", b"9" * 30, b"9" * 5000, b"0x1", b"-1", b"null", b"true"),
    *(b"{}", b"[]", b"''", b"1979-05-27T07:32:00Z", b"\n\n[user]\n", b"../../etc/passwd"),
)
_VALUE = re.compile(rb'"[^"\n]*"|\'[^\'\n]*\'|-?\b[0-9][0-9.]*\b')
_LITERALS = (
    *(
        b'""',
        b'" "',
        b'"x"',
        b'"\\u0000"',
        b'"\\u001b[2J\\u001b]0;x\\u0007"',
        b'"\\u202e"',
        b'"..""',
    ),
    *(b'"/etc/passwd"', b'"a/b"', b'"\\ud800"', b"'x'", b"''", b'"' + b"x" * 5000 + b'"'),
    *(b"0", b"-1", b"1.5", b"1e308", b"9223372036854775807", b"9223372036854775808", b"true"),
    *(b"null", b"[]", b"{}", b"[[1], {}]", b"nan", b"inf", b'"nan"', b'"1e400"', b"NULL", b"x"),
)
Mutation = Callable[[bytes, Random], bytes]


def _position(data: bytes, rng: Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytes, rng: Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _insert(data: bytes, rng: Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + rng.choice(_WORDS) + data[at:]


def _replace_word(data: bytes, rng: Random) -> bytes:
    """One run of letters and digits, or one quoted text, becomes another."""
    at = _position(data, rng)
    start = end = at
    while start > 0 and data[start - 1 : start].isalnum():
        start -= 1
    while end < len(data) and data[end : end + 1].isalnum():
        end += 1
    return data[:start] + rng.choice(_WORDS) + data[end:]


def _replace_value(data: bytes, rng: Random) -> bytes:
    """A quoted text or a number becomes another value, mostly one that can still be parsed."""
    found = list(_VALUE.finditer(data))
    if not found:
        return _insert(data, rng)
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(_LITERALS) + data[one.end() :]


def _delete(data: bytes, rng: Random) -> bytes:
    at = _position(data, rng)
    return data[:at] + data[at + rng.choice((1, 2, 10, 100, 1000)) :]


def _repeat(data: bytes, rng: Random) -> bytes:
    at = _position(data, rng)
    span = data[at : at + rng.choice((1, 10, 100, 1000))]
    return data[:at] + span * rng.choice((2, 3, 20)) + data[at:]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: _position(data, rng)]


def _lines(data: bytes, rng: Random) -> bytes:
    """Two lines change places, or one is dropped, or one is doubled."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return b"\n"
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
        case 1:
            del lines[one]
        case _:
            lines.insert(one, lines[other])
    return b"".join(lines)


def _whole(data: bytes, rng: Random) -> bytes:
    """Another file altogether."""
    return rng.choice((b"", b"\n", data[::-1], data.upper(), *_WORDS))


_MUTATIONS: tuple[Mutation, ...] = (
    *(_flip, _insert, _insert, _replace_word, _replace_word),
    *(_replace_value, _replace_value, _replace_value, _replace_value),
    *(_delete, _repeat, _cut, _lines, _lines),
)


def mutated(data: bytes, rng: Random) -> bytes:
    """The data with one to three mutations; seldom something else altogether."""
    if rng.random() < 0.03:
        return _whole(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(data, rng)
    return data


_VALUES = (
    *("", " ", "-", "--", "0", "-1", "1", "2", "1e3", "nan", "inf", "٣", "9" * 30, "0x1", "1:5"),
    *("5:1", "true", "None", "[]", "{}", "'", "\x1b[2J", "\u202ex", "x" * 5000, "/", ".", ".."),
    *("~", "/dev/null", "no/such/file", "shop_support", "library:", ":", "a:b:c", "*", "%s"),
    *("http://x@y", "oracle", "full", "last:3", "last:0", "last:x", "full:1"),
    *("hermes", "completed", "e000000"),
)


def mutated_words(words: Sequence[str], flags: Sequence[str], rng: Random) -> list[str]:
    """A command line with one to four words changed, dropped, doubled or added; `flags` are those
    that may be added."""
    found = list(words)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        at = rng.randrange(1, len(found) + 1)
        match rng.randrange(5):
            case 0 if at < len(found):
                found[at] = rng.choice(_VALUES)
            case 1 if at < len(found):
                del found[at]
            case 2:
                found[at:at] = [rng.choice(flags)]
            case 3:
                found[at:at] = [rng.choice(_VALUES)]
            case _:
                found[at:at] = [rng.choice(flags), rng.choice(_VALUES)]
    return [word.replace("\x00", "") for word in found]

"""URLs as httpx 0.28 makes them from a path and a query, without httpx.

A tool call's path is text with arguments put into it, so anything may stand there: spaces, `..`,
`?`, `#`, percent signs, nothing at all. httpx parses it, joins it to `http://apiserver/`, leaves
out dot segments and replaces the query; what remains reaches the application. Sources: httpx's
behaviour (read and compared), RFC 3986.

Limit: in a path that begins with `//` the name before the next slash is dropped as a host, as httpx
does, but a host that is no ASCII is not checked for being a valid one.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

MAX_LENGTH = 65_536  # characters of a URL

_PLAIN = re.compile(r"[A-Za-z0-9_~/-]*(?:\.[A-Za-z0-9_~-]+)*")  # needs no work
_URL = re.compile(r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?")
_AUTHORITY = re.compile(r"(?:.*@)?(?P<host>\[.*\]|[^:@]*):?(?P<port>.*)")
_ESCAPED = re.compile(r"(%[A-Fa-f0-9]{2})")
_PRINTABLE = {chr(code) for code in range(0x20, 0x7F)}
_IN_QUERY = frozenset(_PRINTABLE - set(' "#<>'))
_IN_PATH = frozenset(_IN_QUERY - set("?`{}"))


class InvalidAddress(ValueError):
    """httpx would not send this; the message is httpx's."""


def path_of(text: str) -> tuple[str, bytes]:
    """The path of the request and its raw form, from a path with arguments put into it.

    Example: "/orders/a b/../7?x=1" -> ("/orders/7", b"/orders/7")

    Raises InvalidAddress.
    """
    if _PLAIN.fullmatch(text) and not text.startswith("//") and len(text) < MAX_LENGTH:
        return text, text.encode("ascii")
    raw = "/" + _relative(text).lstrip("/")
    _check_length(raw, "URL component 'path' too long")
    raw = _quoted(_without_dots(raw), _IN_PATH) or "/"
    return unquote(raw), raw.encode("ascii")


def query_of(values: Mapping[str, Any]) -> bytes:
    """The query string: lists repeat their name, True is `true`, None is empty.

    Example: {"q": "a b", "tags": ["x", None], "new": True} -> b"q=a+b&tags=x&tags=&new=true"

    Raises InvalidAddress.
    """
    if not values:
        return b""
    pairs = []
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            pairs.append((name, _primitive(item)))  # noqa: PERF401 - two loops in one would hide it
    text = urlencode(pairs)
    _check_length(text, "URL component 'query' too long")
    return text.encode("ascii")


def _primitive(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return "" if value is None else str(value)


def _relative(text: str) -> str:
    """What is left of the text as a reference relative to the server: its quoted path."""
    _check_length(text, "URL too long")
    for position, char in enumerate(text):
        if char.isascii() and not char.isprintable():
            raise InvalidAddress(
                f"Invalid non-printable ASCII character in URL, {char!r} at position {position}."
            )
    match = _URL.match(text)
    assert match is not None
    authority, path = match["authority"] or "", match["path"]
    if _has_authority(authority):
        path = _without_dots(path)
    elif path.startswith("//"):
        raise InvalidAddress("Relative URLs cannot have a path starting with '//'")
    return _quoted(path, _IN_PATH)


def _has_authority(authority: str) -> bool:
    match = _AUTHORITY.match(authority)
    assert match is not None
    host, port = match["host"], match["port"]
    if re.match(r"^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$", host):
        _check_host(ipaddress.IPv4Address, host, f"Invalid IPv4 address: {host!r}")
    elif re.match(r"^\[.*\]$", host):
        _check_host(ipaddress.IPv6Address, host[1:-1], f"Invalid IPv6 address: {host!r}")
    if port:
        try:
            int(port)
        except ValueError:
            raise InvalidAddress(f"Invalid port: {port!r}") from None
    return bool(authority) and authority not in ("@", ":", "@:")


def _check_host(kind: type, host: str, fault: str) -> None:
    try:
        kind(host)
    except ipaddress.AddressValueError:
        raise InvalidAddress(fault) from None


def _check_length(text: str, fault: str) -> None:
    if len(text) > MAX_LENGTH:
        raise InvalidAddress(fault)


def _without_dots(path: str) -> str:
    parts = path.split("/")
    if "." not in parts and ".." not in parts:
        return path
    kept: list[str] = []
    for part in parts:
        if part == "..":
            if kept and kept != [""]:
                kept.pop()
        elif part != ".":
            kept.append(part)
    return "/".join(kept)


def _quoted(text: str, safe: frozenset[str]) -> str:
    """Percent-encode what is not safe, and leave alone what is encoded already."""
    pieces = _ESCAPED.split(text)  # every other one is an escape
    return "".join(
        piece if number % 2 else "".join(c if c in safe else _percent(c) for c in piece)
        for number, piece in enumerate(pieces)
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())

"""Build paths and queries as httpx 0.28 does, without httpx.

A tool call's path is a text with arguments inserted, so it may contain anything: spaces, `..`, `?`,
`#`, percent signs, or nothing. httpx parses it, joins it to `http://apiserver/`, removes dot
segments and replaces the query; the rest reaches the application. Sources: httpx's behaviour (read
and compared), RFC 3986.

Limit: in a path that begins with `//` the name before the next slash is dropped as a host, as in
httpx, but a host with characters outside of ASCII is not validated.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

MAX_LENGTH = 65_536  # characters of a URL

_PLAIN = re.compile(r"[A-Za-z0-9_~/-]*(?:\.[A-Za-z0-9_~-]+)*")  # needs no change
_URL = re.compile(r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?")
_AUTHORITY = re.compile(r"(?:.*@)?(?P<host>\[.*\]|[^:@]*):?(?P<port>.*)")
_ESCAPED = re.compile(r"(%[A-Fa-f0-9]{2})")
_PRINTABLE = {chr(code) for code in range(0x20, 0x7F)}
_SAFE_IN_QUERY = frozenset(_PRINTABLE - set(' "#<>'))
_SAFE_IN_PATH = frozenset(_SAFE_IN_QUERY - set("?`{}"))


class InvalidURL(ValueError):
    """httpx would refuse to send this; the message is httpx's."""


def path_of(text: str) -> tuple[str, bytes]:
    """The path of the request and its raw form, from a path with inserted arguments.

    Example: "/orders/a b/../7?x=1" -> ("/orders/7", b"/orders/7")

    Raises InvalidAddress.
    """
    if _PLAIN.fullmatch(text) and not text.startswith("//") and len(text) < MAX_LENGTH:
        return text, text.encode("ascii")
    raw = "/" + _relative_path(text).lstrip("/")
    _check_length(raw, "URL component 'path' too long")
    raw = _quote(_remove_dot_segments(raw), _SAFE_IN_PATH) or "/"
    return unquote(raw), raw.encode("ascii")


def query_of(values: Mapping[str, Any]) -> bytes:
    """The query string: lists repeat their name, True becomes `true`, None an empty text.

    Example: {"q": "a b", "tags": ["x", None], "new": True} -> b"q=a+b&tags=x&tags=&new=true"

    Raises InvalidAddress.
    """
    if not values:
        return b""
    pairs = []
    for name, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            pairs.append((name, _primitive(item)))  # noqa: PERF401 - a nested comprehension reads worse
    text = urlencode(pairs)
    _check_length(text, "URL component 'query' too long")
    return text.encode("ascii")


def _primitive(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return "" if value is None else str(value)


def _relative_path(text: str) -> str:
    """The quoted path of the text, read as a reference relative to the server."""
    _check_length(text, "URL too long")
    for position, char in enumerate(text):
        if char.isascii() and not char.isprintable():
            raise InvalidURL(
                f"Invalid non-printable ASCII character in URL, {char!r} at position {position}."
            )
    match = _URL.match(text)
    assert match is not None
    authority, path = match["authority"] or "", match["path"]
    if _has_authority(authority):
        path = _remove_dot_segments(path)
    elif path.startswith("//"):
        raise InvalidURL("Relative URLs cannot have a path starting with '//'")
    return _quote(path, _SAFE_IN_PATH)


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
            raise InvalidURL(f"Invalid port: {port!r}") from None
    return bool(authority) and authority not in ("@", ":", "@:")


def _check_host(kind: type, host: str, fault: str) -> None:
    try:
        kind(host)
    except ipaddress.AddressValueError:
        raise InvalidURL(fault) from None


def _check_length(text: str, fault: str) -> None:
    if len(text) > MAX_LENGTH:
        raise InvalidURL(fault)


def _remove_dot_segments(path: str) -> str:
    parts = path.split("/")
    if "." not in parts and ".." not in parts:
        return path
    segments: list[str] = []
    for part in parts:
        if part == "..":
            if segments and segments != [""]:
                segments.pop()
        elif part != ".":
            segments.append(part)
    return "/".join(segments)


def _quote(text: str, safe: frozenset[str]) -> str:
    """Percent-encode the characters that are not safe; escapes stay as they are."""
    pieces = _ESCAPED.split(text)  # every second piece is an escape
    return "".join(
        piece if number % 2 else "".join(c if c in safe else _percent(c) for c in piece)
        for number, piece in enumerate(pieces)
    )


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())

"""Answers of model servers, mutated from good ones by a seed: as text, as JSON and as HTTP.

for body in bodies(seed=7, number=100): ...       bodies of answers, few of which are good
for stream in streams(seed=7, number=100): ...    the bytes of whole HTTP responses, in pieces
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

_CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me see – 日本",
                "reasoning_content": "hm",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"at": "sky", "n": [1, 2.5]}'},
                    }
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 3},
    },
}
_TOKENS = {
    "choices": [
        {
            "index": 0,
            "text": "whatever",
            "token_ids": [40, 41, 2],
            "logprobs": {"token_logprobs": [-0.25, -0.5, -0.1]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}},
}
_ERROR = {"error": {"message": "not now", "type": "some_error", "code": "busy", "param": None}}
_MODELS = {"object": "list", "data": [{"id": "m", "max_model_len": 4096, "parent": None}]}
_GOOD = (_CHAT, _TOKENS, _ERROR, _MODELS)
_STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        7,
        2**31,
        0.5,
        -1e9,
        2**63,
        -(2**63) - 1,
        2**64,
        1e308,
        -0.0,
        "",
        " ",
        "null",
        "\x00",
    ),
    *("\ud800", "\udfff\ud800", "a\u202eb", "\x1b[2J", "9" * 400, "x" * 5_000, [], {}, [[]]),
    *([None] * 50, {"": {"": {}}}, {"error": {"code": 10**30}}, "{" * 300, '{"a":' * 80, "1e999"),
)
_RAW = (
    *(b"NaN", b"Infinity", b"-Infinity", b"9" * 5_000, b"-" + b"9" * 5_000, b"1e99999", b"01"),
    *(b"[" * 3_000, b'{"a":' * 3_000, b"\xff\xfe", b"\x00", b'"\\ud800"', b'"\\u12"', b"'a'"),
    *(b"1." + b"3" * 6_000, b"\xef\xbb\xbf{}", b"[" + b"0," * 5_000 + b"0]", b"nul", b'"'),
)


def bodies(*, seed: int, number: int) -> Iterator[bytes]:
    """Bodies of answers; each is one to four mutations away from a good one."""
    rng = Random(seed)
    for _ in range(number):
        value = deepcopy(rng.choice(_GOOD))
        for _ in range(rng.choice((0, 0, 1, 2, 3))):
            value = _mutated(value, rng)
        body = json.dumps(value, ensure_ascii=rng.random() < 0.7).encode(errors="surrogatepass")
        yield _damaged(body, rng) if rng.random() < 0.35 else body


def _mutated(value: Any, rng: Random) -> Any:
    """The value with one of its parts replaced, removed, repeated or wrapped."""
    parents = [parent for parent in _parts(value) if isinstance(parent, dict | list) and parent]
    if not parents or rng.random() < 0.05:
        return deepcopy(rng.choice(_STRANGE))
    parent = rng.choice(parents)
    key: Any = rng.choice(list(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
    match rng.randrange(5):
        case 0:
            del parent[key]
        case 1:
            parent[key] = [deepcopy(parent[key]) for _ in range(rng.choice((2, 3, 300)))]
        case 2:
            parent[key] = {"content": parent[key]}
        case 3 if isinstance(parent, list):
            parent.extend(deepcopy(parent[key]) for _ in range(rng.choice((1, 200))))
        case _:
            parent[key] = deepcopy(rng.choice(_STRANGE))
    return value


def _parts(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from _parts(item)


def _damaged(body: bytes, rng: Random) -> bytes:
    """The bytes with a piece cut out, doubled, flipped or replaced by something raw."""
    start = rng.randrange(len(body) + 1)
    end = min(len(body), start + rng.choice((0, 1, 3, 20, 200)))
    match rng.randrange(5):
        case 0:
            return body[:start]
        case 1:
            return body[:start] + body[end:]
        case 2:
            return body[:end] + body[start:]
        case 3:
            flipped = bytes(byte ^ rng.randrange(256) for byte in body[start:end])
            return body[:start] + flipped + body[end:]
        case _:
            return body[:start] + rng.choice(_RAW) + body[end:]


_LINES = (
    *(b"HTTP/1.1 200 OK", b"HTTP/1.1 200", b"HTTP/1.0 200 OK", b"HTTP/2 200", b"HTTP/1.1 099 X"),
    *(b"HTTP/1.1 429 Slow", b"HTTP/1.1 503 X", b"HTTP/1.1 100 Continue", b"HTTP/1.1 204 Empty"),
    *(b"HTTP/1.1 999 X", b"HTTP/1.1 304 Same", b"HTTP/1.1 301 Moved", b"ICY 200 OK", b""),
    *(b"HTTP/1.1 101 Switching Protocols", b"HTTP/1.1 -1 X", b"HTTP/1.1 500 \xff\xfe"),
)
_HEADERS = (
    *(b"Retry-After: 0", b"Retry-After: -5", b"Retry-After: 1e400", b"Retry-After: soon"),
    *(b"retry-after-ms: nan", b"Content-Encoding: gzip", b"Content-Encoding: identity"),
    *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Transfer-Encoding: , chunked"),
    *(b"Content-Length: 0", b"Content-Length: 5", b"Content-Length: 99999999999999999999"),
    *(b"Content-Length: +5", b"Content-Length: 0x5", b"Connection: close", b"Connection: upgrade"),
    *(b"Upgrade: websocket", b"x-should-retry: true", b"x-should-retry: false", b"A: \x00", b": b"),
    *(b" folded", b"Location: http://127.0.0.1:1/", b"Set-Cookie: " + b"c" * 9_000, b"A" * 70_000),
    *(b"Retry-After: Wed, 99 Oct 2015 07:28:00 GMT", b"Trailer: A", b"Content-Type: text/html"),
)


def streams(*, seed: int, number: int) -> Iterator[list[bytes]]:
    """The pieces of HTTP responses; the connection ends after the last one."""
    rng = Random(seed)
    for body in bodies(seed=seed + 1, number=number):
        data = _response(body, rng)
        if rng.random() < 0.3:
            data = _damaged(data, rng)
        yield list(_pieces(data, rng))


def _response(body: bytes, rng: Random) -> bytes:
    line = _LINES[0] if rng.random() < 0.7 else rng.choice(_LINES)
    headers = rng.choices(_HEADERS, k=rng.choice((0, 0, 0, 1, 2)))
    framing = rng.randrange(4)
    if framing == 0:
        headers.append(b"Transfer-Encoding: chunked")
        body = b"".join(_chunks(body, rng))
    elif framing < 3:
        wrong = rng.choice((0, 0, 0, 0, 1, -1, 50))
        headers.append(b"Content-Length: %d" % max(0, len(body) + wrong))
    head = b"".join(header + b"\r\n" for header in (line, *headers))
    before = b"HTTP/1.1 100 Continue\r\n\r\n" * rng.choice((0, 0, 0, 0, 1, 3_000))
    return before + head + b"\r\n" + body


def _chunks(body: bytes, rng: Random) -> Iterator[bytes]:
    size = rng.choice((1, 7, 1_000))
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        extension = b";x=" + b"y" * rng.choice((0, 0, 0, 500)) if rng.random() < 0.1 else b""
        yield b"%x%b\r\n%b\r\n" % (len(piece), extension, piece)
    yield rng.choice((b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"", b"-1\r\n\r\n", b"f" * 40 + b"\r\n"))


def _pieces(data: bytes, rng: Random) -> Iterator[bytes]:
    size = rng.choice((1, 100, 60_000)) if len(data) < 3_000 else 60_000
    for start in range(0, len(data), size):
        yield data[start : start + size]

"""Mutated inputs for fuzzers, the same for a seed on every machine.

Bytes lose and gain pieces; values have parts replaced by odd ones. Both keep most of what they were
made from, so that they reach the code behind the first check.
"""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e308, -0.0),
    *("", "x", "\0", "\n", "\u2028", "\uffff", "ä" * 300, "../../etc/passwd", "{}", "-1", "1e999"),
    *(b"", b"\xff" * 20, [], {}, [[]], {"": None}, [1, "a", None], {"a": {"b": [1]}}),
)
_TOKENS = (
    *(b"\0", b"\xff\xff\xff\xff", b"\x80", b"\r\n", b"\r\n\r\n", b"\n", b"\t", b" ", b"\\", b"{"),
    *(b'"', b"[", b"]", b"}", b",", b":", b";", b"=", b"0", b"-", b"..", b"null", b"NaN", b"1e999"),
    *(b"7" * 5000, b"[" * 2000, b"\\ud800", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"%00", b"%ff"),
)  # fmt: skip


def mutated_bytes(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, changed in one to four spots."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        start = rng.randint(0, len(data))
        end = min(len(data), start + int(math.exp(rng.uniform(0, 5))))
        match rng.randrange(7):
            case 0:  # flip bits
                if start < len(data):
                    data[start] ^= 1 << rng.randrange(8)
            case 1:  # drop
                del data[start:end]
            case 2:  # repeat
                data[start:start] = data[start:end] * rng.choice((1, 2, 50))
            case 3:  # insert something odd
                data[start:start] = rng.choice(_TOKENS)
            case 4:  # replace by something odd
                data[start:end] = rng.choice(_TOKENS)
            case 5:  # cut off
                del data[start:]
            case _:  # continue as another seed
                other = rng.choice(seeds)
                data[start:] = other[rng.randint(0, len(other)) :]
    return bytes(data)


def mutated_value(rng: Random, value: Any, odd: Sequence[Any] = ODD_VALUES) -> Any:
    """A value of dicts and lists with one to three parts replaced, dropped or repeated."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _mutate(rng, value, odd)
    return value


def _mutate(rng: Random, value: Any, odd: Sequence[Any]) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(odd)
    copy: Any = value.copy()
    key = rng.choice(list(copy)) if isinstance(copy, dict) else rng.randrange(len(copy))
    match rng.randrange(8):
        case 0:
            del copy[key]
        case 1 if isinstance(copy, dict):
            copy[rng.choice((*copy, "x", ""))] = copy[key]
        case 1:
            copy.insert(key, copy[key])
        case _:
            copy[key] = _mutate(rng, copy[key], odd)
    return copy


def seeds_of(number: int, *, start: int = 0) -> Iterator[Random]:
    """As many sources of randomness, each from its own seed."""
    for seed in range(start, start + number):
        yield Random(seed)

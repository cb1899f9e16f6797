"""Kinds of values in generated code, by how their state is isolated between worlds.

atom           cannot change: a number, a text, a time
group          a tuple or frozenset: cannot change itself, but its elements may
container      a dict, list, set, deque or bytearray, or an instance of a subclass
random         a random.Random
object         an instance with attributes, of the code's own classes or of plain library classes
opaque         may change, but its content cannot be exchanged: an iterator, a mapped row
stateless      has no state: functions, classes, modules, loggers, locks, library internals
process_bound  belongs to this process: a file, a generator, a thread
"""

import asyncio
import contextvars
import datetime as dt
import enum
import functools
import io
import logging
import random
import re
import socket
import threading
import zoneinfo
from collections import deque
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    EllipsisType,
    FrameType,
    FunctionType,
    GeneratorType,
    GenericAlias,
    MappingProxyType,
    MethodType,
    ModuleType,
    NoneType,
    NotImplementedType,
    TracebackType,
    UnionType,
)
from typing import Any, Literal
from uuid import UUID

ValueKind = Literal[
    "atom", "group", "container", "random", "object", "opaque", "stateless", "process_bound"
]
CONTAINERS = (dict, list, set, deque, bytearray)
LOCKS = (type(threading.Lock()), type(threading.RLock()))

_ATOMS = (
    *(NoneType, bool, int, float, complex, str, bytes, range, slice, EllipsisType),
    *(NotImplementedType, enum.Enum, dt.date, dt.time, dt.timedelta, dt.tzinfo, zoneinfo.ZoneInfo),
    *(Decimal, Fraction, PurePath, UUID, re.Pattern, re.Match),
)
_STATELESS: tuple[Any, ...] = (
    *(type, FunctionType, ModuleType, CodeType, CellType, GenericAlias, UnionType),
    *(MappingProxyType, staticmethod, classmethod, property, functools.partial),
    *(functools.partialmethod, functools.cached_property, logging.Logger, logging.Handler),
    *map(type, ({}.keys(), {}.values(), {}.items())),  # views of values that are found elsewhere
    *(threading.Condition, random.SystemRandom, contextvars.ContextVar, asyncio.AbstractEventLoop),
    *LOCKS,
)
_PROCESS_BOUND = (
    *(GeneratorType, CoroutineType, AsyncGeneratorType, io.IOBase, socket.socket, FrameType),
    *(threading.Thread, TracebackType, memoryview, asyncio.Future, contextvars.Token),
)
# Libraries whose objects make up the application and do not change in its calls.
_INTERNALS = frozenset(
    (
        *("sqlalchemy", "fastapi", "starlette", "pydantic", "pydantic_core", "annotated_types"),
        *("pydantic_settings", "typing", "typing_extensions", "_thread", "concurrent", "anyio"),
        *(
            "httpx",
            "httpx2",
            "uvicorn",
            "rehearsal_room.envpool",
            "sqlite3",
            "apsw",
            "weakref",
            "_weakref",
            "abc",
        ),
        *("_abc", "re", "logging", "jinja2", "functools", "_struct"),
    )
)
_METHOD_WRAPPER = type([].__len__)  # a bound method of a built-in type


def value_kind(value: Any) -> ValueKind:
    """The kind of a value."""
    if isinstance(value, _ATOMS):
        return "atom"
    if isinstance(value, tuple | frozenset):
        return "group"
    if isinstance(value, _STATELESS):
        return "stateless"
    if isinstance(value, _PROCESS_BOUND):
        return "process_bound"
    if isinstance(value, threading.local):
        return "object"
    cls = type(value)
    if hasattr(cls, "__mapper__") or isinstance(value, BaseException):
        return "opaque"
    if isinstance(value, MethodType):
        return "opaque"
    if isinstance(value, BuiltinFunctionType | _METHOD_WRAPPER):
        owner = getattr(value, "__self__", None)
        return "stateless" if isinstance(owner, ModuleType | NoneType) else "opaque"
    if _library(cls) in _INTERNALS:
        return "opaque" if isinstance(value, CONTAINERS) else "stateless"
    if isinstance(value, CONTAINERS):
        return "container"
    if isinstance(value, random.Random):
        return "random"
    return "object" if hasattr(value, "__dict__") or slotted_attributes(cls) else "opaque"


def _library(cls: type) -> str:
    """The library of a class: the first part of its module name; of our own the first two."""
    first, _, rest = cls.__module__.partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "rehearsal_room" else first


def is_opaque(value: Any) -> bool:
    """Whether a value is opaque, or a group with an opaque element."""
    kind = value_kind(value)
    return kind == "opaque" or (kind == "group" and any(map(is_opaque, value)))


def extends_library_internals(cls: type) -> bool:
    """Whether a class extends a class of the libraries that make up the application."""
    roots = {_library(base) for base in cls.__mro__}
    return not roots.isdisjoint(_INTERNALS - {"abc", "typing"})


def slotted_attributes(cls: type) -> tuple[str, ...]:
    """The attributes in `__slots__` of a class and its bases, in the order of the bases."""
    names: list[str] = []
    for base in cls.__mro__:
        listed = vars(base).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else tuple(listed):
            if name not in ("__dict__", "__weakref__"):
                is_private = name.startswith("__") and not name.endswith("__")
                names.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(names)


def contents_of(value: Any, kind: str) -> Iterable[Any]:
    """The values directly in a value."""
    if kind == "group" or (kind == "container" and not isinstance(value, dict | bytearray)):
        yield from value
    elif kind == "container" and isinstance(value, dict):
        for key, inner in value.items():
            yield from (key, inner)
    if kind == "container":
        yield from getattr(value, "__dict__", {}).values()
    if kind == "object":
        yield from attributes_of(value).values()
    if kind == "opaque":
        yield getattr(value, "__self__", None)


def attributes_of(value: Any) -> dict[str, Any]:
    """An object's own attributes, including those in `__slots__`."""
    names = slotted_attributes(type(value))
    slotted = {name: getattr(value, name) for name in names if hasattr(value, name)}
    private = getattr(value, "__pydantic_private__", None) or {}
    return getattr(value, "__dict__", {}) | private | slotted

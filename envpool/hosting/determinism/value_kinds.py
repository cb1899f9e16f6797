"""What sort of thing a value found in generated code is, when its state is to be kept apart.

atom        it cannot change: a number, a text, a moment
group       a tuple or frozenset: it cannot change, what it holds may
container   a dict, list, set, deque or bytearray, or one's subclass
random      a random.Random
object      an instance with attributes, of the code's own classes or of plain library classes
value       it may change and its content cannot be exchanged: an iterator, a mapped row
fixed       no state: functions, classes, modules, loggers, locks, the libraries' machinery
unkeepable  it belongs to this process: a file, a generator, a thread
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

Kind = Literal["atom", "group", "container", "random", "object", "value", "fixed", "unkeepable"]
CONTAINERS = (dict, list, set, deque, bytearray)
LOCKS = (type(threading.Lock()), type(threading.RLock()))

_ATOMS = (
    *(NoneType, bool, int, float, complex, str, bytes, range, slice, EllipsisType),
    *(NotImplementedType, enum.Enum, dt.date, dt.time, dt.timedelta, dt.tzinfo, zoneinfo.ZoneInfo),
    *(Decimal, Fraction, PurePath, UUID, re.Pattern, re.Match),
)
_FIXED: tuple[Any, ...] = (
    *(type, FunctionType, ModuleType, CodeType, CellType, GenericAlias, UnionType),
    *(MappingProxyType, staticmethod, classmethod, property, functools.partial),
    *(functools.partialmethod, functools.cached_property, logging.Logger, logging.Handler),
    *(type({}.keys()), type({}.values()), type({}.items())),  # views of what is found elsewhere
    *(threading.Condition, random.SystemRandom, contextvars.ContextVar, asyncio.AbstractEventLoop),
    *LOCKS,
)
_UNKEEPABLE = (
    *(GeneratorType, CoroutineType, AsyncGeneratorType, io.IOBase, socket.socket, FrameType),
    *(threading.Thread, TracebackType, memoryview, asyncio.Future, contextvars.Token),
)
# Libraries whose objects make up the application and do not change by its calls.
_MACHINERY = frozenset(
    (
        *("sqlalchemy", "fastapi", "starlette", "pydantic", "pydantic_core", "annotated_types"),
        *("pydantic_settings", "typing", "typing_extensions", "_thread", "concurrent", "anyio"),
        *("httpx", "httpx2", "uvicorn", "envpool", "sqlite3", "apsw", "weakref", "_weakref", "abc"),
        *("_abc", "re", "logging", "jinja2", "functools", "_struct"),
    )
)
_WRAPPER = type([].__len__)  # a bound method of a built-in type


def kind_of(value: Any) -> Kind:
    """The sort of a value."""
    if isinstance(value, _ATOMS):
        return "atom"
    if isinstance(value, tuple | frozenset):
        return "group"
    if isinstance(value, _FIXED):
        return "fixed"
    if isinstance(value, _UNKEEPABLE):
        return "unkeepable"
    if isinstance(value, threading.local):
        return "object"
    kind = type(value)
    if hasattr(kind, "__mapper__") or isinstance(value, BaseException):
        return "value"
    if isinstance(value, MethodType):
        return "value"
    if isinstance(value, BuiltinFunctionType | _WRAPPER):
        owner = getattr(value, "__self__", None)
        return "fixed" if isinstance(owner, ModuleType | NoneType) else "value"
    if kind.__module__.partition(".")[0] in _MACHINERY:
        return "value" if isinstance(value, CONTAINERS) else "fixed"
    if isinstance(value, CONTAINERS):
        return "container"
    if isinstance(value, random.Random):
        return "random"
    return "object" if hasattr(value, "__dict__") or slots_of(kind) else "value"


def is_moving(value: Any) -> bool:
    """Whether it changes without a content that could be exchanged: it, or one in its group."""
    kind = kind_of(value)
    return kind == "value" or (kind == "group" and any(map(is_moving, value)))


def is_machinery(kind: type) -> bool:
    """Whether a class extends the libraries' machinery."""
    roots = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return not roots.isdisjoint(_MACHINERY - {"abc", "typing"})


def slots_of(kind: type) -> tuple[str, ...]:
    """The attributes of a class's instances that stand in slots, in the order of its bases."""
    names: list[str] = []
    for base in kind.__mro__:
        listed = vars(base).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else tuple(listed):
            if name not in ("__dict__", "__weakref__"):
                is_private = name.startswith("__") and not name.endswith("__")
                names.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return tuple(names)

"""Pickled module state names plain values and the record's own classes, and nothing else."""

import collections
import datetime as dt
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.determinism.module_state import ModuleState
from rehearsal_room.envpool.hosting.determinism.state_pickle import dump_state, load_state
from tests.support.hosted_modules import load_module

NAME = "hosted_by_the_tests_of_state_pickle"
CODE = """
import enum, os, subprocess
from subprocess import Popen

class Item:
    def __init__(self, value=0):
        self.value = value
    def __eq__(self, other):
        return vars(self) == vars(other)
    def read(self):
        return self.value

class Colour(enum.Enum):
    RED = 1

def double(n):
    return 2 * n

cache = {}
def call(n):
    cache[n] = n
"""


@pytest.fixture
def module() -> Iterator[ModuleType]:
    module = load_module(NAME, CODE)
    yield module
    del sys.modules[NAME]


class Calls:
    """Pickled, it is a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._reduced = function, arguments

    def __reduce__(self) -> Any:
        return self._reduced


def named(module: str, name: str) -> bytes:
    """A pickle that is what a name refers to."""
    return (
        b"\x80\x04\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(name)])
        + name.encode()
        + b"\x93."
    )


def test_plain_state_comes_back(module: ModuleType) -> None:
    """Values of builtins, of the standard library and of the record's own classes are read as they
    were written; objects of the module stay the same objects."""
    kept = object()
    count, item = itertools.count(3), module.Item([1])
    values: list[Any] = [
        *(None, True, 2**70, 1.5, "text", b"bytes", (1, {2}), frozenset([3]), range(4), ...),
        *(dt.datetime(2026, 3, 14, tzinfo=dt.UTC), dt.timedelta(1), zoneinfo.ZoneInfo("UTC")),
        *(Decimal("1.50"), re.compile("a+", re.I), Path("/a"), collections.Counter("aab")),
        *(collections.defaultdict(list, a=[1]), collections.deque([1], 2), type(None), int, len),
        *(item, module.Item, module.double, module.Colour.RED, str.upper),
        KeyError("gone").args,
    ]
    index = {id(kept): 0}.get
    loaded = load_state(dump_state([*values, kept, count], module, index), module, [kept])
    assert loaded[: len(values)] == values
    assert loaded[-2] is kept
    assert next(loaded[-1]) == 3
    (method,) = load_state(dump_state([item.read], module, index), module, [kept])
    assert method() == [1]


@pytest.mark.parametrize(
    "state",
    [
        *(pickle.dumps(Calls(os.system, "true")), pickle.dumps(Calls(subprocess.Popen, ["true"]))),
        *(pickle.dumps(Calls(eval, "1")), pickle.dumps(Calls(open, "/etc/passwd"))),
        *(
            pickle.dumps(Calls(getattr, Path, "home")),
            pickle.dumps(Calls(getattr, len, "__self__")),
        ),
        pickle.dumps(Calls(getattr, object, "__subclasses__")),
        pickle.dumps(Calls(getattr, (), "__class__")),
        pickle.dumps(Calls(type, "Made", (), {})),
        *(named("builtins", name) for name in ("exec", "__import__", "globals", "setattr", "vars")),
        *(named("operator", name) for name in ("attrgetter", "methodcaller")),
        *(named("types", name) for name in ("FunctionType", "CodeType", "ModuleType")),
        *(named("importlib", "import_module"), named("posix", "system"), named("sys", "exit")),
        *(named("collections", "abc.sys"), named("collections", "_sys"), named("datetime", "sys")),
        *(
            named(NAME, "os.system"),
            named(NAME, "Popen"),
            named(NAME, "subprocess"),
            named(NAME, ""),
        ),
        *(named(NAME, "Item.__init__.__globals__"), named(NAME, "double.__globals__")),
        *(named(NAME, "cache"), named(NAME, "Item.__class__"), named(NAME, "nothing")),
        *(b"\x80\x04K\x01Q.", b"\x80\x04J\xff\xff\xff\xffQ.", b"\x80\x04\x8c\x01aQ."),
        *(pickle.dumps(7), pickle.dumps([]), pickle.dumps([7]), pickle.dumps(({}, 1))),
        *(b"\x80\x04", b"\xff\xff", b"(", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ],
)
def test_a_forged_state_is_refused(module: ModuleType, state: bytes) -> None:
    """A state that names anything else is refused by one error, and nothing is called."""
    hosted = ModuleState(module)
    start = hosted.capture()
    with pytest.raises(ToolsetError, match="a world's module state cannot be read: "):
        hosted.restore(state)
    hosted.restore(start)
    assert module.cache == {}


@pytest.mark.parametrize("value", [json.dumps, os.system, subprocess.Popen, Path("/").unlink])
def test_what_could_not_be_read_is_not_written(module: ModuleType, value: Any) -> None:
    """A world whose state holds something else is refused when its state is captured, by a
    sentence that names the global and the value."""
    hosted = ModuleState(module)
    module.cache["tool"] = value
    with pytest.raises(ToolsetError, match=r"'cache' cannot be isolated .*state names .* may not"):
        hosted.capture()

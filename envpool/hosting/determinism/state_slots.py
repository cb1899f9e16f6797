"""Places where the state of a module is, each with a content that pickle can take.

An object's place exchanges its content and leaves the object where it is. `put` takes what
`content` gave, here or in another worker.
"""

import os
import random
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any, Protocol

from pydantic import BaseModel

from envpool.hosting.determinism.value_kinds import is_moving, kind_of, slots_of

Content = Any  # whatever pickle can take


class Place(Protocol):
    """One of them; its name is for people, as `global 'cache'`."""

    name: str

    def content(self) -> Content:
        """What is there now."""

    def put(self, content: Content) -> None:
        """Put that there."""


class Names:
    """Names of a module or class that functions assign; None: any of them.

    What is fixed (an engine that is made when it is first needed) stays where it is.
    """

    def __init__(
        self, name: str, owner: ModuleType | type, names: frozenset[str] | None = None
    ) -> None:
        self.name = name
        self._owner = owner
        self._names = names
        self._start = {name: vars(owner)[name] for name in self._watched(vars(owner))}

    def content(self) -> Content:
        now, start = vars(self._owner), self._start
        found: dict[str, Any] = {}
        held: list[str] = []
        for name in self._watched(now):
            value = now[name]
            if name in start and start[name] is value and not is_moving(value):
                continue
            if kind_of(value) == "fixed":
                held.append(name)
            else:
                found[name] = value
        return found, held, [name for name in start if name not in now]

    def put(self, content: Content) -> None:
        found, held, gone = content
        now = vars(self._owner)
        wanted = {n: v for n, v in self._start.items() if n not in gone and n not in held} | found
        for name in self._watched(now):
            if name not in wanted and name not in held:
                self._drop(name)
        for name, value in wanted.items():
            if name not in now or now[name] is not value:
                self._set(name, value)

    def _watched(self, now: Mapping[str, Any]) -> list[str]:
        """The names that are there, in one order in every worker."""
        if self._names is not None:
            return sorted(name for name in self._names if name in now)
        return sorted(name for name in now if not name.startswith(("__", "_sa_", "_abc_")))

    def _set(self, name: str, value: Any) -> None:
        if isinstance(self._owner, type):
            type.__setattr__(self._owner, name, value)  # metaclasses of libraries look on
        else:
            vars(self._owner)[name] = value

    def _drop(self, name: str) -> None:
        if isinstance(self._owner, type):
            type.__delattr__(self._owner, name)
        else:
            del vars(self._owner)[name]


class Cell:
    """A variable of an outer function that an inner one assigns."""

    def __init__(self, name: str, cell: CellType) -> None:
        self.name = name
        self._cell = cell

    def content(self) -> Content:
        try:
            value = self._cell.cell_contents
        except ValueError:  # it is not assigned
            return []
        return None if kind_of(value) == "fixed" else [value]

    def put(self, content: Content) -> None:
        if content == []:
            del self._cell.cell_contents
        elif content is not None:
            self._cell.cell_contents = content[0]


class Defaults:
    """The defaults of a function, where one of them is an iterator or the like."""

    def __init__(self, name: str, function: FunctionType) -> None:
        self.name = name
        self._function = function

    def content(self) -> Content:
        return self._function.__defaults__, self._function.__kwdefaults__

    def put(self, content: Content) -> None:
        self._function.__defaults__, self._function.__kwdefaults__ = content


class Environment:
    """The environment variables of the process, which other code hosted in it has too."""

    name = "os.environ"

    def __init__(self) -> None:
        self._start = dict(os.environ)

    def leave(self) -> None:
        """Put back what was there at first."""
        self.put(self._start)

    def content(self) -> Content:
        return dict(os.environ)

    def put(self, content: Content) -> None:
        for name in [name for name in os.environ if name not in content]:
            del os.environ[name]
        for name, value in content.items():
            if os.environ.get(name) != value:
                os.environ[name] = value


class Chance:
    """A random.Random of the code's own."""

    def __init__(self, name: str, source: random.Random) -> None:
        self.name = name
        self._source = source

    def content(self) -> Content:
        return self._source.getstate()

    def put(self, content: Content) -> None:
        self._source.setstate(content)


class Object:
    """An instance: its attributes, in its dict and in slots."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value
        self._slots = slots_of(type(value))

    def content(self) -> Content:
        value = self._value
        if isinstance(value, BaseModel):
            return BaseModel.__getstate__(value)
        slots = {name: getattr(value, name) for name in self._slots if hasattr(value, name)}
        return dict(vars(value)) if hasattr(value, "__dict__") else None, slots

    def put(self, content: Content) -> None:
        value = self._value
        if isinstance(value, BaseModel):
            BaseModel.__setstate__(value, content)
            return
        attributes, slots = content
        if attributes is not None:
            own = vars(value)
            own.clear()
            own.update(attributes)
        for name in self._slots:
            if name in slots:
                object.__setattr__(value, name, slots[name])  # a frozen dataclass looks on
            elif hasattr(value, name):
                object.__delattr__(value, name)


class Container:
    """A dict, list, set, deque or bytearray, with the attributes that a subclass's may have."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value
        # A subclass's own methods may do more than they say.
        bases = (OrderedDict, dict, list, set, deque, bytearray)
        self._base: Any = next(base for base in bases if isinstance(value, base))
        self._attributes = Object(name, value) if hasattr(value, "__dict__") else None

    def content(self) -> Content:
        plain = dict if issubclass(self._base, dict) else tuple
        if self._base is bytearray:
            plain = bytes  # type: ignore[assignment]
        items = plain(self._value)
        return (items, self._attributes.content()) if self._attributes else items

    def put(self, content: Content) -> None:
        value, base = self._value, self._base
        if self._attributes is not None:
            content, attributes = content
            self._attributes.put(attributes)
        base.clear(value)
        (base.extend if hasattr(base, "extend") else base.update)(value, content)

"""State slots: where a module keeps its state, each with a content that pickle can serialize.

The slot of an object exchanges the object's content; the object itself stays. `put` accepts what
`content` returned, in this worker or in another one.
"""

import os
import random
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any, Protocol

from pydantic import BaseModel

from rehearsal_room.envpool.hosting.determinism.value_kinds import (
    is_opaque,
    slotted_attributes,
    value_kind,
)

Content = Any  # anything that pickle can serialize


class StateSlot(Protocol):
    """One slot; its name is for messages, such as `global 'cache'`."""

    name: str

    def content(self) -> Content:
        """The current content."""

    def put(self, content: Content) -> None:
        """Replace the content."""


class NamesSlot:
    """Names of a module or class that functions assign; None: all of its names.

    A stateless value (an engine that is created when it is first needed) stays in place.
    """

    def __init__(
        self, name: str, owner: ModuleType | type, names: frozenset[str] | None = None
    ) -> None:
        self.name = name
        self._owner = owner
        self._names = names
        self._start = {name: vars(owner)[name] for name in self._existing(vars(owner))}

    def content(self) -> Content:
        now, start = vars(self._owner), self._start
        assigned: dict[str, Any] = {}
        stateless: list[str] = []
        for name in self._existing(now):
            value = now[name]
            if name in start and start[name] is value and not is_opaque(value):
                continue
            if value_kind(value) == "stateless":
                stateless.append(name)
            else:
                assigned[name] = value
        return assigned, stateless, [name for name in start if name not in now]

    def put(self, content: Content) -> None:
        assigned, stateless, deleted = content
        now = vars(self._owner)
        absent = {*deleted, *stateless}
        values = {n: v for n, v in self._start.items() if n not in absent} | assigned
        for name in self._existing(now):
            if name not in values and name not in stateless:
                self._drop(name)
        for name, value in values.items():
            if name not in now or now[name] is not value:
                self._set(name, value)

    def _existing(self, now: Mapping[str, Any]) -> list[str]:
        """The names that exist, in the same order in every worker."""
        if self._names is not None:
            return sorted(name for name in self._names if name in now)
        return sorted(name for name in now if not name.startswith(("__", "_sa_", "_abc_")))

    def _set(self, name: str, value: Any) -> None:
        if isinstance(self._owner, type):
            type.__setattr__(self._owner, name, value)  # without the metaclasses of libraries
        else:
            vars(self._owner)[name] = value

    def _drop(self, name: str) -> None:
        if isinstance(self._owner, type):
            type.__delattr__(self._owner, name)
        else:
            del vars(self._owner)[name]


class CellSlot:
    """A variable of an outer function that an inner function assigns."""

    def __init__(self, name: str, cell: CellType) -> None:
        self.name = name
        self._cell = cell

    def content(self) -> Content:
        try:
            value = self._cell.cell_contents
        except ValueError:  # the variable is not assigned
            return []
        return None if value_kind(value) == "stateless" else [value]

    def put(self, content: Content) -> None:
        if content == []:
            del self._cell.cell_contents
        elif content is not None:
            self._cell.cell_contents = content[0]


class DefaultsSlot:
    """The defaults of a function, when one of them is opaque, for example an iterator."""

    def __init__(self, name: str, function: FunctionType) -> None:
        self.name = name
        self._function = function

    def content(self) -> Content:
        return self._function.__defaults__, self._function.__kwdefaults__

    def put(self, content: Content) -> None:
        self._function.__defaults__, self._function.__kwdefaults__ = content


class EnvironmentSlot:
    """The environment variables of the process, which it shares with other hosted code."""

    name = "os.environ"

    def __init__(self) -> None:
        self._start = dict(os.environ)

    def leave(self) -> None:
        """Restore the variables of the beginning."""
        self.put(self._start)

    def content(self) -> Content:
        return dict(os.environ)

    def put(self, content: Content) -> None:
        for name in [name for name in os.environ if name not in content]:
            del os.environ[name]
        for name, value in content.items():
            if os.environ.get(name) != value:
                os.environ[name] = value


class RandomSlot:
    """A random.Random that the code has created."""

    def __init__(self, name: str, source: random.Random) -> None:
        self.name = name
        self._source = source

    def content(self) -> Content:
        return self._source.getstate()

    def put(self, content: Content) -> None:
        self._source.setstate(content)


class ObjectSlot:
    """An instance: its attributes in `__dict__` and in `__slots__`."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value
        self._slotted = slotted_attributes(type(value))

    def content(self) -> Content:
        value = self._value
        if isinstance(value, BaseModel):
            return BaseModel.__getstate__(value)
        slotted = {name: getattr(value, name) for name in self._slotted if hasattr(value, name)}
        return dict(vars(value)) if hasattr(value, "__dict__") else None, slotted

    def put(self, content: Content) -> None:
        value = self._value
        if isinstance(value, BaseModel):
            BaseModel.__setstate__(value, content)
            return
        attributes, slotted = content
        if attributes is not None:
            own = vars(value)
            own.clear()
            own.update(attributes)
        for name in self._slotted:
            if name in slotted:
                object.__setattr__(value, name, slotted[name])  # also in a frozen dataclass
            elif hasattr(value, name):
                object.__delattr__(value, name)


class ContainerSlot:
    """A dict, list, set, deque or bytearray, with the attributes of a subclass's instance."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value
        # The methods of a subclass may do more than those of the base.
        bases = (OrderedDict, dict, list, set, deque, bytearray)
        self._base: Any = next(base for base in bases if isinstance(value, base))
        self._attributes = ObjectSlot(name, value) if hasattr(value, "__dict__") else None

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

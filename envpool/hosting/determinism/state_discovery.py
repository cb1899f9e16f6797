"""Finding the places of a loaded module's state, in one order in every worker.

The survey goes from the module's names through functions (their defaults, closures, attributes),
classes, the application's routes and middleware to all that functions can reach and may change.
What only the garbage collector still knows of (an instance that a library holds) comes last.
"""

import functools
import gc
import linecache
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.params import Depends
from pydantic import BaseModel
from sqlalchemy.orm import Session, scoped_session

from envpool.core.errors import ToolsetError
from envpool.hosting.determinism.lru_caches import Cached
from envpool.hosting.determinism.mutation_analysis import NOTHING, OPENED, TOUCHED, uses_of
from envpool.hosting.determinism.state_slots import (
    Cell,
    Chance,
    Container,
    Defaults,
    Environment,
    Names,
    Object,
    Place,
)
from envpool.hosting.determinism.value_kinds import (
    LOCKS,
    is_machinery,
    is_moving,
    kind_of,
    slots_of,
)

_LRU = type(functools.lru_cache(len))


class Found(msgspec.Struct):
    """What a survey found."""

    places: list[Place] = []
    fixed: list[Any] = []  # objects that contents may refer to, those of the places among them
    resets: list[Callable[[], Any]] = []  # what is to be done after each call


def survey(module: ModuleType) -> Found:
    """The places of a module's state. Raises ToolsetError naming what cannot be kept apart."""
    surveyor = _Surveyor(module)
    surveyor.run()
    return surveyor.found


class _Surveyor:
    def __init__(self, module: ModuleType) -> None:
        self.found = Found()
        self._module = module
        self._file = str(module.__file__)
        self._uses = uses_of("".join(linecache.getlines(self._file)))
        self._visited: set[int] = set()  # ids of what is in the places, or fixed
        self._reached: set[int] = set()  # ids of the code's structure
        self._weighed: set[int] = set()  # ids of the objects that are being looked into
        self._classes: list[type] = []  # the code's own

    def run(self) -> None:
        uses, names = self._uses, dict(vars(self._module))
        own = {name: value for name, value in names.items() if not name.startswith("__")}
        moving = {name for name, value in own.items() if self._is_used(name) and is_moving(value)}
        if uses.uses_namespace:
            self._add(Names("a global", self._module))
        elif listed := uses.rebound | moving:
            place = f"global {', '.join(map(repr, sorted(listed)))}"
            self._add(Names(place, self._module, frozenset(listed)))
        for name, value in own.items():
            self._after(value)
            self._weigh(f"global {name!r}", value, self._how(name))
        for value in own.values():
            self._reach(value)
        self._leftovers()
        if uses.sets_environment:
            self._add(Environment())

    def _how(self, name: str) -> int:
        uses = self._uses
        return TOUCHED if uses.uses_namespace else uses.names.get(name, NOTHING)

    def _how_attribute(self, name: str) -> int:
        uses = self._uses
        return TOUCHED if uses.uses_namespace else uses.attributes.get(name, NOTHING)

    def _is_used(self, name: str) -> bool:
        return self._how(name) != NOTHING

    # Values: what is in the places ---------------------------------------------------------------

    def _weigh(self, place: str, value: Any, how: int) -> None:
        """Visit a value if functions, doing this with it, can change it."""
        kind = kind_of(value)
        if kind in ("container", "group"):
            if how == OPENED and self._is_flat(value):
                how = NOTHING
        elif kind in ("atom", "fixed"):
            how = NOTHING
        if how != NOTHING:
            self._visit(place, value)

    def _is_flat(self, value: Any) -> bool:
        """Whether nothing that a container or group holds can change.

        Example: {"a": (1, "b")} -> True; {"a": [1]} -> False
        """
        return all(map(self._is_still, _inside(value, kind_of(value))))

    def _is_still(self, value: Any) -> bool:
        kind = kind_of(value)
        if kind == "group":
            return self._is_flat(value)
        if kind != "object":
            return kind in ("atom", "fixed")
        return not self._can_change(value) and all(
            self._is_still(inner) or (kind_of(inner) == "container" and self._is_left(name, inner))
            for name, inner in _attributes(value).items()
        )

    def _is_left(self, name: str, value: Any) -> bool:
        """Whether functions leave the container under an attribute as it is."""
        how = self._how_attribute(name)
        return how == NOTHING or (how == OPENED and self._is_flat(value))

    def _can_change(self, value: Any) -> bool:
        """Whether an object's own attributes can get other values."""
        uses, kind = self._uses, type(value)
        if uses.uses_namespace or uses.sets_any_attribute or not self._is_plain(kind):
            return True
        if any(base.__name__ in uses.changers for base in kind.__mro__):
            return True
        attributes = _attributes(value)
        return not uses.changed.isdisjoint(attributes) or any(map(is_moving, attributes.values()))

    def _is_plain(self, kind: type) -> bool:
        """Whether all that its instances do stands in the module's text."""
        own = self._module.__name__
        return all(base.__module__ in (own, "abc", "typing") for base in kind.__mro__[:-1])

    def _visit(self, place: str, value: Any) -> None:
        """Find the places that a value has and holds."""
        kind = kind_of(value)
        if kind == "atom" or id(value) in self._visited:
            return
        if kind == "unkeepable":
            raise ToolsetError(
                f"{self._file}: {place} holds a {type(value).__name__}, "
                "which cannot be kept apart between worlds"
            )
        if kind not in ("group", "value"):
            self._visited.add(id(value))
            self.found.fixed.append(value)
        if kind == "fixed":
            self._after(value)
            self._reach(value)
        elif kind == "random":
            self._add(Chance(place, value))
        elif kind == "container":
            self._add(Container(place, value))
        elif kind == "object" and not self._can_change(value):
            for name, inner in _attributes(value).items():
                self._weigh(f"{place}: {name!r}", inner, self._how_attribute(name))
                self._reach(inner)
            return
        elif kind == "object":
            self._add(Object(place, value))
        for inner in _inside(value, kind):
            self._visit(place, inner)

    def _add(self, place: Place) -> None:
        self.found.places.append(place)

    def _after(self, value: Any) -> None:
        """Note what has to be done with it after each call."""
        reset: Callable[[], Any]
        if isinstance(value, LOCKS):
            reset = functools.partial(_open, value)
        elif isinstance(value, Session):
            reset = functools.partial(Session.close, value)
        elif isinstance(value, scoped_session):
            reset = value.remove
        else:
            return
        if id(value) not in self._reached:
            self._reached.add(id(value))
            self.found.resets.append(reset)

    # Structure: where functions are, and what they hold ------------------------------------------

    def _reach(self, value: Any) -> None:
        """Survey a piece of the code's structure: a function, a class, the application, …"""
        if id(value) in self._reached or isinstance(value, (*LOCKS, Session)):
            return
        if isinstance(value, FunctionType):
            if value.__globals__ is vars(self._module):
                self._reached.add(id(value))
                self._function(value)
        elif isinstance(value, type):
            if value.__module__ == self._module.__name__:
                self._reached.add(id(value))
                self._classes.append(value)
                self._class(value)
        elif isinstance(value, FastAPI):
            self._reached.add(id(value))
            self._application(value)
        elif isinstance(value, Cached):
            self._reached.add(id(value))
            self._reach(value.function)
            place = f"the cache of {_title(value.function)}"
            self._visit(place, value.entries)
            self._visit(place, value.counts)
        elif isinstance(value, _LRU):  # made outside of `frozen`; it hides what it keeps
            self._reached.add(id(value))
            if self._is_ours(value.__wrapped__):
                self.found.resets.append(value.cache_clear)
            self._reach(value.__wrapped__)
        elif self._is_own_instance(value):
            self._visit(f"an instance of {type(value).__name__}", value)
        else:
            for inner in _parts(value):
                self._reach(inner)

    def _is_own_instance(self, value: Any) -> bool:
        return (
            type(value).__module__ == self._module.__name__
            and kind_of(value) == "object"
            and not isinstance(value, BaseModel)
        )

    def _function(self, function: FunctionType) -> None:
        code, title = function.__code__, function.__qualname__
        positional = code.co_varnames[: code.co_argcount]
        given = function.__defaults__ or ()
        defaults = dict(zip(positional[len(positional) - len(given) :], given, strict=True))
        defaults |= function.__kwdefaults__ or {}
        if any(self._is_used(name) and is_moving(value) for name, value in defaults.items()):
            self._add(Defaults(f"the defaults of {title}", function))
        for name, value in defaults.items():
            self._weigh(f"default {name!r} of {title}", value, self._how(name))
            self._reach(value)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._variable(f"variable {name!r} of {title}", name, cell)
        if code.co_name in self._uses.owners:
            self._visit(f"an attribute of {title}", vars(function))
        for hint in function.__annotations__.values():
            for note in getattr(hint, "__metadata__", ()):
                self._reach(note)
        self._reach(getattr(function, "__wrapped__", None))

    def _variable(self, place: str, name: str, cell: Any) -> None:
        """A variable of an outer function."""
        if id(cell) in self._reached:
            return
        self._reached.add(id(cell))
        try:
            value = cell.cell_contents
        except ValueError:  # it is not assigned
            value = None
        if name in self._uses.nonlocals or (self._is_used(name) and is_moving(value)):
            self._add(Cell(place, cell))
        self._after(value)
        self._weigh(place, value, self._how(name))
        self._reach(value)

    def _class(self, kind: type) -> None:
        uses = self._uses
        attributes = {
            name: value
            for name, value in vars(kind).items()
            if not name.startswith(("__", "_sa_", "_abc_"))
        }
        how = {name: self._how_attribute(name) for name in attributes}
        moving = {name for name, value in attributes.items() if how[name] and is_moving(value)}
        if uses.sets_class_attributes or uses.uses_namespace or kind.__name__ in uses.owners:
            self._add(Names(f"an attribute of class {kind.__name__}", kind))
        elif moving:
            self._add(Names(f"an attribute of class {kind.__name__}", kind, frozenset(moving)))
        for name, value in attributes.items():
            self._after(value)
            self._weigh(f"{kind.__name__}.{name}", value, how[name])
        for value in vars(kind).values():
            self._reach(value)

    def _application(self, app: FastAPI) -> None:
        if self._uses.uses_state or self._uses.uses_namespace:
            self._visit("app.state", app.state._state)
        for route in app.routes:
            self._reach(getattr(route, "endpoint", None))
            self._reach(getattr(route, "app", None))
            self._dependency(getattr(route, "dependant", None))
        for handler in app.exception_handlers.values():
            self._reach(handler)
        if app.middleware_stack is None:
            app.middleware_stack = app.build_middleware_stack()  # as the first request would
        layer: Any = app.middleware_stack
        while layer is not None:
            if layer is not app:
                self._reach(layer)
                self._reach(getattr(layer, "dispatch_func", None))
            layer = getattr(layer, "app", None)

    def _dependency(self, dependant: Any) -> None:
        if dependant is not None:
            self._reach(dependant.call)
            for inner in dependant.dependencies:
                self._dependency(inner)

    # Leftovers -----------------------------------------------------------------------------------

    def _leftovers(self) -> None:
        """Survey what no path led to; the order must be the same in every worker."""
        groups: dict[tuple[str, int], list[Any]] = {}
        for value in gc.get_referrers(vars(self._module), Cached, FastAPI, *self._classes):
            if (key := self._key_of(value)) is not None:
                groups.setdefault(key, []).append(value)
        for key in sorted(groups):
            num_places = len(self.found.places)
            for value in groups[key]:
                self._reach(value)
            if len(groups[key]) > 1 and len(self.found.places) > num_places:
                place = self.found.places[-1].name
                raise ToolsetError(
                    f"{self._file}: line {key[1]}: {place} cannot be kept apart between worlds: "
                    "there are several, and no name leads to them"
                )

    def _key_of(self, value: Any) -> tuple[str, int] | None:
        kind = type(value)
        if kind is FunctionType:
            if value.__globals__ is vars(self._module) and id(value) not in self._reached:
                return value.__qualname__, value.__code__.co_firstlineno
        elif kind is Cached:
            if id(value) not in self._reached and self._is_ours(value.function):
                return f"the cache of {_title(value.function)}", 0
        elif kind is FastAPI:
            if id(value) not in self._reached and any(
                self._is_ours(getattr(route, "endpoint", None)) for route in value.routes
            ):
                return "FastAPI", 0
        elif kind in self._classes and not is_machinery(kind) and self._is_own_instance(value):
            return None if id(value) in self._visited else (kind.__qualname__, 0)
        return None

    def _is_ours(self, function: Any) -> bool:
        return getattr(function, "__globals__", None) is vars(self._module)


def _inside(value: Any, kind: str) -> Iterable[Any]:
    """What a value holds."""
    if kind == "group" or (kind == "container" and not isinstance(value, dict | bytearray)):
        yield from value
    elif kind == "container" and isinstance(value, dict):
        for key, inner in value.items():
            yield from (key, inner)
    if kind == "container":
        yield from getattr(value, "__dict__", {}).values()
    if kind == "object":
        yield from _attributes(value).values()
    if kind == "value":
        yield getattr(value, "__self__", None)


def _attributes(value: Any) -> dict[str, Any]:
    """An object's own attributes, those in slots too."""
    slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    private = getattr(value, "__pydantic_private__", None) or {}
    return getattr(value, "__dict__", {}) | private | slots


def _parts(value: Any) -> Iterable[Any]:
    """The pieces of structure that a piece is made of."""
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__func__, value.__self__)
    if isinstance(value, staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return (value.fget, value.fset, value.fdel)
    if isinstance(value, functools.cached_property):
        return (value.func,)
    return (value.dependency,) if isinstance(value, Depends) else ()


def _title(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _open(lock: Any) -> None:
    """Release a lock that the code has left locked: another world must not wait for it."""
    if hasattr(lock, "locked"):
        if lock.locked():
            lock.release()
    else:
        while lock._is_owned():
            lock.release()

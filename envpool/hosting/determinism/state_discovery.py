"""Find the state slots of a loaded module, in the same order in every worker.

The search goes from the module's names through functions (their defaults, closures, attributes),
classes, the application's routes and middleware to everything that functions can reach and may
change. Objects that only the garbage collector knows (an instance that a library holds) come last.
"""

import functools
import gc
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.params import Depends
from pydantic import BaseModel
from sqlalchemy.orm import Session, scoped_session

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.hosting.determinism.lru_caches import Cached
from rehearsal_room.envpool.hosting.determinism.mutability import Mutability
from rehearsal_room.envpool.hosting.determinism.mutation_analysis import Uses
from rehearsal_room.envpool.hosting.determinism.state_slots import (
    CellSlot,
    ContainerSlot,
    DefaultsSlot,
    EnvironmentSlot,
    NamesSlot,
    ObjectSlot,
    RandomSlot,
    StateSlot,
)
from rehearsal_room.envpool.hosting.determinism.value_kinds import (
    LOCKS,
    attributes_of,
    contents_of,
    extends_library_internals,
    is_opaque,
    value_kind,
)

_LRU = type(functools.lru_cache(len))


class Discovery(msgspec.Struct):
    """The result of a search for state."""

    slots: list[StateSlot] = []
    persistent: list[Any] = []  # objects to which pickled contents may refer, in slots or not
    resets: list[Callable[[], Any]] = []  # to be called after each call


def discover_state(module: ModuleType, uses: Uses) -> Discovery:
    """Find the slots of a module's state; `uses` is what its functions do to names. Raises
    ToolsetError for state that cannot be isolated."""
    discoverer = _Discoverer(module, uses)
    discoverer.run()
    return discoverer.found


class _Discoverer:
    def __init__(self, module: ModuleType, uses: Uses) -> None:
        self.found = Discovery()
        self._module = module
        self._file = str(module.__file__)
        self._uses = uses
        self._mutability = Mutability(self._uses, module.__name__)
        self._visited: set[int] = set()  # ids of the values in slots, and of stateless values
        self._explored: set[int] = set()  # ids of functions, classes and other code
        self._classes: list[type] = []  # the module's own classes

    def run(self) -> None:
        uses, names = self._uses, dict(vars(self._module))
        own = {name: value for name, value in names.items() if not name.startswith("__")}
        if uses.uses_namespace:
            self._add(NamesSlot("a global", self._module))
        elif listed := uses.rebound | self._mutability.opaque_names(own):
            title = f"global {', '.join(map(repr, sorted(listed)))}"
            self._add(NamesSlot(title, self._module, frozenset(listed)))
        for name, value in own.items():
            self._note_reset(value)
            self._visit_if_changed(f"global {name!r}", value, self._mutability.effect_on(name))
        for value in own.values():
            self._explore(value)
        self._explore_leftovers()
        if uses.sets_environment:
            self._add(EnvironmentSlot())

    # Values: the contents of slots ---------------------------------------------------------------

    def _visit_if_changed(self, title: str, value: Any, effect: int) -> None:
        """Visit a value if functions with this effect on it can change it."""
        if self._mutability.can_be_changed(value, effect):
            self._visit(title, value)

    def _visit(self, title: str, value: Any) -> None:
        """Find the slots of a value and of the values in it."""
        kind = value_kind(value)
        if kind == "atom" or id(value) in self._visited:
            return
        if kind == "process_bound":
            raise ToolsetError(
                f"{self._file}: {title} holds a {type(value).__name__}, "
                "which cannot be isolated between worlds"
            )
        if kind not in ("group", "opaque"):
            self._visited.add(id(value))
            self.found.persistent.append(value)
        if kind == "stateless":
            self._note_reset(value)
            self._explore(value)
        elif kind == "random":
            self._add(RandomSlot(title, value))
        elif kind == "container":
            self._add(ContainerSlot(title, value))
        elif kind == "object" and not self._mutability.can_change(value):
            for name, inner in attributes_of(value).items():
                self._visit_if_changed(
                    f"{title}: {name!r}", inner, self._mutability.effect_on_attribute(name)
                )
                self._explore(inner)
            return
        elif kind == "object":
            self._add(ObjectSlot(title, value))
        for inner in contents_of(value, kind):
            self._visit(title, inner)

    def _add(self, slot: StateSlot) -> None:
        self.found.slots.append(slot)

    def _note_reset(self, value: Any) -> None:
        """Note how to reset a value after each call, when that is necessary."""
        reset: Callable[[], Any]
        if isinstance(value, LOCKS):
            reset = functools.partial(_release, value)
        elif isinstance(value, Session):
            reset = functools.partial(Session.close, value)
        elif isinstance(value, scoped_session):
            reset = value.remove
        else:
            return
        if id(value) not in self._explored:
            self._explored.add(id(value))
            self.found.resets.append(reset)

    # Code: functions, and the objects that refer to them ------------------------------------------

    def _explore(self, value: Any) -> None:
        """Explore a function, a class, the application or an object that leads to functions."""
        if id(value) in self._explored or isinstance(value, (*LOCKS, Session)):
            return
        if isinstance(value, FunctionType):
            if value.__globals__ is vars(self._module):
                self._explored.add(id(value))
                self._explore_function(value)
        elif isinstance(value, type):
            if value.__module__ == self._module.__name__:
                self._explored.add(id(value))
                self._classes.append(value)
                self._explore_class(value)
        elif isinstance(value, FastAPI):
            self._explored.add(id(value))
            self._explore_application(value)
        elif isinstance(value, Cached):
            self._explored.add(id(value))
            self._explore(value.function)
            title = f"the cache of {_qualified_name(value.function)}"
            self._visit(title, value.entries)
            self._visit(title, value.counts)
        elif isinstance(value, _LRU):  # made outside of `frozen_clock`; its entries cannot be read
            self._explored.add(id(value))
            if self._belongs_to_module(value.__wrapped__):
                self.found.resets.append(value.cache_clear)
            self._explore(value.__wrapped__)
        elif self._is_own_instance(value):
            self._visit(f"an instance of {type(value).__name__}", value)
        else:
            for inner in _components(value):
                self._explore(inner)

    def _is_own_instance(self, value: Any) -> bool:
        return (
            type(value).__module__ == self._module.__name__
            and value_kind(value) == "object"
            and not isinstance(value, BaseModel)
        )

    def _explore_function(self, function: FunctionType) -> None:
        code, title = function.__code__, function.__qualname__
        positional = code.co_varnames[: code.co_argcount]
        values = function.__defaults__ or ()
        defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
        defaults |= function.__kwdefaults__ or {}
        if self._mutability.opaque_names(defaults):
            self._add(DefaultsSlot(f"the defaults of {title}", function))
        for name, value in defaults.items():
            self._visit_if_changed(
                f"default {name!r} of {title}", value, self._mutability.effect_on(name)
            )
            self._explore(value)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._explore_variable(f"variable {name!r} of {title}", name, cell)
        if code.co_name in self._uses.owners:
            self._visit(f"an attribute of {title}", vars(function))
        for hint in function.__annotations__.values():
            for note in getattr(hint, "__metadata__", ()):
                self._explore(note)
        self._explore(getattr(function, "__wrapped__", None))

    def _explore_variable(self, title: str, name: str, cell: Any) -> None:
        """Explore a variable of an outer function."""
        if id(cell) in self._explored:
            return
        self._explored.add(id(cell))
        try:
            value = cell.cell_contents
        except ValueError:  # the variable is not assigned
            value = None
        if name in self._uses.nonlocals or self._mutability.opaque_names({name: value}):
            self._add(CellSlot(title, cell))
        self._note_reset(value)
        self._visit_if_changed(title, value, self._mutability.effect_on(name))
        self._explore(value)

    def _explore_class(self, kind: type) -> None:
        uses = self._uses
        attributes = {
            name: value
            for name, value in vars(kind).items()
            if not name.startswith(("__", "_sa_", "_abc_"))
        }
        effect = {name: self._mutability.effect_on_attribute(name) for name in attributes}
        opaque = {name for name, value in attributes.items() if effect[name] and is_opaque(value)}
        if uses.sets_class_attributes or uses.uses_namespace or kind.__name__ in uses.owners:
            self._add(NamesSlot(f"an attribute of class {kind.__name__}", kind))
        elif opaque:
            self._add(NamesSlot(f"an attribute of class {kind.__name__}", kind, frozenset(opaque)))
        for name, value in attributes.items():
            self._note_reset(value)
            self._visit_if_changed(f"{kind.__name__}.{name}", value, effect[name])
        for value in vars(kind).values():
            self._explore(value)

    def _explore_application(self, app: FastAPI) -> None:
        if self._uses.uses_state or self._uses.uses_namespace:
            self._visit("app.state", app.state._state)
        for route in app.routes:
            self._explore(getattr(route, "endpoint", None))
            self._explore(getattr(route, "app", None))
            self._explore_dependency(getattr(route, "dependant", None))
        for handler in app.exception_handlers.values():
            self._explore(handler)
        if app.middleware_stack is None:
            app.middleware_stack = app.build_middleware_stack()  # as the first request would
        layer: Any = app.middleware_stack
        while layer is not None:
            if layer is not app:
                self._explore(layer)
                self._explore(getattr(layer, "dispatch_func", None))
            layer = getattr(layer, "app", None)

    def _explore_dependency(self, dependant: Any) -> None:
        if dependant is not None:
            self._explore(dependant.call)
            for inner in dependant.dependencies:
                self._explore_dependency(inner)

    # Leftovers -----------------------------------------------------------------------------------

    def _explore_leftovers(self) -> None:
        """Explore objects to which no path led, in an order that is the same in every worker."""
        groups: dict[tuple[str, int], list[Any]] = {}
        for value in gc.get_referrers(vars(self._module), Cached, FastAPI, *self._classes):
            if (key := self._key_of(value)) is not None:
                groups.setdefault(key, []).append(value)
        for key in sorted(groups):
            num_slots = len(self.found.slots)
            for value in groups[key]:
                self._explore(value)
            if len(groups[key]) > 1 and len(self.found.slots) > num_slots:
                title = self.found.slots[-1].name
                raise ToolsetError(
                    f"{self._file}: line {key[1]}: {title} cannot be isolated between worlds: "
                    "there are several of them, and no name refers to them"
                )

    def _key_of(self, value: Any) -> tuple[str, int] | None:
        kind = type(value)
        if kind is FunctionType:
            if value.__globals__ is vars(self._module) and id(value) not in self._explored:
                return value.__qualname__, value.__code__.co_firstlineno
        elif kind is Cached:
            if id(value) not in self._explored and self._belongs_to_module(value.function):
                return f"the cache of {_qualified_name(value.function)}", 0
        elif kind is FastAPI:
            if id(value) not in self._explored and any(
                self._belongs_to_module(getattr(route, "endpoint", None)) for route in value.routes
            ):
                return "FastAPI", 0
        elif (
            kind in self._classes
            and not extends_library_internals(kind)
            and self._is_own_instance(value)
        ):
            return None if id(value) in self._visited else (kind.__qualname__, 0)
        return None

    def _belongs_to_module(self, function: Any) -> bool:
        return getattr(function, "__globals__", None) is vars(self._module)


def _components(value: Any) -> Iterable[Any]:
    """The functions and other objects of which a wrapper is made."""
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


def _qualified_name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _release(lock: Any) -> None:
    """Release a lock that the code has left locked: another world must not wait for it."""
    if hasattr(lock, "locked"):
        if lock.locked():
            lock.release()
    else:
        while lock._is_owned():
            lock.release()


# The only function that may list all objects of a worker (envpool.workers.audit_hook).
LISTS_OBJECTS = _Discoverer._explore_leftovers.__code__

"""Pickled module state that may name only plain values and the record's own classes.

A pickle is a program: it may call whatever it can name. Here it can name

- plain builtins, and the value types of the standard library that are listed below;
- classes and functions that the record's own module defines, under that module's name, not what the
  module imports;
- the few classes by which SQLAlchemy and Pydantic restore a mapped row, a list of rows, a URL;
- methods of plain values and of the record's own objects, and members of enums.

The same rule applies when state is pickled, so what a world has stored can always be read again.
"""

import builtins
import enum
import importlib
import io
import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
)
from typing import Any

_PROTOCOL = 5
_BUILTINS = (
    *("bool", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict"),
    *("set", "frozenset", "range", "slice", "object", "iter", "reversed", "enumerate", "zip"),
    *("map", "filter", "len", "sum", "min", "max", "abs", "round", "sorted", "repr", "any", "all"),
    *("NotImplemented", "Ellipsis"),
    *(name for name, value in vars(builtins).items()
      if isinstance(value, type) and issubclass(value, BaseException)),
)  # fmt: skip
_PLAIN: dict[str, tuple[str, ...]] = {
    "builtins": _BUILTINS,
    "_thread": ("allocate_lock", "RLock"),  # made by `_Pickler`: a lock is never held between calls
    "array": ("array", "_array_reconstructor"),
    "collections": (
        *("OrderedDict", "defaultdict", "deque", "Counter", "ChainMap", "UserDict", "UserList"),
        "UserString",
    ),
    "datetime": ("date", "time", "datetime", "timedelta", "timezone"),
    "decimal": ("Decimal", "Context"),
    "fractions": ("Fraction",),
    "functools": ("partial",),
    "http": ("HTTPStatus", "HTTPMethod"),
    "ipaddress": (
        *("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface"),
        "IPv6Interface",
    ),
    "itertools": (
        *("count", "cycle", "repeat", "chain", "islice", "accumulate", "compress", "product"),
        *("permutations", "combinations", "combinations_with_replacement", "zip_longest"),
        *("pairwise", "starmap", "takewhile", "dropwhile", "filterfalse", "groupby"),
    ),
    "operator": ("itemgetter",),
    "pathlib": ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"),
    "queue": ("Queue", "LifoQueue", "PriorityQueue", "Empty", "Full"),
    "random": ("Random", "SystemRandom"),
    "re": ("_compile", "RegexFlag"),
    "string": ("Template",),
    "threading": ("Condition", "Event"),
    "time": ("struct_time",),
    "types": ("SimpleNamespace",),
    "uuid": ("UUID", "SafeUUID"),
    "zoneinfo": ("ZoneInfo",),
    "fastapi.exceptions": ("HTTPException",),
    "starlette.exceptions": ("HTTPException",),
    "pydantic.types": ("SecretStr", "SecretBytes"),
    "pydantic.networks": ("AnyUrl", "AnyHttpUrl", "HttpUrl"),
    "pydantic_core._pydantic_core": ("PydanticUndefined", "Url", "MultiHostUrl"),
    "sqlalchemy.cyextension.immutabledict": ("immutabledict",),
    "sqlalchemy.util._immutabledict_cy": ("immutabledict",),
    "sqlalchemy.ext.mutable": ("MutableDict", "MutableList", "MutableSet"),
    "sqlalchemy.orm.base": ("LoaderCallableStatus", "PassiveFlag"),
    "sqlalchemy.orm.collections": ("InstrumentedList", "InstrumentedSet", "InstrumentedDict"),
    "sqlalchemy.orm.instrumentation": ("_SerializeManager",),
    "sqlalchemy.orm.state": ("InstanceState",),
}
_PLAIN_NAMES = {module: frozenset(names) for module, names in _PLAIN.items()}
_SINGLETONS = (type(None), type(...), type(NotImplemented))
_SPECIAL_METHODS = ("__next__", "__getitem__", "__setitem__", "__contains__", "__call__")
_METHODS = (MethodType, BuiltinMethodType, MethodWrapperType)
_DESCRIPTORS = (MethodDescriptorType, MemberDescriptorType)  # str.upper; a name in __slots__
# Modules whose classes have methods that only compute.
_METHOD_OWNERS = frozenset(
    ("builtins", "collections", "itertools", "random", "_random", "_thread", "datetime", "zoneinfo")
)


def dump_state(
    contents: Iterable[Any], module: ModuleType, index_of: Callable[[int], int | None]
) -> bytes:
    """The contents of the slots of a module's state. An object for whose id `index_of` returns an
    index is written as this index.

    Raises pickle.PickleError, and whatever the objects' own code raises.
    """
    stream = io.BytesIO()
    _Pickler(stream, module, index_of).dump(list(contents))
    return stream.getvalue()


def load_state(state: bytes, module: ModuleType, persistent: Sequence[Any]) -> Any:
    """The contents of pickled state, with the objects of `persistent` at their indices.

    Raises pickle.PickleError for a name that state may not contain, and whatever the objects'
    own code raises.
    """
    return _Unpickler(io.BytesIO(state), module, persistent).load()


class _Pickler(pickle.Pickler):
    def __init__(
        self, stream: io.BytesIO, module: ModuleType, index_of: Callable[[int], int | None]
    ) -> None:
        super().__init__(stream, protocol=_PROTOCOL)
        self._module = module
        self._index_of = index_of

    def persistent_id(self, value: Any) -> int | None:
        return self._index_of(id(value))

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__ == "_thread" and kind.__name__ in ("lock", "RLock"):
            return (threading.Lock if kind.__name__ == "lock" else kind), ()  # nothing waits for it
        if isinstance(value, _METHODS) and not isinstance(value.__self__, ModuleType | NoneType):
            if not _is_plain_method(value.__self__, value.__name__, self._module):
                raise _refusal(type(value.__self__).__module__, value.__qualname__)
        elif isinstance(value, _DESCRIPTORS):
            if not _is_plain_method(value.__objclass__, value.__name__, self._module):
                raise _refusal(value.__objclass__.__module__, value.__qualname__)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType):
            _check_named(value, self._module)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, module: ModuleType, persistent: Sequence[Any]) -> None:
        super().__init__(stream)
        self._module = module
        self._persistent = persistent

    def persistent_load(self, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < len(self._persistent):
            raise pickle.PickleError(f"there is no object {index!r} of the module")
        return self._persistent[index]

    def find_class(self, module: str, name: str) -> Any:
        if module == self._module.__name__:
            return _own_value(self._module, name)
        if (module, name) == ("builtins", "getattr"):
            return self._member
        if (module, name) == ("builtins", "type"):
            return _type_of
        if name in _PLAIN_NAMES.get(module, ()):
            return getattr(importlib.import_module(module), name)
        raise _refusal(module, name)

    def _member(self, owner: Any, name: str) -> Any:
        """A bound method, or a member of an enum: what `getattr` is pickled for."""
        if isinstance(owner, enum.EnumMeta) and name in owner.__members__:
            return owner[name]
        if _is_plain_method(owner, name, self._module):
            value = getattr(owner, name)
            bound_to = value.__objclass__ if isinstance(value, _DESCRIPTORS) else None
            if owner is (getattr(value, "__self__", None) if bound_to is None else bound_to):
                return value
        raise _refusal(type(owner).__module__, f"{type(owner).__qualname__}.{name}")


def _is_plain_method(owner: Any, name: str, module: ModuleType) -> bool:
    """Whether state may contain this bound method."""
    kind = owner if isinstance(owner, type) else type(owner)
    if name.startswith("__") and name not in _SPECIAL_METHODS:
        return False
    return kind.__module__ in _METHOD_OWNERS or kind.__module__ == module.__name__


def _type_of(value: Any) -> type:
    """`type` with one argument: the pickled form of NoneType and its like."""
    return type(value)


def _own_value(module: ModuleType, name: str) -> Any:
    """A class or function that the module itself defines. Raises pickle.PickleError."""
    value: Any = module
    for part in name.split("."):
        inner = vars(value).get(part) if isinstance(value, ModuleType | type) else None
        value = inner
    if isinstance(value, type | FunctionType) and value.__module__ == module.__name__:
        return value
    raise _refusal(module.__name__, name)


def _check_named(value: Any, module: ModuleType) -> None:
    """Raise pickle.PickleError for a class or function that `find_class` would refuse."""
    home, name = value.__module__, value.__qualname__
    if home == module.__name__ or name in _PLAIN_NAMES.get(home, ()):
        return
    if value in (getattr, type) or value in _SINGLETONS:
        return
    raise _refusal(home, name)


def _refusal(module: str, name: str) -> pickle.PickleError:
    return pickle.PickleError(f"the state names {module}.{name}, which state may not contain")

"""A seal on our own functions inside a worker: whether hosted code has replaced one.

Hosted code shares its process with the code that hosts it. What it replaces there (a function of
ours, a method, a builtin) would serve the next worlds too, so the seal is looked at after each
call. It covers the modules of `envpool` and `builtins`: functions and their code, classes and what
they define. It does not cover other libraries, nor data.
"""

import builtins
import sys
from collections.abc import Iterator, Mapping
from operator import attrgetter, is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

_codes_of = attrgetter("__code__")
_Names = Mapping[str, Any]


class Seal:
    """What our modules define, as it is when the seal is made."""

    def __init__(self) -> None:
        self._places = []
        functions = []
        for names in _namespaces():
            sealed = {name: value for name, value in names.items() if _is_defined(value)}
            if sealed:
                keys = [*sealed, next(iter(sealed))]  # two at least: itemgetter then gives a tuple
                get = itemgetter(*keys)
                self._places.append((names, keys, get, get(names)))
            functions += [value for value in sealed.values() if isinstance(value, FunctionType)]
        self._functions = functions
        self._codes = [function.__code__ for function in functions]

    def __repr__(self) -> str:
        return f"<Seal [{len(self._places)} namespaces, {len(self._functions)} functions]>"

    def broken(self) -> str:
        """The name of something that is no longer as it was; empty: all is."""
        for names, keys, get, values in self._places:
            try:
                intact = all(map(is_, get(names), values))
            except KeyError:
                intact = False
            if not intact:
                if isinstance(names, dict):  # a module's: we still have an answer to write
                    names.update(zip(keys, values, strict=True))
                return f"a name in {names.get('__name__') or names.get('__module__')}"
        if not all(map(is_, map(_codes_of, self._functions), self._codes)):
            return "the code of a function"
        return ""


def _namespaces() -> Iterator[_Names]:
    yield vars(builtins)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "envpool":
            yield vars(module)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield vars(value)


def _is_defined(value: Any) -> bool:
    kinds = (FunctionType, ModuleType, type, staticmethod, classmethod, property)
    return isinstance(value, kinds) or type(value) is type(len)

"""The integrity check of a worker: whether hosted code has replaced one of our own functions.

Hosted code shares its process with the code that hosts it. A function, method or builtin that it
replaces there would serve the next worlds too, so the worker checks after each call. The check
covers the modules of `envpool` and `builtins`: functions, classes and what they define. It does not
cover other libraries, nor data; the audit hook sees when a function's code object is replaced.
"""

import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping
from operator import is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

_Names = Mapping[str, Any]


_STRICT_EVERY = 16  # checks; the strict one costs five times the other's 15 µs


class IntegrityCheck:
    """The definitions of our modules at the time when it is made, to be compared later."""

    def __init__(self) -> None:
        self._namespaces = []
        for names in _namespaces():
            defined = {name: value for name, value in names.items() if _is_definition(value)}
            if defined:
                keys = [*defined, next(iter(defined))]  # at least two: itemgetter returns a tuple
                get = itemgetter(*keys)
                self._namespaces.append((names, keys, get, get(names)))
        self._all_values = [[*names.values()] for names, *_ in self._namespaces]
        self._num_checks = 0

    def __repr__(self) -> str:
        num_names = sum(len(values) - 1 for *_, values in self._namespaces)
        return f"<IntegrityCheck [{num_names} names in {len(self._namespaces)} namespaces]>"

    def changed_name(self) -> str:
        """Where a definition has changed, as part of a sentence; empty: nowhere.

        Most checks compare by equality, which is identity except for objects that lie about it; the
        strict check finds those. A namespace with unchanged values needs no second comparison; in
        others the definitions are picked out, since our modules also hold data.
        """
        self._num_checks += 1
        strict = self._num_checks % _STRICT_EVERY == 0
        for number, (names, keys, get, values) in enumerate(self._namespaces):
            if not strict and [*names.values()] == self._all_values[number]:
                continue
            try:
                found = get(names)
            except KeyError:
                intact = False
            else:
                intact = _are_identical(found, values) if strict else found == values
            if not intact:
                if isinstance(names, dict):  # of a module: restored, to write the last answer
                    names.update(zip(keys, values, strict=True))
                return f"a name in {names.get('__name__') or names.get('__module__')}"
            if not strict:
                self._all_values[number] = [*names.values()]
        return ""


def _are_identical(found: Iterable[Any], expected: Iterable[Any]) -> bool:
    return all(map(is_, found, expected))


def _namespaces() -> Iterator[_Names]:
    yield vars(builtins)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "envpool":
            yield vars(module)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield vars(value)


def _is_definition(value: Any) -> bool:
    kinds = (FunctionType, ModuleType, type, staticmethod, classmethod, property)
    return isinstance(value, kinds) or type(value) is type(len)

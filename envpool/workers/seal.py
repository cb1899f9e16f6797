"""A seal on our own functions inside a worker: whether hosted code has replaced one.

Hosted code shares its process with the code that hosts it. What it replaces there (a function of
ours, a method, a builtin) would serve the next worlds too, so the seal is looked at after each
call. It covers the modules of `envpool` and `builtins`: functions, classes and what they define. It
does not cover other libraries, nor data; that a function's code is replaced, the witness hears.
"""

import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping
from operator import is_, itemgetter
from types import FunctionType, ModuleType
from typing import Any

_Names = Mapping[str, Any]


_STRICT_EVERY = 16  # looks; the strict one costs five times the other's 15 µs


class Seal:
    """What our modules define, as it is when the seal is made."""

    def __init__(self) -> None:
        self._places = []
        for names in _namespaces():
            sealed = {name: value for name, value in names.items() if _is_defined(value)}
            if sealed:
                keys = [*sealed, next(iter(sealed))]  # two at least: itemgetter then gives a tuple
                get = itemgetter(*keys)
                self._places.append((names, keys, get, get(names)))
        self._whole = [[*names.values()] for names, *_ in self._places]
        self._looks = 0

    def __repr__(self) -> str:
        num_names = sum(len(values) - 1 for *_, values in self._places)
        return f"<Seal [{num_names} names in {len(self._places)} namespaces]>"

    def broken(self) -> str:
        """The name of something that is no longer as it was; empty: all is.

        Most looks compare by equality, which is identity but for objects that lie about it; those
        are found by the strict look. A namespace whose values are all as they were needs no second
        look; in others, what we sealed is picked out, since our modules have some data too.
        """
        self._looks += 1
        strict = self._looks % _STRICT_EVERY == 0
        for number, (names, keys, get, values) in enumerate(self._places):
            if not strict and [*names.values()] == self._whole[number]:
                continue
            try:
                found = get(names)
            except KeyError:
                intact = False
            else:
                intact = _identical(found, values) if strict else found == values
            if not intact:
                if isinstance(names, dict):  # a module's: we still have an answer to write
                    names.update(zip(keys, values, strict=True))
                return f"a name in {names.get('__name__') or names.get('__module__')}"
            if not strict:
                self._whole[number] = [*names.values()]
        return ""


def _identical(found: Iterable[Any], sealed: Iterable[Any]) -> bool:
    return all(map(is_, found, sealed))


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

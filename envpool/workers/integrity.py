"""The integrity check of a worker: whether hosted code has replaced one of our own functions.

Hosted code shares its process with the code that hosts it. A function, method or builtin that it
replaces there would serve the next worlds too, so the worker checks after each call. The check
covers the modules of `envpool` and `builtins`: functions, classes and what they define. It does not
cover other libraries, nor data; the audit hook sees when a function's code object is replaced.
"""

import builtins
import sys
from collections.abc import Iterator, Mapping
from operator import is_
from types import FunctionType, ModuleType
from typing import Any

from rehearsal_room.envpool.hosting.dict_versions import DictVersions

_Names = Mapping[str, Any]
_OURS = "rehearsal_room.envpool"


class IntegrityCheck:
    """The definitions of our modules at the time when it is made, to be compared later.

    A check reads the versions of the namespaces and compares only those that have changed. Most
    have not, and comparing them would copy their pages (envpool.hosting.dict_versions).
    """

    def __init__(self) -> None:
        self._namespaces = []
        for names in _namespaces():
            defined = {name: value for name, value in names.items() if _is_definition(value)}
            if defined:
                self._namespaces.append((names, defined))
        self._versions = DictVersions(names for names, _ in self._namespaces)
        self._intact_at = self._versions.read()

    def __repr__(self) -> str:
        num_names = sum(len(defined) for _, defined in self._namespaces)
        return f"<IntegrityCheck [{num_names} names in {len(self._namespaces)} namespaces]>"

    def changed_name(self) -> str:
        """Where a definition has changed, as part of a sentence; empty: nowhere. Objects that lie
        about equality are found: definitions are compared by identity."""
        versions = self._versions.read()
        for number in self._versions.changed(self._intact_at, versions):
            names, defined = self._namespaces[number]
            if not _are_identical(names, defined):
                if isinstance(names, dict):  # of a module: restored, to write the last answer
                    names.update(defined)
                return f"a name in {names.get('__name__') or names.get('__module__')}"
        self._intact_at = versions
        return ""


def _are_identical(names: _Names, defined: _Names) -> bool:
    """Whether a namespace still has these definitions; it also has data, which may change."""
    try:
        return all(map(is_, map(names.__getitem__, defined), defined.values()))
    except KeyError:
        return False


def _namespaces() -> Iterator[_Names]:
    yield vars(builtins)
    for name, module in list(sys.modules.items()):
        if name == _OURS or name.startswith(f"{_OURS}."):
            yield vars(module)
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield vars(value)


def _is_definition(value: Any) -> bool:
    kinds = (FunctionType, ModuleType, type, staticmethod, classmethod, property)
    return isinstance(value, kinds) or type(value) is type(len)

"""Modules that tests make from a text, as a host makes them from a record's server.py."""

import linecache
import sys
from types import ModuleType


def load_module(name: str, text: str) -> ModuleType:
    """Execute a text as the module `name` and return the module, which is in sys.modules then.

    It has a file, and `linecache` knows its source.
    """
    module = ModuleType(name)
    module.__file__ = f"/{name}/server.py"
    sys.modules[name] = module
    lines = text.splitlines(keepends=True)
    linecache.cache[module.__file__] = (len(text), None, lines, module.__file__)
    exec(compile(text, module.__file__, "exec"), vars(module))
    return module

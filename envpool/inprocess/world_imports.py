"""The imports of world packages: `scenarios` there means `rehearsal_room.scenarios`.

The files of a package write `from scenarios.api import Db`, and their text is part of its digest.
Each package gets builtins of its own whose `__import__` gives it our modules under these names, the
same module objects. Nothing is put into `sys.modules`, so a module of the user's that is called
`scenarios` stays what it is, and the alias holds for imports inside functions too, for as long as
the package lives. `importlib.import_module("scenarios.api")` inside a package is not covered.
"""

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

_ALIAS = "scenarios"
_PREFIX = "rehearsal_room."


def world_builtins() -> dict[str, Any]:
    """Builtins for the modules of one package."""
    return vars(builtins) | {"__import__": _import}


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    if level or name.partition(".")[0] != _ALIAS:
        return builtins.__import__(name, globals, locals, fromlist, level)
    try:
        module = builtins.__import__(_PREFIX + name, globals, locals, fromlist or ("__name__",))
        # `import scenarios.checks` binds the package, `from scenarios.checks import …` the module.
        return module if fromlist else builtins.__import__(_PREFIX + _ALIAS, fromlist=("api",))
    except ModuleNotFoundError as exc:
        if not (exc.name or "").startswith(_PREFIX + _ALIAS):
            raise
        written = str(exc.name).removeprefix(_PREFIX)
        raise ModuleNotFoundError(f"No module named {written!r}", name=written) from None

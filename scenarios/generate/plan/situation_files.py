"""The situations in scenarios/generate/situations: which there are, and which suit a world."""

from collections.abc import Collection
from functools import cache
from importlib import import_module
from pathlib import Path

from rehearsal_room.scenarios.generate.core.errors import ModuleError
from rehearsal_room.scenarios.generate.core.situations import Situation, registered_situations
from rehearsal_room.scenarios.generate.plan.business_modules import module_names

FOLDER = Path(__file__).parent.parent / "situations"
_PACKAGE = "rehearsal_room.scenarios.generate.situations"


@cache
def situations() -> dict[str, Situation]:
    """Every situation by its id. Raises ModuleError when one names an unknown module."""
    for path in sorted(FOLDER.glob("*/*.py")):
        import_module(f"{_PACKAGE}.{path.parent.name}.{path.stem}")
    found = registered_situations()
    known = set(module_names())
    for one in found.values():
        if unknown := sorted(set(one.modules) - known):
            raise ModuleError(
                f"situation {one.id!r} needs the module {unknown[0]!r}, which is none"
            )
    return found


def suitable_situations(
    modules: Collection[str], trade: str, among: Collection[str] = ()
) -> list[Situation]:
    """The situations of a trade whose modules a world has, by id. `among`: only these ids;
    empty: all."""
    return [
        one
        for one in situations().values()
        if set(one.modules) <= set(modules)
        and (not one.trades or trade in one.trades)
        and trade not in one.without
        and (not among or one.id in among)
    ]

"""Which worlds there are, and finding one by name or by path."""

import os
from pathlib import Path

from scenarios.errors import UnknownScenario
from scenarios.format import Scenario, read

BUNDLED = Path(__file__).parent / "bundled"


def bundled_names() -> list[str]:
    """Names of the worlds that ship with the project, sorted."""
    return sorted(path.parent.name for path in BUNDLED.glob("*/scenario.toml"))


def is_bundled(scenario: Scenario) -> bool:
    """Whether the package ships with the project, so that its code is trusted."""
    return scenario.path.resolve().parent == BUNDLED.resolve()


def find(name: str) -> Scenario:
    """The scenario of a bundled name, or of a folder's path.

    Raises UnknownScenario when there is neither, PackageError when the package is broken.
    """
    if name in bundled_names():
        return read(BUNDLED / name)
    if os.path.isdir(name):  # Path.is_dir raises for a name that is too long
        return read(Path(name))
    known = ", ".join(bundled_names())
    raise UnknownScenario(
        f"there is no scenario {name!r}: no folder of that path, and bundled are {known}"
    )

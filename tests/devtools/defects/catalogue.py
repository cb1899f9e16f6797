"""Known defects, injected into sound worlds to measure which kinds the gate catches.

The kinds are those that AWM's users and authors report about synthesised worlds (seed statements
that fail, tools that break on edge inputs or on constraints, target states that hold from the
start, verifiers that accept everything), and those that make episodes irreproducible. Each is a
function of a module of tests.devtools.defects, which injects it into a copy of a package by
editing code as a syntax tree, rows by SQL and tasks as data, or returns None where it does not
apply. Equal seeds inject the same defect.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import msgspec

from tests.devtools.defects import effects, nondeterminism, seed_data, tasks, tools, verifiers
from tests.devtools.defects.target import Defect, InjectedDefect, TargetPackage

_MODULES = (
    seed_data,
    tools,
    effects,
    nondeterminism,
    verifiers,
    tasks,
)
DEFECTS: tuple[Defect, ...] = tuple(
    found for module in _MODULES for found in vars(module).values() if isinstance(found, Defect)
)


class Injection(msgspec.Struct, frozen=True):
    """One defect in one world."""

    kind: str
    world: str
    where: str  # the task, tool or table; empty: the package
    folder: Path


def inject(defect: Defect, target: TargetPackage, *, seed: int = 0) -> InjectedDefect | None:
    """Inject one defect; None where it does not apply, or would change nothing."""
    rng = Random(f"{seed} {defect.kind} {target.scenario.name}")
    injected = defect.inject(target, rng)
    if injected is None or all(target.texts[name] == text for name, text in injected.files.items()):
        return None
    return injected


def inject_all(
    folders: Iterable[Path], into: Path, *, defects: Sequence[Defect] = DEFECTS, seed: int = 0
) -> list[Injection]:
    """Copies of sound packages, each with one defect, as `into/<kind>__<world>`."""
    injections = []
    for folder in folders:
        target = TargetPackage(folder)
        for defect in defects:
            injected = inject(defect, target, seed=seed)
            if injected is not None:
                folder = into / f"{defect.kind}__{target.scenario.name}"
                _write(target, injected, folder)
                found = (defect.kind, target.scenario.name, injected.where, folder)
                injections.append(Injection(*found))
    return injections


def _write(target: TargetPackage, injected: InjectedDefect, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, text in {**target.texts, **injected.files}.items():
        if text is not None:
            (folder / name).write_text(text, encoding="utf-8")

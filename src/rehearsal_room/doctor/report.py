"""What is installed here, which level of the sandbox holds, and what is missing."""

import platform
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import msgspec

from rehearsal_room import harness
from rehearsal_room.doctor.extras import DEVELOPMENT, EXTRAS
from rehearsal_room.doctor.programs import how_to_install, missing_programs
from rehearsal_room.doctor.requirements import (
    Installed,
    Requirement,
    look_up,
    of_extra,
    requirements_of,
)
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers.confine import available_layers
from rehearsal_room.envpool.workers.sandbox import (
    LOWEST,
    WorkerLimits,
    keeps_every_promise,
    why_no_bubblewrap,
)
from rehearsal_room.envpool.workers.trial import try_acts
from rehearsal_room.scenarios import distribution

_PACKAGE = "rehearsal_room"
_NEW_ENVIRONMENT = f"install {distribution.NAME} in a clean virtual environment"


class Missing(msgspec.Struct, frozen=True, rename={"purpose": "for"}):
    """A part that is not here, what it is for, and how it is installed."""

    what: str
    purpose: str
    how: str


class SandboxReport(msgspec.Struct, frozen=True):
    """The sandbox of workers here."""

    level: str  # such as "bubblewrap+seccomp+landlock:6"; empty: workers do not run here
    keeps_every_promise: bool  # what `--sandbox required` asks for
    why_not_more: tuple[str, ...]  # empty: it is the best level that this kernel has
    refused: dict[str, bool]  # act that was tried at this level -> whether it was refused


class DoctorReport(msgspec.Struct, frozen=True):
    """What `rehearse doctor` found."""

    version: str  # of Rehearsal; "unknown": the code runs without being installed
    folder: str  # of its packages
    python: str
    system: str
    faults: tuple[str, ...]  # why the core is broken; empty: it is not
    packages: dict[str, str]  # version by name: the core's and those of extras
    core: Installed
    extras: dict[str, Installed]  # by name
    sandbox: SandboxReport
    missing: tuple[Missing, ...]


def examine() -> DoctorReport:
    """Look at this installation and this machine; the sandbox is tried, which takes a second."""
    folder = Path(harness.__path__[0]).parent
    core, extras = _installed()
    packages = {
        name: found for part in (core, *extras.values()) for name, found in part.versions.items()
    }
    return DoctorReport(
        version=distribution.version(),
        folder=str(folder),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        faults=(*core.faults, *shared_packages()),
        packages=dict(sorted(packages.items())),
        core=core,
        extras=extras,
        sandbox=examine_sandbox(),
        missing=tuple(_missing(core, extras, in_checkout=(folder / "justfile").exists())),
    )


def _installed() -> tuple[Installed, dict[str, Installed]]:
    """The core, and each extra that users install. Nothing, where the code is not installed."""
    try:
        needed = requirements_of(distribution.NAME)
        names = metadata.metadata(distribution.NAME).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return Installed({}, ()), {}
    core = look_up(each for each in needed if not each.extra)
    return core, {
        name: look_up(_requirements(needed, name)) for name in sorted(set(names) - set(DEVELOPMENT))
    }


def _requirements(needed: Sequence[Requirement], extra: str) -> Iterator[Requirement]:
    return of_extra(needed, extra, distribution.NAME)


def shared_packages() -> list[str]:
    """Our package, if another distribution has written into its folder, as sentences."""
    return [
        f"the distribution {other!r} has installed files in the folder of our package {name!r}: "
        f"{_NEW_ENVIRONMENT}"
        for name, owners in sorted(metadata.packages_distributions().items())
        if name == _PACKAGE
        for other in sorted(set(owners) - {distribution.NAME})
    ]


def examine_sandbox() -> SandboxReport:
    """The best level of this machine, tried with a few acts that it must refuse."""
    if sys.platform != "linux":
        return SandboxReport("", False, ("sandboxed workers need Linux",), {})
    at_most = WorkerLimits().at_most
    why = why_no_bubblewrap(at_most)
    inner, reasons = available_layers("best", at_most)
    level = "+".join(filter(None, ("" if why else "bubblewrap", inner))) or LOWEST
    why_not_more = tuple(dict.fromkeys([*([f"bubblewrap: {why}"] if why else []), *reasons]))
    try:
        refused = try_acts(level)
    except PoolError as exc:
        return SandboxReport(level, False, (*why_not_more, str(exc)), {})
    keeps = keeps_every_promise(level) and all(refused.values())
    return SandboxReport(level, keeps, why_not_more, refused)


def _missing(
    core: Installed, extras: dict[str, Installed], *, in_checkout: bool
) -> Iterator[Missing]:
    for fault in core.faults:
        how = f"pip install --upgrade {distribution.NAME}"
        yield Missing(f"core: {fault}", "every command", how)
    if not extras:
        how = "pip install -e ." if in_checkout else f"pip install {distribution.NAME}"
        yield Missing("installation: the code runs without being installed", "versions", how)
    for name, extra in extras.items():
        if extra.faults:
            what = f"extra {name}: {', '.join(extra.faults)}"
            yield Missing(what, EXTRAS.get(name, name), distribution.install_command(name))
    for program in missing_programs(in_checkout=in_checkout):
        yield Missing(program.name, program.purpose, how_to_install(program))

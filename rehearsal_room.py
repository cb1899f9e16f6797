"""The console script `rehearse`: check that the packages are ours, then run the command line.

Other distributions install packages of the same names (`envpool` is an RL library). When one of
them comes first on the path, the command would fail with a confusing error, or not start. So the
script starts here, in a module whose name no other distribution has, and looks where the packages
are before it imports one.
"""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

DISTRIBUTION = "rehearsal-room"
PACKAGES = ("envpool", "harness", "judge", "learner", "scenarios")
_REMEDY = f"install {DISTRIBUTION} in a clean virtual environment"


def main() -> None:
    """The command `rehearse`."""
    if fault := foreign_package():
        _stop(fault)
    try:
        from harness.cli import main as run_command_line  # only now: harness may be foreign
    except ImportError as exc:
        _stop(f"{DISTRIBUTION} cannot start: {exc}: {_REMEDY}")
    run_command_line()


def _stop(fault: str) -> NoReturn:
    """Report why no command can run; for `rehearse doctor` that is the answer, status 1."""
    sys.stderr.write(f"error: {fault}\n")
    sys.exit(1 if sys.argv[1:2] == ["doctor"] else 2)


def foreign_package() -> str:
    """Why a package that Python finds under one of our names is not ours; empty: all are.

    Ours are in the folder of this module. Looking takes 0.3 ms and imports nothing.
    """
    home = Path(__file__).resolve().parent
    for name in PACKAGES:
        found = _folder_of(name)
        if found is None:
            return f"the package {name!r} of {DISTRIBUTION} is missing: {_REMEDY}"
        if found != home / name:
            return (
                f"the package {name!r} at {found} does not belong to {DISTRIBUTION} and hides the "
                f"one that does: {_REMEDY}"
            )
    return ""


def _folder_of(name: str) -> Path | None:
    """The folder, or the file, that Python would import; None: there is none."""
    spec = find_spec(name)
    if spec is None:
        return None
    paths = [*(spec.submodule_search_locations or ()), spec.origin or ""]
    return Path(paths[0]).resolve()

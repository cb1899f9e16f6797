"""The project's name and extras in the package index."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

NAME = "rehearsal-room"  # on the package index; `rehearsal` there is another project


@cache
def version() -> str:
    """The installed version; "unknown" where the code runs without being installed."""
    try:
        return installed_version(NAME)
    except PackageNotFoundError:
        return "unknown"


def install_command(*extras: str) -> str:
    """The command that installs the extras.

    Example: ("train", "serve") -> "pip install 'rehearsal-room[train,serve]'"
    """
    return f"pip install '{NAME}[{','.join(extras)}]'"


def missing_package(what: str, exc: ModuleNotFoundError, *extras: str) -> str:
    """The sentence about a part whose optional package is not installed.

    Example: "policy 'local'", torch, "train"
        -> "policy 'local' needs the package torch: pip install 'rehearsal-room[train]'"
    """
    return f"{what} needs the package {exc.name}: {install_command(*extras)}"

"""Programs and libraries outside of Python: what they are for, and how they are installed."""

import ctypes.util
import os
import shutil
import sys
from collections.abc import Mapping

import msgspec

# Where brokers lie that are not on an ordinary user's path.
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin", "/usr/local/opt/mosquitto/sbin")
_INSTALLERS = {  # the system's program that installs -> the command
    "apt-get": "sudo apt-get install -y",
    "dnf": "sudo dnf install -y",
    "apk": "sudo apk add",
    "pacman": "sudo pacman -S",
    "brew": "brew install",
}


class Program(msgspec.Struct, frozen=True):
    """A program, or a library (`is_library`), that some part of Rehearsal uses."""

    name: str  # of the package, where `packages` has no other
    commands: tuple[str, ...]  # one of them is enough
    purpose: str
    packages: Mapping[str, str] = {}  # other names of the package, by installer
    is_library: bool = False
    linux_only: bool = False
    tests_only: bool = False


PROGRAMS = (
    Program(
        "bubblewrap",
        ("bwrap",),
        "the outermost layer of the sandbox",
        linux_only=True,
    ),
    Program(
        "libseccomp",
        ("seccomp",),
        "the sandbox's filter of system calls",
        packages={"apt-get": "libseccomp2"},
        is_library=True,
        linux_only=True,
    ),
    Program(
        "mosquitto",
        ("mosquitto",),
        "an MQTT broker on this machine (--bus; the tests start one)",
    ),
    Program(
        "chromium",
        ("chromium", "chromium-browser", "google-chrome"),
        "tests that open pages in a browser",
        tests_only=True,
    ),
)


def missing_programs(*, in_checkout: bool) -> list[Program]:
    """What this system could use and lacks; what only tests use counts in a checkout only."""
    return [
        each
        for each in PROGRAMS
        if not (each.linux_only and sys.platform != "linux")
        if in_checkout or not each.tests_only
        if not _is_installed(each)
    ]


def _is_installed(program: Program) -> bool:
    if program.is_library:
        return any(ctypes.util.find_library(name) for name in program.commands)
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS))
    return any(shutil.which(name, path=path) for name in program.commands)


def how_to_install(program: Program) -> str:
    """The command that installs it on this system.

    Example: bubblewrap, on Debian -> "sudo apt-get install -y bubblewrap"
    """
    for installer, command in _INSTALLERS.items():
        if shutil.which(installer):
            return f"{command} {program.packages.get(installer, program.name)}"
    return f"install {program.name} with your system's packages"

"""What a server sees that is held by bubblewrap: a world of somebody else, or one of `--isolate`.

It writes to its own folder, and has no network. It reads the system's programs and libraries, those
of its own interpreter, its package, and the folder of a script that its command names. So it finds
no file of the user, no socket of another program, and no key: variables that it asks for stay away.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt")
_SETTINGS = ("ld.so.cache", "alternatives", "ssl", "localtime", "passwd", "nsswitch.conf", "java*")
_OF_PROGRAMS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg", "node_modules")
_SCRIPTS = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".jar", ".rb", ".pl", ".php")
_SEEDED = Path(__file__).parent.parent / "seeded"
_MOST = 4_096  # bytes of a script's first line


def held(command: Sequence[str], *, package: Path, folder: Path, start: Path) -> tuple[str, ...]:
    """The command, held. `folder` is its own one, and `start` where in it the server starts."""
    read = [word for path in _readable(command, package) for word in ("--ro-bind-try", path, path)]
    return (
        *("bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL"),
        *("--proc", "/proc", "--dev", "/dev", *read, "--bind", str(folder), str(folder)),
        *("--remount-ro", "/", "--chdir", str(start), *command),
    )


def _readable(command: Sequence[str], package: Path) -> Iterator[str]:
    yield from _SYSTEM
    yield from (str(path) for name in _SETTINGS for path in Path("/etc").glob(name))
    programs = {Path(sys.executable), Path(shutil.which(command[0]) or command[0]).absolute()}
    programs |= {Path(found) for one in programs if (found := _interpreter_of(one))}
    package = package.absolute()
    words = [path for path in map(Path, command[1:]) if package not in path.absolute().parents]
    beside = list(_folders_of_scripts(words))
    for program in programs | {path.resolve() for path in programs}:
        beside += _installed_with(program)
    # Links in the package, which lead anywhere, are not followed: it is bound as it is.
    yield from (str(path) for path in beside if package not in path.parents)
    yield from (sys.prefix, sys.base_prefix, str(_SEEDED), str(package))


def _installed_with(program: Path) -> Iterator[Path]:
    """What is installed with a program. Example: /x/venv/bin/ops -> /x/venv/bin, /x/venv/lib"""
    yield program
    if "node_modules" in program.parts:
        yield Path(*program.parts[: program.parts.index("node_modules") + 1])
    if program.parent.name == "bin":
        yield from (program.parent.parent / name for name in _OF_PROGRAMS)


def _interpreter_of(program: Path) -> str:
    """The program that reads a script; empty: it is none."""
    try:
        with program.open("rb") as file:
            line = file.readline(_MOST)
    except OSError:
        return ""
    words = line[2:].split() if line.startswith(b"#!") else []
    if words and os.path.basename(words[0]) == b"env":
        words = [word for word in words[1:] if not word.startswith(b"-")]
    return (shutil.which(os.fsdecode(words[0])) or "") if words else ""


def _folders_of_scripts(words: Iterable[Path]) -> Iterator[Path]:
    """The folder of each script, unless the user's home is in it."""
    home = Path.home().resolve()
    for path in words:
        if path.suffix not in _SCRIPTS or not path.is_file():
            continue
        for folder in {path.absolute().parent, path.resolve().parent}:
            if folder.resolve() not in (home, *home.parents):
                yield folder

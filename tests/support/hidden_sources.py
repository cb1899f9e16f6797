"""What workers must not see of our own code: the bundled worlds, whose tasks reveal the answers,
the judge, the learner, the harness and the roof. They need envpool, and scenarios without
`bundled`.

`python -m tests.support.hidden_sources` tries it at each level that is available here, in a
checkout or in an installed package (tests/install/run.sh), and exits with a sentence for each
attempt of a worker that succeeds.
"""

import sys
from pathlib import Path

import click

import rehearsal_room
from rehearsal_room.envpool.workers import confine
from rehearsal_room.envpool.workers.sandbox import layers_of, why_no_bubblewrap
from tests.support.confined import outcomes

LEVELS = (
    "bubblewrap+seccomp+landlock",
    "bubblewrap+seccomp",
    "seccomp+landlock",
    "seccomp+landlock:4",
)
# From the package's folder: what is hidden, and what a worker needs.
HIDDEN = (
    *("scenarios/bundled/shop_support/verify.py", "scenarios/bundled/flight_desk/tasks.toml"),
    *("judge/code/code_judge.py", "judge/__init__.py", "learner/__init__.py"),
    *("harness/library.py", "harness/__init__.py", "cli/entry.py", "viewer/__init__.py"),
)
SHOWN = ("envpool/workers/worker.py", "scenarios/api.py", "scenarios/suites/__init__.py")
MODULES = (
    *("judge", "judge.code.code_judge", "learner", "harness", "harness.library", "cli.entry"),
    *("viewer", "authoring", "doctor", "bridges", "interop", "play", "scenarios.bundled"),
)
# AttributeError: of a loader that was not found.
REFUSED = {"PermissionError", "FileNotFoundError", "ModuleNotFoundError", "AttributeError"}

Attempt = tuple[str, str]  # what it is, the snippet; its result where it succeeds is "1"


def attempts() -> list[Attempt]:
    """Ways to the hidden files: by each path that this process knows, through links, from the
    scratch folder upwards, by import, by the loader, and by listing folders."""
    found = []
    for path in map(str, _paths(HIDDEN)):
        for name, expression in (
            (path, repr(path)),
            (f"{path} through links", f"os.path.join('/proc/self/root', {path[1:]!r})"),
            (f"{path} by lib64", f"{path!r}.replace('/lib/', '/lib64/', 1)"),
            (f"{path} from the scratch folder", f"os.path.relpath({path!r})"),
        ):
            found.append((name, f"import os; result = int(bool(open({expression}).read(1)))"))
        found.append(
            (f"a link to {path}", f"import os; os.symlink({path!r}, 'x'); open('x'); result = 1")
        )
        folder = str(Path(path).parent)
        found.append((f"names in {folder}", f"import os; os.listdir({folder!r}); result = 1"))
    for module in MODULES:
        name = f"rehearsal_room.{module}"
        found.append((f"import {name}", f"import {name}; result = 1"))
        if not module.startswith("scenarios."):  # whose package refuses the short name itself
            found.append((f"{name} under its short name", _IMPORT_SHORT.format(module)))
        found.append((f"the source of {name}", _GET_SOURCE.format(name)))
    return found


_IMPORT_SHORT = (
    "import sys, rehearsal_room; sys.path[:0] = rehearsal_room.__path__; "
    "import importlib; importlib.invalidate_caches(); __import__('{}'); result = 1"
)
_GET_SOURCE = (
    "import importlib.util; importlib.invalidate_caches(); "
    "result = int(bool(importlib.util.find_spec('{0}').loader.get_source('{0}')))"
)


def needed() -> list[Attempt]:
    """What a worker can read, so that an attempt that fails says something."""
    paths = dict.fromkeys(path.resolve() for path in _paths(SHOWN))
    return [(str(path), f"open({str(path)!r}).read(); result = 1") for path in paths]


def _paths(names: tuple[str, ...]) -> list[Path]:
    """Files below the folders of the package (two in a checkout), by all paths that they have."""
    paths = [Path(folder, name) for folder in rehearsal_room.__path__ for name in names]
    paths = [path for path in paths if path.is_file()]
    return list(dict.fromkeys([*paths, *(path.resolve() for path in paths)]))


def faults(level: str) -> list[str]:
    """What a worker can see at this level though it must not, and what it needs and cannot see."""
    hidden, shown = attempts(), needed()
    found = outcomes(level, [snippet for _, snippet in (*hidden, *shown)])
    return [
        f"{name}: {outcome}"
        for number, ((name, _), outcome) in enumerate(zip((*hidden, *shown), found, strict=True))
        if (outcome not in REFUSED if number < len(hidden) else outcome != "1")
    ]


def levels_here() -> list[str]:
    """Those of LEVELS that are available."""
    inner = layers_of(confine.available_layers("best")[0] or "rlimits")
    has = {**inner, **({} if why_no_bubblewrap() else {"bubblewrap": 0})}
    return [
        level
        for level in LEVELS
        if all(has.get(name, -1) >= version for name, version in layers_of(level).items())
    ]


if __name__ == "__main__":
    found = [f"{level}: {fault}" for level in levels_here() for fault in faults(level)]
    click.echo(f"  the sandbox hides our sources: {', '.join(levels_here()) or 'no level here'}")
    sys.exit("\n".join(found) or 0)

"""Which recipes of CI a change can break: from the files that differ from a commit, and what
imports what.

Python files count where a recipe's own files import them, through however many modules. The command
line and the public API name nearly everything: their files count, and what they import does not.
Other files count
for every recipe, apart from documents and from folders that belong to one recipe. It needs Python
and git only.
"""

import ast
import re
import subprocess
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = "rehearsal_room"
# What each recipe runs, from which the imports are followed.
ROOTS = {
    "sandbox-table": (
        *("tests/support/promises.py", "envpool/workers/*.py", "envpool/kernel/*.py"),
    ),
    "test-ray": ("tests/ray/*.py", "harness/cluster/*.py"),
    "test-suites": ("tests/suites/*.py", "scenarios/suites/**/*.py", "envpool/objects/**/*.py"),
    "test-viewer": ("tests/viewer_web/*.py", f"src/{NAME}/viewer/**/*.py"),
    "test-vllm": ("tests/vllm/*.py", "harness/vllm/**/*.py"),
}
# Folders that no other recipe needs.
OWN = {
    f"src/{NAME}/viewer/web/": "test-viewer",
    "tests/ray/": "test-ray",
    "tests/suites/": "test-suites",
    "tests/viewer_web/": "test-viewer",
    "tests/vllm/": "test-vllm",
}
_FOR_ALL = ("tests/conftest.py", "tests/support/changed_parts.py", "tests/support/ci_recipes.py")
_DOCUMENTS = re.compile(r"[^/]*\.md|(?:docs|examples|configs|locks|packages|\.github)/.*|LICENSE")
_LEAVES = (f"src/{NAME}/cli/", f"src/{NAME}/__init__.py")
_OUR_NAMES = re.compile(rf"\b{NAME}(?:\.\w+)+")


def changed_files(base: str) -> list[str]:
    """The files that differ from a commit, new ones included. Raises CalledProcessError."""
    commands = (
        ("git", "diff", "--name-only", "-z", base, "--"),
        ("git", "ls-files", "--others", "--exclude-standard", "-z"),
    )
    outputs = (
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
        for command in commands
    )
    return sorted({name for output in outputs for name in output.split("\0") if name})


def can_break(recipe: str, changed: Collection[str]) -> bool:
    """Whether a change of these files can break a recipe; those without ROOTS always run."""
    if recipe not in ROOTS:
        return True
    used = used_by(ROOTS[recipe])
    return any(_counts(name, recipe, used) for name in changed)


def _counts(name: str, recipe: str, used: Collection[str]) -> bool:
    owner = next((owner for folder, owner in OWN.items() if name.startswith(folder)), None)
    if owner is not None:
        return owner == recipe
    if name.endswith(".py") and name not in _FOR_ALL:
        return name in used
    return not _DOCUMENTS.fullmatch(name)


@cache
def used_by(patterns: tuple[str, ...]) -> frozenset[str]:
    """The Python files that match, and all that they import, from the repository's root."""
    left = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    found: set[str] = set()
    while left:
        path = left.pop()
        name = path.relative_to(ROOT).as_posix()
        if name not in found:
            found.add(name)
            if not name.startswith(_LEAVES):
                left += _imported(path)
    return frozenset(found)


@cache
def _imported(path: Path) -> list[Path]:
    names = dict.fromkeys(_names(ast.parse(path.read_text(encoding="utf-8"))))
    return [file for name in names for file in _files(name)]


def _names(tree: ast.AST) -> Iterator[str]:
    """What a module imports, wherever it stands, and our modules that its texts name."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)):
                yield from _OUR_NAMES.findall(text)


def _files(name: str) -> Iterator[Path]:
    """The files of one of our modules and of the packages around it; none for a library."""
    top, *parts = name.split(".")
    if top not in (NAME, "tests", "benchmarks"):
        return
    folders = (ROOT, ROOT / "src" / NAME) if top == NAME else (ROOT / top,)
    if top == NAME:
        yield ROOT / "src" / NAME / "__init__.py"
    for length in range(1, len(parts) + 1):
        inner = Path(*parts[:length])
        ends = (inner / "__init__.py", f"{inner}.py")
        files = (folder / end for folder in folders for end in ends)
        yield from (file.resolve() for file in files if file.exists())

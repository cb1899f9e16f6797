"""Finding, in a package's Python, what would make two equal episodes differ."""

import ast
from collections.abc import Iterator
from pathlib import Path

_MODULES = {"random", "secrets", "time", "uuid"}  # nothing in them that a world may use
_CALLS = {"now", "utcnow", "today", "urandom", "getenv", "environ"}
_HOMES = {"datetime", "date", "os", "dt"}


def uses_of_chance(path: Path) -> Iterator[str]:
    """A sentence for each use of the wall clock, of randomness or of the process's surroundings.

    It reads names only: `datetime.now()` is found, what is hidden behind another name is not.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if name := _chance(node):
            line = getattr(node, "lineno", 0)
            yield f"{path.name} line {line}: {name} differs from one episode to the next"


def _chance(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        return next((name.name for name in node.names if name.name in _MODULES), None)
    if isinstance(node, ast.ImportFrom):
        return node.module if node.module in _MODULES else None
    if isinstance(node, ast.Attribute) and node.attr in _CALLS:
        home = node.value.attr if isinstance(node.value, ast.Attribute) else node.value
        word = home.id if isinstance(home, ast.Name) else home
        return f"{word}.{node.attr}" if word in _HOMES else None
    return None

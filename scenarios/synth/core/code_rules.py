"""Rules for generated Python, checked on its text: nothing is executed."""

import ast
from collections.abc import Iterator

from rehearsal_room.scenarios.files import python_fault

_PLAIN = {
    *("typing", "datetime", "json", "math", "re", "decimal", "collections", "itertools"),
    *("functools", "statistics", "string", "unicodedata", "collections.abc", "__future__"),
}
_OURS = "rehearsal_room."  # before the names that worlds write; both are the same modules


def _both(*names: str) -> set[str]:
    return {*names, *(f"{_OURS}{name}" for name in names)}


TOOL_IMPORTS = frozenset({*_PLAIN, *_both("scenarios.api", "scenarios.errors")})
VERIFIER_IMPORTS = frozenset({*_PLAIN, *_both("scenarios.api", "scenarios.checks")})
_FORBIDDEN = frozenset(
    {"eval", "exec", "open", "compile", "input", "globals", "locals", "vars", "breakpoint"}
)


def code_faults(source: str, imports: frozenset[str]) -> list[str]:
    """The faults of a file: syntax, imports, names that give access to the outside."""
    if fault := python_fault(source):
        return [fault]
    return list(_faults(ast.parse(source), imports))


def verifier_faults(source: str, function: str) -> list[str]:
    """The faults of a file that must define exactly one function, of this name."""
    if faults := code_faults(source, VERIFIER_IMPORTS):
        return faults
    faults, found = [], []
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name):
                found.append(name)
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                faults.append(
                    f"line {node.lineno}: only imports and the one function may stand there; "
                    "put constants and helpers inside of it"
                )
    if found != [function]:
        names = ", ".join(found) or "none"
        faults.append(f"expected one function {function!r}, found {names}")
    return faults


def literals_of(source: str) -> str:
    """The numbers and texts of a file's code, without its docstrings, as one text.

    Example: check.answer_has("42.50", name="cost") -> "42.50", "cost", each on its line
    """
    tree = ast.parse(source)
    docs = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    values = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in docs
    ]
    return "\n".join(str(value) for value in values if type(value) in (str, int, float))


def _faults(tree: ast.Module, imports: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name not in imports:
                        yield f"line {node.lineno}: {alias.name} cannot be imported here"
            case ast.ImportFrom(module=module, level=level):
                if level or module not in imports:
                    yield f"line {node.lineno}: {module or '.'} cannot be imported here"
            case ast.Name(id=name) if name in _FORBIDDEN:
                yield f"line {node.lineno}: {name} is not to be used"
            case ast.Attribute(attr=("now" | "utcnow" | "today") as name) if _is_clock(node):
                yield f"line {node.lineno}: {name}() is the wall clock; the world's time is db.now"


def is_ours(node: ast.ImportFrom) -> bool:
    """Whether a line imports from `scenarios`, under either name."""
    return (node.module or "").removeprefix(_OURS).partition(".")[0] == "scenarios"


def _is_clock(node: ast.Attribute) -> bool:
    base = node.value
    name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
    return name in ("datetime", "date")

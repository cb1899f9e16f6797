"""Finding code in a package that would make two equal episodes differ.

Names are read, nothing is executed: `datetime.now()` is found, a call under another name is not.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

_MODULES = {"random", "secrets", "time", "uuid"}  # a world may use nothing in them
_CALLS = {"now", "utcnow", "today", "urandom", "getenv", "environ"}
_CLOCKS = {"now", "utcnow", "today"}  # on any object: datetime may have another name
_HOMES = {"datetime", "date", "os", "dt"}
# Functions whose results differ from one process to the next, or are unpredictable.
_PROCESS = {
    "hash": "hash() of a text",
    "id": "id()",
    "__import__": "an import hidden by __import__()",
}
_LEAVES = frozenset({str, int, float, bool, bytes, type(None), ast.Load, ast.Store})
_CHILDLESS = frozenset({ast.Name, ast.Constant})  # but for the context of a name
_CHANCY = frozenset({ast.Import, ast.ImportFrom, ast.Call, ast.Attribute})
_FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_ORDERED = frozenset({ast.For, ast.ListComp, ast.DictComp, ast.Call})
_IN_ORDER = {"list", "tuple", "enumerate", "iter", "next", "map", "filter", "zip", "join"}


@lru_cache(8)
def parsed(text: str) -> ast.Module:
    """The syntax tree of a source text; several checks in a row read the same one."""
    return ast.parse(text)


@lru_cache(2_048)
def nodes_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes below a node, and the node itself, breadth first (as ast.walk, in a fifth of its
    time), but those that only say whether a name is read or assigned."""
    found = [node]
    for one in found:
        if type(one) in _CHILDLESS:  # more than half of all nodes
            continue
        for name in one._fields:
            value = getattr(one, name, None)
            if type(value) is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif type(value) not in _LEAVES and isinstance(value, ast.AST):
                found.append(value)
    return tuple(found)


def uses_of_chance(path: Path, text: str | None = None) -> Iterator[str]:
    """A sentence for each use of the wall clock, of randomness, of the process's environment, or of
    the order of a set. `text` is the file's; None: the file is read."""
    tree = parsed(path.read_text(encoding="utf-8") if text is None else text)
    for node in nodes_of(tree):
        if type(node) in _CHANCY and (name := _chance(node)):
            line = getattr(node, "lineno", 0)
            yield f"{path.name} line {line}: {name} differs from one episode to the next"
    for scope in _scopes(tree):
        for node in _set_orders(scope):
            line = getattr(node, "lineno", 0)
            why = "the order of a set differs from one process to the next"
            yield f"{path.name} line {line}: {why}; sort it"


def _chance(node: ast.AST) -> str | None:
    if isinstance(node, ast.Import):
        return next((name.name for name in node.names if name.name in _MODULES), None)
    if isinstance(node, ast.ImportFrom):
        return node.module if node.module in _MODULES else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _PROCESS.get(node.func.id)
    if isinstance(node, ast.Call) and _called(node.func) in _CLOCKS:
        return ast.unparse(node.func)
    if isinstance(node, ast.Attribute) and node.attr in _CALLS - _CLOCKS:
        home = node.value.attr if isinstance(node.value, ast.Attribute) else node.value
        word = home.id if isinstance(home, ast.Name) else home
        return f"{word}.{node.attr}" if word in _HOMES else None
    return None


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    for node in nodes_of(tree):
        if type(node) in _FUNCTIONS:
            yield node


def _set_orders(scope: ast.AST) -> Iterator[ast.AST]:
    """Where a function iterates over a set. Inner functions are scopes of their own."""
    assigned = [node for node in nodes_of(scope) if type(node) is ast.Assign]
    known = frozenset(_assigned(assigned, sets=True) - _assigned(assigned, sets=False))
    for node in nodes_of(scope):
        if type(node) not in _ORDERED:
            continue
        if isinstance(node, ast.For) and _is_set(node.iter, known):
            yield node
        elif isinstance(node, ast.ListComp | ast.DictComp):
            if any(_is_set(inner.iter, known) for inner in node.generators):
                yield node
        elif (
            isinstance(node, ast.Call)
            and _called(node.func) in _IN_ORDER
            and any(_is_set(argument, known) for argument in node.args)
        ):
            yield node


def _assigned(nodes: Iterable[ast.Assign], *, sets: bool) -> set[str]:
    """Names to which a set is assigned, or anything else."""
    return {
        target.id
        for node in nodes
        if _is_set(node.value, frozenset()) is sets
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_set(node: ast.AST, names: frozenset[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.BinOp):
        return _is_set(node.left, names) or _is_set(node.right, names)
    if isinstance(node, ast.Call):
        return _called(node.func) in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def _called(function: ast.AST) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""

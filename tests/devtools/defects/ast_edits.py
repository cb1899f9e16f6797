"""Edits of Python code by its syntax tree, so that a defect is injected exactly where it should be.

The edited text has the layout of `ast.unparse`, and no comments.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator

Function = ast.FunctionDef


def functions_of(text: str) -> dict[str, Function]:
    """The functions of a module, by name."""
    return {node.name: node for node in ast.parse(text).body if isinstance(node, Function)}


def edit_function(
    text: str, name: str, change: Callable[[Function], None], *, head: str = ""
) -> str:
    """A module with one function changed in place; `head` goes before the first function."""
    tree = ast.parse(text)
    first = next(i for i, node in enumerate(tree.body) if isinstance(node, Function))
    for node in tree.body:
        if isinstance(node, Function) and node.name == name:
            change(node)
            node.body = node.body or [ast.Pass()]
    tree.body[first:first] = ast.parse(head).body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def at_start(source: str) -> Callable[[Function], None]:
    """A change that inserts statements after a function's docstring."""

    def change(function: Function) -> None:
        start = 1 if ast.get_docstring(function) is not None else 0
        function.body[start:start] = ast.parse(source).body

    return change


def at_end(source: str) -> Callable[[Function], None]:
    """A change that inserts statements before a function's last one, its `return`."""

    def change(function: Function) -> None:
        function.body[-1:-1] = ast.parse(source).body

    return change


def instead(source: str) -> Callable[[Function], None]:
    """A change that replaces a function's body, except its docstring."""

    def change(function: Function) -> None:
        start = 1 if ast.get_docstring(function) is not None else 0
        function.body[start:] = ast.parse(source).body

    return change


def remove_statements(is_it: Callable[[ast.stmt], bool]) -> Callable[[Function], None]:
    """A change that removes statements at any depth."""

    class Dropped(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            for field in ("body", "orelse"):
                block = getattr(node, field, None)
                if isinstance(block, list) and block:
                    kept = [one for one in block if not is_it(one)]
                    setattr(node, field, kept or ([ast.Pass()] if field == "body" else []))
            return node

    def change(function: Function) -> None:
        Dropped().generic_visit(function)

    return change


def replace_node(old: ast.AST, new: Callable[[ast.AST], ast.AST]) -> Callable[[Function], None]:
    """A change that replaces the first node that is equal to `old`."""
    pattern = ast.dump(old)

    class Replaced(ast.NodeTransformer):
        done = False

        def visit(self, node: ast.AST) -> ast.AST:
            if not self.done and ast.dump(node) == pattern:
                self.done = True
                return new(node)
            return self.generic_visit(node)

    def change(function: Function) -> None:
        Replaced().generic_visit(function)

    return change


def calls_in(node: ast.AST, *, on: str) -> Iterator[ast.Call]:
    """The calls of methods of a variable, as `db.run(…)` with `on="db"`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and is_method(inner, on):
            yield inner


def is_method(call: ast.Call, on: str) -> bool:
    """Whether a call is one of a variable's methods."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == on
    )


def method(call: ast.Call) -> str:
    """Example: the call `db.run("…")` -> "run" """
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def call_of_statement(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement consists of; None: it is not only a call."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def texts_in(node: ast.AST) -> Iterator[str]:
    """The constant texts below a node, those of f-strings left out."""
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for inner in ast.iter_child_nodes(node):
        yield from texts_in(inner)


def replace_text(old: str, text: str) -> Callable[[Function], None]:
    """A change that replaces a constant text."""
    return replace_node(ast.Constant(old), lambda _: ast.Constant(text))


def reachable_functions(functions: dict[str, Function], names: Collection[str]) -> list[str]:
    """The functions that these call, directly or not, and themselves; sorted by name."""
    found, left = set(names) & functions.keys(), list(names)
    while left:
        if (function := functions.get(left.pop())) is None:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in functions and node.id not in found:
                found.add(node.id)
                left.append(node.id)
    return sorted(found)


def sql_word(text: str) -> str:
    """Example: "  UPDATE orders SET …" -> "UPDATE" """
    found = re.match(r"\s*([A-Za-z]+)\b", text)
    return found[1].upper() if found else ""

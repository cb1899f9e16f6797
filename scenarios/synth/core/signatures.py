"""Adding what a specification says about parameters to the functions that a model wrote.

A model writes plain types, and an agent would see parameters without a description. Here each
parameter gets the description and the range of its specification, from which a pool makes the
schema. Nothing is executed, and nothing but annotations and imports is changed.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rehearsal_room.scenarios.synth.core.world_drafts import ToolDraft, ToolParameter


class _Edit(NamedTuple):
    """New text in place of a part of a line, by offsets in UTF-8."""

    line: int  # from 0
    start: int
    end_line: int
    end: int
    text: str


def described(code: str, tools: Sequence[ToolDraft]) -> str:
    """The code with the descriptions and ranges of its tools' parameters.

    Example: "def extend(db: Db, days: int)" -> "def extend(db: Db, days: Annotated[int,
    Meta(ge=1, le=7, description="Days to add.")])", with two imports before the first function
    """
    code = re.sub(r"\r\n?", "\n", code)  # the lines that a tree counts
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return code  # an edited record; hosting reports it
    names = _Names(tree)
    by_name = {tool.name: tool for tool in tools}
    edits = [
        edit
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in by_name
        for edit in _edits(node, by_name[node.name].parameters, names)
    ]
    return _applied(code, [*edits, names.imports(tree)]) if edits else code


class _Names:
    """How a file names `Annotated` and `Meta`: with an underscore where the name is taken."""

    def __init__(self, tree: ast.Module) -> None:
        taken = {name for node in ast.walk(tree) for name in _bound_by(node)}
        self.annotated = "_Annotated" if "Annotated" in taken else "Annotated"
        self.meta = "_Meta" if "Meta" in taken else "Meta"

    def imports(self, tree: ast.Module) -> _Edit:
        """The imports, before the first statement that may need them."""
        first = next(node for node in tree.body if not _opens(node))
        decorators = getattr(first, "decorator_list", [])
        line = min([first.lineno, *(each.lineno for each in decorators)]) - 1
        pairs = (("typing", "Annotated", self.annotated), ("msgspec", "Meta", self.meta))
        text = "".join(
            f"from {module} import {name}{'' if name == used else f' as {used}'}\n"
            for module, name, used in pairs
        )
        return _Edit(line, 0, line, 0, text)


def _bound_by(node: ast.AST) -> tuple[str, ...]:
    """The names that a part of a file uses or defines."""
    match node:
        case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=asname):
            return (asname or name,)
    return ()


def _opens(node: ast.stmt) -> bool:
    """Whether a statement must stand before the imports: a docstring, `from __future__`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _edits(
    node: ast.FunctionDef, parameters: Mapping[str, ToolParameter], names: _Names
) -> Iterator[_Edit]:
    for argument, default in _arguments(node):
        parameter, annotation = parameters.get(argument.arg), argument.annotation
        if parameter is None or annotation is None:
            continue
        text = _annotation(annotation, parameter, default, names)
        if text and annotation.end_lineno is not None and annotation.end_col_offset is not None:
            yield _Edit(
                annotation.lineno - 1,
                annotation.col_offset,
                annotation.end_lineno - 1,
                annotation.end_col_offset,
                text,
            )


def _arguments(node: ast.FunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """The arguments of a function with their defaults; None: an argument has none."""
    positional = [*node.args.posonlyargs, *node.args.args]
    missing = len(positional) - len(node.args.defaults)
    yield from zip(positional, [*[None] * missing, *node.args.defaults], strict=True)
    yield from zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)


def _annotation(
    annotation: ast.expr, parameter: ToolParameter, default: ast.expr | None, names: _Names
) -> str:
    """An annotation with what the specification adds; empty: it adds nothing."""
    if ast.unparse(annotation).startswith((f"{names.annotated}[", "Annotated[")):
        return ""
    bounds = _bounds(parameter, default, whole="int" in ast.unparse(annotation))
    description = " ".join(parameter.description.split())
    shown = f"description={json.dumps(description, ensure_ascii=False)}" if description else ""
    if _is_number(annotation):  # one Meta says all
        facts = ", ".join(filter(None, [bounds, shown]))
        return _wrapped(ast.unparse(annotation), facts, names)
    inner = _with_bounds(annotation, bounds, names)
    if not shown and inner == ast.unparse(annotation):
        return ""
    return _wrapped(inner, shown, names)


def _wrapped(kind: str, facts: str, names: _Names) -> str:
    return f"{names.annotated}[{kind}, {names.meta}({facts})]" if facts else kind


def _bounds(parameter: ToolParameter, default: ast.expr | None, *, whole: bool) -> str:
    """The range as arguments of Meta; empty where there is none, where the default is outside, or
    where the code takes `whole` numbers and the range is of others."""
    pairs = (("ge", parameter.minimum), ("le", parameter.maximum))
    bounds = {word: bound for word, bound in pairs if bound is not None}
    if whole and any(bound != int(bound) for bound in bounds.values()):
        return ""
    value = default.value if isinstance(default, ast.Constant) else None
    if isinstance(value, int | float):
        low, high = bounds.get("ge", value), bounds.get("le", value)
        if not low <= value <= high:
            return ""
    return ", ".join(f"{word}={int(x) if whole else x!r}" for word, x in bounds.items())


def _with_bounds(annotation: ast.expr, bounds: str, names: _Names) -> str:
    """The text of an annotation such as `int | None`, with a range at its numbers."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = (annotation.left, annotation.right)
        return " | ".join(_with_bounds(side, bounds, names) for side in sides)
    text = ast.unparse(annotation)
    return _wrapped(text, bounds, names) if _is_number(annotation) else text


def _is_number(annotation: ast.expr) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id in ("int", "float")


def _applied(code: str, edits: Sequence[_Edit]) -> str:
    lines = [line.encode() for line in code.split("\n")]
    for edit in sorted(edits, reverse=True):
        head, tail = lines[edit.line][: edit.start], lines[edit.end_line][edit.end :]
        lines[edit.line : edit.end_line + 1] = [head + edit.text.encode() + tail]
    return b"\n".join(lines).decode()

"""Edits of a package's tools.py."""

import ast
from collections.abc import Callable, Iterable

from tests.devtools.defects.ast_edits import Function, edit_function, functions_of
from tests.devtools.defects.target import InjectedDefect, TargetPackage


def code_of(target: TargetPackage) -> str:
    """The text of tools.py."""
    return target.texts["tools.py"]


def in_tools(
    target: TargetPackage, name: str, change: Callable[[Function], None], *, head: str = ""
) -> InjectedDefect:
    """The package with one function of tools.py changed (see `edited`)."""
    return InjectedDefect(
        {"tools.py": edit_function(code_of(target), name, change, head=head)}, name
    )


def tools_of(target: TargetPackage, names: Iterable[str]) -> dict[str, Function]:
    """The functions of these tools, in a fixed order."""
    functions = functions_of(code_of(target))
    return {name: functions[name] for name in sorted(names) if name in functions}


def returning(change_value: Callable[[str], str]) -> Callable[[Function], None]:
    """A change of a function's last returned expression by `change_value`."""

    def change(function: Function) -> None:
        last = [node for node in ast.walk(function) if isinstance(node, ast.Return)][-1]
        value = ast.unparse(last.value) if last.value is not None else "None"
        last.value = ast.parse(change_value(value), mode="eval").body

    return change


def ids_of(target: TargetPackage, tool: str) -> list[str]:
    """The names of a tool's arguments that are keys of rows."""
    return [name for name in target.properties(tool) if name.endswith("_id")]

"""Edits of a package's tools.py."""

import ast
from collections.abc import Callable, Iterable

from judge.defects.ast_edits import Function, edited, functions_of
from judge.defects.subject import Planted, Subject


def code_of(subject: Subject) -> str:
    """The text of tools.py."""
    return subject.texts["tools.py"]


def in_tools(
    subject: Subject, name: str, change: Callable[[Function], None], *, head: str = ""
) -> Planted:
    """The package with one function of tools.py changed (see `edited`)."""
    return Planted({"tools.py": edited(code_of(subject), name, change, head=head)}, name)


def tools_of(subject: Subject, names: Iterable[str]) -> dict[str, Function]:
    """The functions of these tools, in a fixed order."""
    functions = functions_of(code_of(subject))
    return {name: functions[name] for name in sorted(names) if name in functions}


def returning(told: Callable[[str], str]) -> Callable[[Function], None]:
    """A change of what a function's last `return` gives: `told` makes the one of the other."""

    def change(function: Function) -> None:
        last = [node for node in ast.walk(function) if isinstance(node, ast.Return)][-1]
        value = ast.unparse(last.value) if last.value is not None else "None"
        last.value = ast.parse(told(value), mode="eval").body

    return change


def ids_of(subject: Subject, tool: str) -> list[str]:
    """The names of a tool's arguments that are keys of rows."""
    return [name for name in subject.properties(tool) if name.endswith("_id")]

"""Leaving functions out of a world's tools: they become helpers, which no agent sees.

A function that no call is known to complete is worse than none: an agent tries it in vain. Others
may call it, so it is renamed and not deleted.
"""

import ast
import re
from collections.abc import Collection, Iterator

import msgspec

from rehearsal_room.scenarios.synth.core.world_drafts import WorldDraft


def leave_out(draft: WorldDraft, names: Collection[str]) -> WorldDraft:
    """The draft without these tools, except those that cannot be renamed safely."""
    code = as_helpers(draft.code, names)
    kept = functions_of(code)
    tools = tuple(tool for tool in draft.tools if tool.name in kept)
    return msgspec.structs.replace(draft, tools=tools, code=code) if tools else draft


def functions_of(code: str) -> set[str]:
    """The names of a file's functions."""
    return {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}


def as_helpers(code: str, names: Collection[str]) -> str:
    """The code with these functions as helpers: an underscore before their names. A name
    that is also a variable or a parameter stays.

    Example: as_helpers("def f(db: Db): return g(db)", {"g"}) -> "def f(db: Db): return _g(db)"
    """
    code = re.sub(r"\r\n?", "\n", code)  # the lines that a tree counts
    tree = ast.parse(code)
    clear = set(names) - {name for node in ast.walk(tree) for name in _assigned(node)}
    lines = [line.encode() for line in code.split("\n")]
    found = {offset for node in ast.walk(tree) for offset in _occurrences(node, clear, lines)}
    for line, column in sorted(found, reverse=True):
        lines[line] = lines[line][:column] + b"_" + lines[line][column:]
    return b"\n".join(lines).decode()


def _assigned(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return (name,)
    return ()


def _occurrences(
    node: ast.AST, names: Collection[str], lines: list[bytes]
) -> Iterator[tuple[int, int]]:
    """Where a node has one of the names: line (from 0) and offset in UTF-8."""
    match node:
        case ast.Name(id=name) if name in names:
            yield node.lineno - 1, node.col_offset
        case ast.FunctionDef(name=name) if name in names:
            start = lines[node.lineno - 1].index(b"def", node.col_offset) + len(b"def")
            yield node.lineno - 1, lines[node.lineno - 1].index(name.encode(), start)

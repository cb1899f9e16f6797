"""The gate's look at a package's code and texts without running them."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from envpool.types import ToolSpec
from judge.chance import uses_of_chance
from scenarios.format import Scenario

_NAMED = re.compile(r"(?<![\w.@/-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w@/-]|\.\w)")


def sources_of(folder: Path) -> dict[str, str]:
    """The texts of a package's code, by file name."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("tools.py", "verify.py")}


def code_faults(
    scenario: Scenario, sources: Mapping[str, str], tools: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Check and sentence for each fault that reading the code tells."""
    for name, text in sources.items():
        for fault in uses_of_chance(scenario.path / name, text):
            yield "determinism", fault
    for fault in _idle_arguments(sources["tools.py"], tools):
        yield "tool", fault


def _idle_arguments(text: str, tools: Collection[str]) -> Iterator[str]:
    """Arguments that a tool takes and never looks at."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in tools:
            arguments = [*node.args.posonlyargs, *node.args.args][1:] + node.args.kwonlyargs
            for argument in arguments:
                if not _is_read(node, argument.arg):
                    yield f"{node.name} never looks at its argument {argument.arg!r}"


def _is_read(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function's body reads an argument before it puts something else there."""
    for statement in function.body:
        uses = [
            node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name
        ]
        if any(isinstance(node.ctx, ast.Load) for node in uses):
            return True
        if uses and isinstance(statement, ast.Assign | ast.Delete):
            return False
    return False


def unknown_names(policy: str, tools: Sequence[ToolSpec], words: Collection[str]) -> Iterator[str]:
    """Names of tools, arguments, tables or columns in the texts that agents read, which nothing
    has. Only names that are written like code, with underscores, count.

    `words` are those of the database: its tables, columns, constraints and values.
    """
    known = {tool.name for tool in tools}
    for tool in tools:
        known.update(_words(tool.schema))
    texts = [("the policy", policy), *((tool.name, tool.description) for tool in tools)]
    for place, text in texts:
        for name in dict.fromkeys(_NAMED.findall(text)):
            if name not in known and name not in words:
                yield f"{place} names `{name}`, and there is no such tool, argument or column"


def _words(schema: object) -> Iterator[str]:
    """Every key and text of a schema."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            yield from _words(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _words(item)
    elif isinstance(schema, str):
        yield schema

"""The gate's checks of a package's code and texts that do not run them."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.judge.gate.checks.policy_limits import contradictions
from rehearsal_room.judge.gate.checks.tools import EFFECT_VERBS
from rehearsal_room.judge.playback.nondeterminism import nodes_of, parsed, uses_of_chance
from rehearsal_room.scenarios.format import Scenario

_ALTERING = frozenset(
    {
        *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"),
        *("reverse", "setdefault", "sort", "update"),
    }
)
_ALTERING_NODES = frozenset({ast.Global, ast.Call, ast.Subscript})
_CHANGES = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|WITH)\b", re.IGNORECASE)
_NAMED = re.compile(r"(?<![\w.@/-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?![\w@/-]|\.\w)")


def sources_of(folder: Path) -> dict[str, str]:
    """The texts of a package's code, by file name."""
    return {name: (folder / name).read_text(encoding="utf-8") for name in ("tools.py", "verify.py")}


def code_faults(
    scenario: Scenario, sources: Mapping[str, str], tools: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The check and a sentence for each fault that the source code shows."""
    for name, text in sources.items():
        for fault in uses_of_chance(scenario.path / name, text):
            yield "determinism", fault
    for fault in contradictions(scenario.rules, sources["tools.py"]):
        yield "texts", fault
    for name, text in sources.items():
        for fault in module_state(name, text):
            yield "determinism", fault
    for fault in (
        *_unused_arguments(sources["tools.py"], tools),
        *_tools_without_effect(sources["tools.py"], tools),
    ):
        yield "tool", fault


def module_state(name: str, text: str) -> Iterator[str]:
    """A sentence for each module variable that a function modifies: it carries state from one
    episode to the next."""
    tree = parsed(text)
    variables = {target for node in tree.body for target in _assigned(node)}
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            altering = [node for node in nodes_of(function) if type(node) in _ALTERING_NODES]
            altered = [(node, _altered(node) & variables) for node in altering]
            if not any(names for _, names in altered):
                continue
            own = _own(function)
            for node, names in altered:
                for variable in sorted(names - own):
                    line = getattr(node, "lineno", 0)
                    why = "keeps its value from one episode to the next"
                    yield f"{name} line {line}: {variable} {why}"


def _own(function: ast.FunctionDef) -> set[str]:
    """The names of a function's local variables."""
    nodes = nodes_of(function)
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    stored = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return (stored | {node.arg for node in nodes if isinstance(node, ast.arg)}) - shared


def _assigned(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _altered(node: ast.AST) -> Set[str]:
    """The variables that one of the altering nodes modifies without assigning to them."""
    if isinstance(node, ast.Global):
        return set(node.names)
    found: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found = [node.func.value] if node.func.attr in _ALTERING else []
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        found = [node.value]
    return {one.id for one in found if isinstance(one, ast.Name)}


def _tools_without_effect(text: str, tools: Collection[str]) -> Iterator[str]:
    """Tools that are named like effects, but whose code writes nothing."""
    functions = {node.name: node for node in parsed(text).body if isinstance(node, ast.FunctionDef)}
    for name in functions:
        if (
            name in tools
            and name.split("_")[0] in EFFECT_VERBS
            and not _writes(name, functions, set())
        ):
            yield f"{name} is named like an effect, but nothing in its code writes"


def _writes(name: str, functions: Mapping[str, ast.FunctionDef], seen: set[str]) -> bool:
    """Whether a function, or one that it refers to, may change rows."""
    seen.add(name)
    for node in nodes_of(functions[name]):
        if isinstance(node, ast.Attribute) and node.attr in ("run", "insert"):
            return True
        if isinstance(node, ast.Constant) and _CHANGES.match(str(node.value)):
            return True
    named = {node.id for node in nodes_of(functions[name]) if isinstance(node, ast.Name)}
    inner = sorted(named & functions.keys())
    return any(_writes(one, functions, seen) for one in inner if one not in seen)


def _unused_arguments(text: str, tools: Collection[str]) -> Iterator[str]:
    """Arguments that a tool takes and never reads."""
    for node in parsed(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in tools:
            arguments = [*node.args.posonlyargs, *node.args.args][1:] + node.args.kwonlyargs
            for argument in arguments:
                if not _is_read(node, argument.arg):
                    yield f"{node.name} never reads its argument {argument.arg!r}"


def _is_read(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function's body reads an argument before it assigns to it."""
    for statement in function.body:
        uses = [
            node for node in nodes_of(statement) if isinstance(node, ast.Name) and node.id == name
        ]
        if any(isinstance(node.ctx, ast.Load) for node in uses):
            return True
        if uses and isinstance(statement, ast.Assign | ast.Delete):
            return False
    return False


def unknown_names(policy: str, tools: Sequence[ToolSpec], words: Collection[str]) -> Iterator[str]:
    """A sentence for each name in the texts that agents read that no tool, argument, table or
    column has. Only names that are written like code, with underscores, count.

    `words` are those of the database: its tables, columns, constraints and values.
    """
    known = {tool.name for tool in tools}
    for tool in tools:
        known.update(_words(tool.schema))
    texts = [("the policy", policy), *((tool.name, tool.description) for tool in tools)]
    for source, text in texts:
        for name in dict.fromkeys(_NAMED.findall(text)):
            if name not in known and name not in words:
                yield f"{source} names `{name}`, but there is no such tool, argument or column"


def _words(schema: object) -> Iterator[str]:
    """All keys and texts of a schema."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            yield from _words(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _words(item)
    elif isinstance(schema, str):
        yield schema

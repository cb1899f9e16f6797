"""Writing a draft as a package (see scenarios.format), completely or not at all.

A draft without tools or tasks gets placeholders, so that its other parts can be hosted.
"""

import ast
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tomli_w

from rehearsal_room.scenarios.errors import PackageError, SynthesisError
from rehearsal_room.scenarios.format import Call, Scenario, read
from rehearsal_room.scenarios.synth.core.protocols import Unhostable
from rehearsal_room.scenarios.synth.core.signatures import described
from rehearsal_room.scenarios.synth.core.world_drafts import ProvenTask, TaskDraft, WorldDraft

CLOCK = "2026-03-14T09:30:00Z"
VERSION = "1.0.0"
_NO_TOOLS = """from scenarios.api import Db, Row


def list_tables(db: Db) -> list[Row]:
    \"\"\"The tables.\"\"\"
    return db.all("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
"""
_UNWRITTEN_VERIFIER = """from scenarios.api import State
from scenarios.checks import Check, Finding


def {function}(before: State, after: State, answer: str) -> list[Finding]:
    \"\"\"Not written yet.\"\"\"
    check = Check(before, after, answer)
    check.goal("verifier", False, "one that is written", "none")
    return check.findings
"""


class SqlScript(msgspec.Struct, frozen=True):
    """Statements as one file, and the line on which each statement begins."""

    text: str
    lines: tuple[int, ...]

    def statement_at(self, line: int) -> int:
        """The number (from 1) of the statement that contains a line; 0: none does."""
        return sum(start <= line for start in self.lines)


def script_of(statements: Iterable[str]) -> SqlScript:
    """A script of these statements.

    Example: ("A", "B\\nC") -> SqlScript("A;\\n\\nB\\nC;\\n\\n", (1, 3))
    """
    text, lines = "", []
    for statement in statements:
        lines.append(text.count("\n") + 1)
        bare = statement.strip().rstrip(";").rstrip()
        end = "\n;" if "--" in bare.rpartition("\n")[2] else ";"  # a comment would hide the `;`
        text += f"{bare}{end}\n\n" if bare else "\n"
    return SqlScript(text, tuple(lines))


def package_texts(
    draft: WorldDraft, proofs: Mapping[str, Sequence[Call]] | None = None
) -> dict[str, str]:
    """The text of each of the package's files, by file name. `proofs` are calls that prove tools,
    by tool; those of tools that are left out are left out."""
    kept = {tool.name for tool in draft.tools}
    shown = {
        name: msgspec.to_builtins(calls)
        for name, calls in (proofs or {}).items()
        if name in kept and not _has_null(msgspec.to_builtins(calls))
    }
    head = {
        "name": draft.idea.key,
        "title": draft.idea.name.strip(),
        "version": VERSION,
        "description": " ".join(draft.idea.description.split()),
        "clock": CLOCK,
        "written_by": "model",
        "user": {
            "id": draft.plan.user.id,
            "name": draft.plan.user.name,
            "role": draft.plan.user.role,
        },
    } | ({"proofs": shown} if shown else {})
    proven = draft.proven or (_placeholder(),)
    return {
        "scenario.toml": tomli_w.dumps(head),
        "schema.sql": script_of(draft.schema).text,
        "data.sql": script_of(draft.data).text,
        "tools.py": described(draft.code, draft.tools) if draft.code else _NO_TOOLS,
        "policy.md": draft.plan.policy.strip() + "\n",
        "tasks.toml": tomli_w.dumps({"task": [_task(each) for each in proven]}),
        "verify.py": merge_python([each.verifier for each in proven]),
    }


def _has_null(value: Any) -> bool:
    """Whether a value contains null, which TOML lacks."""
    if isinstance(value, dict | list | tuple):
        return any(map(_has_null, value.values() if isinstance(value, dict) else value))
    return value is None


def unproven(task: TaskDraft, verifier: str = "") -> ProvenTask:
    """A task whose verifier is being tried out: it has no oracle yet."""
    source = verifier or _UNWRITTEN_VERIFIER.format(function=task.function)
    return ProvenTask(task, source, (), "unknown", "simple", 0, 0)


def _placeholder() -> ProvenTask:
    return unproven(TaskDraft("none", "question", "There is no task yet."))


def _task(proven: ProvenTask) -> dict[str, Any]:
    return {
        "id": proven.task.id,
        "difficulty": proven.difficulty,
        "kind": proven.task.kind,
        "instruction": proven.task.instruction,
        "answer": proven.answer,
        "oracle": [msgspec.to_builtins(call) for call in proven.oracle],
    }


def merge_python(sources: Sequence[str]) -> str:
    """Several files as one: their imports, without duplicates, then their functions.

    The sources were checked: they contain only imports, and functions with different names. A name
    that is imported from different modules, or is also the name of a function, is imported inside
    of each function that needs it.
    """
    trees = [ast.parse(source) for source in sources]
    bindings = {binding for tree in trees for binding in _bindings(tree)}
    counts = Counter(binding.name for binding in bindings)
    counts.update(n.name for tree in trees for n in tree.body if isinstance(n, ast.FunctionDef))
    shared = {binding for binding in bindings if counts[binding.name] == 1}
    functions = []
    for source, tree in zip(sources, trees, strict=True):
        own = sorted(set(_bindings(tree)) - shared)
        functions += [
            _function(source, node, own) for node in tree.body if isinstance(node, ast.FunctionDef)
        ]
    return "\n".join(_imports(shared)) + "\n\n\n" + "\n\n\n".join(functions) + "\n"


class _Binding(NamedTuple):
    """A name that an import binds. `module` empty: the import of a module itself."""

    module: str
    alias: str  # as it is written, such as `sqrt` or `sqrt as root`
    name: str


def _bindings(tree: ast.Module) -> Iterator[_Binding]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield _Binding(module, ast.unparse(alias), name)


def _imports(bindings: Iterable[_Binding]) -> list[str]:
    """The statements, those from `__future__` first, as Python requires."""
    aliases: dict[str, list[str]] = {}  # by module
    for binding in sorted(bindings):
        aliases.setdefault(binding.module, []).append(binding.alias)
    future = aliases.pop("__future__", [])
    plain = [f"import {alias}" for alias in aliases.pop("", [])]
    listed = [f"from {module} import {', '.join(aliases[module])}" for module in sorted(aliases)]
    return [*([f"from __future__ import {', '.join(future)}"] if future else []), *plain, *listed]


def _function(source: str, node: ast.FunctionDef, own: Sequence[_Binding]) -> str:
    """A function as it was written; unparsed where it gets its own imports."""
    if not own:
        return ast.get_source_segment(source, node) or ast.unparse(node)
    index = 1 if ast.get_docstring(node) is not None else 0
    node.body[index:index] = ast.parse("\n".join(_imports(own))).body
    return ast.unparse(node)


def write_package(folder: Path, texts: dict[str, str]) -> Scenario:
    """Write a package, replacing an earlier one, and return it as it was read.

    Raises SynthesisError when it cannot be written, Unhostable when it cannot be read.
    """
    fresh, old = (
        folder.with_name(f".{folder.name}.{os.getpid()}.{word}") for word in ("new", "old")
    )
    try:
        fresh.mkdir(parents=True)
        for name, text in texts.items():
            (fresh / name).write_bytes(text.encode(errors="replace"))
        if folder.exists():
            folder.rename(old)
        fresh.rename(folder)
    except OSError as exc:
        raise SynthesisError(f"{folder}: the package cannot be written: {exc}") from exc
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)
    try:
        return read(folder)
    except PackageError as exc:
        raise Unhostable("host", str(exc).replace(f"{folder}/", "")) from exc


def remove_package(folder: Path) -> None:
    """Remove a package if it exists, completely or not at all. Raises SynthesisError."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        folder.rename(old)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SynthesisError(f"{folder}: the package cannot be removed: {exc}") from exc
    shutil.rmtree(old, ignore_errors=True)

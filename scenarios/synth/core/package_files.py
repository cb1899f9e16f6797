"""From a draft to a package of ours (see scenarios.format), whole or not at all.

A draft that has no tools or no tasks yet gets stand-ins, so that what there is can be hosted.
"""

import ast
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import tomli_w

from scenarios.errors import PackageError, SynthesisError
from scenarios.format import Scenario, read
from scenarios.synth.core.protocols import Unhostable
from scenarios.synth.core.world_drafts import Draft, Proven, TaskDraft

CLOCK = "2026-03-14T09:30:00Z"
VERSION = "1.0.0"
_NO_TOOLS = """from scenarios.api import Db, Row


def list_tables(db: Db) -> list[Row]:
    \"\"\"The tables.\"\"\"
    return db.all("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
"""
_UNTRIED = """from scenarios.api import State
from scenarios.checks import Check, Finding


def {function}(before: State, after: State, answer: str) -> list[Finding]:
    \"\"\"Not written yet.\"\"\"
    check = Check(before, after, answer)
    check.goal("verifier", False, "one that is written", "none")
    return check.findings
"""


class Script(msgspec.Struct, frozen=True):
    """Statements as one file, and the line on which each begins."""

    text: str
    lines: tuple[int, ...]

    def statement_at(self, line: int) -> int:
        """Which statement (from 1) has a line; 0: none has."""
        return sum(start <= line for start in self.lines)


def script_of(statements: Iterable[str]) -> Script:
    """Statements one below the other.

    Example: ("A", "B\\nC") -> Script("A;\\n\\nB\\nC;\\n\\n", (1, 3))
    """
    text, lines = "", []
    for statement in statements:
        lines.append(text.count("\n") + 1)
        bare = statement.strip().rstrip(";").rstrip()
        end = "\n;" if "--" in bare.rpartition("\n")[2] else ";"  # a comment would swallow it
        text += f"{bare}{end}\n\n" if bare else "\n"
    return Script(text, tuple(lines))


def texts_of(draft: Draft) -> dict[str, str]:
    """The files of the package."""
    head = {
        "name": draft.idea.key,
        "title": draft.idea.name.strip(),
        "version": VERSION,
        "description": " ".join(draft.idea.description.split()),
        "clock": CLOCK,
        "written_by": "model",
        "user": {
            "id": draft.brief.user.id,
            "name": draft.brief.user.name,
            "role": draft.brief.user.role,
        },
    }
    proven = draft.proven or (_stand_in(),)
    return {
        "scenario.toml": tomli_w.dumps(head),
        "schema.sql": script_of(draft.schema).text,
        "data.sql": script_of(draft.data).text,
        "tools.py": draft.code or _NO_TOOLS,
        "policy.md": draft.brief.policy.strip() + "\n",
        "tasks.toml": tomli_w.dumps({"task": [_task(each) for each in proven]}),
        "verify.py": merged_python([each.verifier for each in proven]),
    }


def untried(task: TaskDraft, verifier: str = "") -> Proven:
    """A task whose verifier is tried out: it has no oracle yet."""
    source = verifier or _UNTRIED.format(function=task.function)
    return Proven(task, source, (), "unknown", "simple", 0, 0)


def _stand_in() -> Proven:
    return untried(TaskDraft("none", "question", "There is no task yet."))


def _task(proven: Proven) -> dict[str, Any]:
    return {
        "id": proven.task.id,
        "difficulty": proven.difficulty,
        "kind": proven.task.kind,
        "instruction": proven.task.instruction,
        "answer": proven.answer,
        "oracle": [msgspec.to_builtins(call) for call in proven.oracle],
    }


def merged_python(sources: Sequence[str]) -> str:
    """Several files as one: their imports, none twice, then their functions.

    The sources were checked: imports and functions of different names are all they have. A name
    that they import from different places, or that is a function's, is imported inside of each
    function that wants it.
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
    """What one import gives a name to. `module` empty: a module itself."""

    module: str
    alias: str  # as written, such as `sqrt` or `sqrt as root`
    name: str


def _bindings(tree: ast.Module) -> Iterator[_Binding]:
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield _Binding(module, ast.unparse(alias), name)


def _imports(bindings: Iterable[_Binding]) -> list[str]:
    """The statements, those from `__future__` first, as Python wants it."""
    froms: dict[str, list[str]] = {}
    for binding in sorted(bindings):
        froms.setdefault(binding.module, []).append(binding.alias)
    future = froms.pop("__future__", [])
    plain = [f"import {alias}" for alias in froms.pop("", [])]
    listed = [f"from {module} import {', '.join(froms[module])}" for module in sorted(froms)]
    return [*([f"from __future__ import {', '.join(future)}"] if future else []), *plain, *listed]


def _function(source: str, node: ast.FunctionDef, own: Sequence[_Binding]) -> str:
    """A function as it was written, or as Python writes it with imports of its own."""
    if not own:
        return ast.get_source_segment(source, node) or ast.unparse(node)
    place = 1 if ast.get_docstring(node) is not None else 0
    node.body[place:place] = ast.parse("\n".join(_imports(own))).body
    return ast.unparse(node)


def write(folder: Path, texts: dict[str, str]) -> Scenario:
    """Write a package in place of one that may be there, and read it. Raises SynthesisError when it
    cannot be written, Unhostable when it cannot be read."""
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
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
    try:
        return read(folder)
    except PackageError as exc:
        raise Unhostable("host", str(exc).replace(f"{folder}/", "")) from exc


def remove(folder: Path) -> None:
    """Remove a package if it is there, whole or not at all. Raises SynthesisError."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        folder.rename(old)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SynthesisError(f"{folder}: the package cannot be removed: {exc}") from exc
    shutil.rmtree(old, ignore_errors=True)

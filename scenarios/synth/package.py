"""From a draft to a package of ours (see scenarios.format), whole or not at all.

A draft that has no tools or no tasks yet gets stand-ins, so that what there is can be hosted.
"""

import ast
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from scenarios.errors import PackageError, SynthesisError
from scenarios.format import Scenario, read
from scenarios.synth.drafts import Draft, Proven, TaskDraft
from scenarios.synth.parts import Unhostable

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
        text += f"{bare};\n\n" if bare else "\n"
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

    The sources were checked: imports and functions of different names are all they have.
    """
    froms: dict[str, set[str]] = {}
    plain: set[str] = set()
    functions: list[str] = []
    for source in sources:
        for node in ast.parse(source).body:
            match node:
                case ast.ImportFrom(module=str(module), names=names):
                    froms.setdefault(module, set()).update(map(ast.unparse, names))
                case ast.Import():
                    plain.add(ast.unparse(node))
                case ast.FunctionDef():
                    functions.append(ast.get_source_segment(source, node) or ast.unparse(node))
    imports = [*sorted(plain)]
    imports += [
        f"from {module} import {', '.join(sorted(froms[module]))}" for module in sorted(froms)
    ]
    return "\n".join(imports) + "\n\n\n" + "\n\n\n".join(functions) + "\n"


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

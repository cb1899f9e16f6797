"""Texts that name our modules: each leads to a module that exists.

A text is not followed by type checkers and renames. Wherever code compares, imports or starts a
module by a text, these tests use the real module's name, so that a move breaks them.
"""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

import rehearsal_room
from rehearsal_room.envpool.hosting import dict_versions
from rehearsal_room.envpool.hosting.determinism import clock, value_kinds
from rehearsal_room.envpool.inprocess import world
from rehearsal_room.envpool.workers.integrity import IntegrityCheck, _is_definition
from rehearsal_room.harness.core import loop_lag
from tests.support.paths import ROOT

NAME = rehearsal_room.__name__
FIVE = ("envpool", "harness", "judge", "learner", "scenarios")
# Whole names in a text, and texts that are a name without the part that all share.
_WHOLE = re.compile(rf"\b{NAME}(?:\.\w+)+\.?")
_SHORT = re.compile(rf"(?:{'|'.join(FIVE)})(?:\.\w+)+\.?(?::\w+)?")
_IMPORT = re.compile(rf"^\s*(?:from|import) ({NAME}(?:\.\w+)+)", re.MULTILINE)
_QUOTED = re.compile(rf"{NAME}\.\w|[\"'](?:{'|'.join(FIVE)})\.\w")
_FILE = re.compile(r".*\.(?:csv|db|html|json|jsonl|md|py|sqlite|toml|txt)")
_NOT_OURS = ("scenarios/bundled", "scenarios/scaffold", "tests/fixtures")
_CODE = ("benchmarks", "docs/hooks", "examples", "packages", "tests")
_OTHER = (
    *("pyproject.toml", "justfile", "mkdocs.yml", "Dockerfile", ".ci/run", ".github/**/*.yml"),
    *(
        "*.md",
        "docs/*.md",
        "docs/[!de]*/*.md",
        "[!.]*/**/*.sh",
        "tests/**/*.toml",
        "configs/**/*.toml",
    ),
)


def our_code() -> Iterator[Path]:
    """The Python files whose texts are looked through: worlds' own files are not ours."""
    for folder in (*FIVE, f"src/{NAME}", *_CODE):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inside = path.relative_to(ROOT).as_posix()
            if not inside.startswith((*_NOT_OURS, "tests/test_module_names.py")):
                yield path


def texts_of(code: str) -> Iterator[str]:
    """The texts in a file of Python code, docstrings left out."""
    tree = ast.parse(code)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def names_in(text: str) -> list[str]:
    """Our modules that a text names, by their whole names.

    Example: "judge.core:find" -> ["rehearsal_room.judge.core:find"]
    """
    if _SHORT.fullmatch(text) and not _FILE.fullmatch(text):
        return [f"{NAME}.{text}"]
    return _WHOLE.findall(text)


@cache
def exists(name: str) -> bool:
    """Whether a name leads to a module, to a package or to something that a module names. Tests
    for what is missing have names of their own."""
    parts = re.split(r"[.:]", name.rstrip("."))
    if parts[-1] in ("nothing", "broken_module"):
        return True
    for length in range(len(parts), 0, -1):
        path = _path_of(".".join(parts[:length]))
        if path is not None:
            rest = parts[length:]
            return not rest or re.search(rf"\b{rest[0]}\b", path.read_text()) is not None
    return False


def _path_of(module: str) -> Path | None:
    """The file of a module; None: there is no such module. Nothing is imported."""
    parts = module.split(".")[1:]
    files = (Path(*parts, "__init__.py"), *([Path(*parts).with_suffix(".py")] if parts else []))
    found = (Path(folder, file) for folder in rehearsal_room.__path__ for file in files)
    return next((path for path in found if path.exists()), None)


def names_of(path: Path) -> Iterator[str]:
    """The names of our modules in a file of Python code, those in programs in texts included."""
    text = path.read_text(encoding="utf-8")
    yield from _IMPORT.findall(text)
    if _QUOTED.search(_IMPORT.sub("", text)):  # to parse every file takes ten seconds
        for each in texts_of(text):
            yield from names_in(each)


def test_every_text_that_names_a_module_of_ours_names_one_that_exists() -> None:
    """Prefixes, targets of import_module, words after `-m` and programs in texts alike."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in our_code()
        for name in names_of(path)
        if not exists(name)
    ]
    assert wrong == []


def test_every_file_that_names_a_module_of_ours_names_one_that_exists() -> None:
    """Configurations, scripts and documents that describe the present."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for pattern in _OTHER
        for path in sorted(ROOT.glob(pattern))
        for name in _WHOLE.findall(path.read_text(encoding="utf-8"))
        if not exists(name)
    ]
    assert wrong == []


def test_a_name_that_leads_nowhere_is_seen() -> None:
    """Module, attribute and prefix, in each form in which code writes them."""
    program = "import rehearsal_room.judge.no\n"
    assert names_in(program) == ["rehearsal_room.judge.no"]
    assert names_in("harness.log.reader:open_reader") == [
        "rehearsal_room.harness.log.reader:open_reader"
    ]
    assert names_in("judge.toml") == names_in("the judge. He") == []
    there = ("harness.log.reader:open_reader", "harness.log.", "harness.log.reader.open_reader")
    gone = ("harness.log.reader:no_such", "harness.logs.", "harness.log.reader_of", "simulator.x")
    assert [exists(f"{NAME}.{name}") for name in (*there, *gone)] == [True] * 3 + [False] * 4


def modules_below(prefix: str) -> list[str]:
    """The names of our modules that begin with a prefix."""
    paths = [path for folder in FIVE for path in sorted((ROOT / folder).rglob("*.py"))]
    names = (".".join((NAME, *path.relative_to(ROOT).with_suffix("").parts)) for path in paths)
    return [name for name in names if name.startswith(prefix) and not name.endswith("__init__")]


def called_in(module: ModuleType, function: Any) -> Any:
    """A function in this module's namespace, with its real name, that calls another one."""
    code = compile("def call():\n    return work()\n", str(module.__file__), "exec")
    inner = next(const for const in code.co_consts if isinstance(const, CodeType))
    return FunctionType(inner, {**vars(module), "work": function})


_FOREIGN: dict[str, Any] = {"__name__": "their_code", "sys": sys}
exec("def work():\n    return sys._getframe()\n", _FOREIGN)


@pytest.mark.parametrize(("prefix", "role"), loop_lag._ROLES)
def test_code_that_a_module_of_ours_calls_has_its_role(prefix: str, role: str) -> None:
    """For each prefix there is a module that no earlier prefix matches, and what it calls has the
    role that stands there."""
    earlier = [each for each, _ in loop_lag._ROLES[: loop_lag._ROLES.index((prefix, role))]]
    names = [name for name in modules_below(prefix) if not name.startswith(tuple(earlier))]
    spec = importlib.util.find_spec(names[0])
    assert spec is not None
    frame = called_in(importlib.util.module_from_spec(spec), _FOREIGN["work"])()
    assert loop_lag.culprit_of(frame) == f"{role} work (<string>:2)"


def test_our_stand_ins_for_library_functions_are_no_culprits() -> None:
    """A tool that waits in our clock is named itself."""
    tool: dict[str, Any] = {"__name__": "tools", "wait": called_in(clock, sys._getframe)}
    exec("def find_orders():\n    return wait()\n", tool)
    frame = called_in(world, tool["find_orders"])()
    assert frame.f_globals["__name__"] == clock.__name__
    assert loop_lag.culprit_of(frame) == "tool find_orders (<string>:2)"


def test_the_watch_does_not_name_itself() -> None:
    """What loop_lag's own code runs is nobody's lag, though a tool has called it."""
    frame = called_in(world, called_in(loop_lag, _FOREIGN["work"]))()
    assert loop_lag.culprit_of(frame) == ""


def test_objects_of_ours_are_no_state_of_a_world() -> None:
    """For the isolation of generated code an instance of a class of envpool is stateless, and our
    container is opaque; those of a stranger's classes are state."""

    class OurList(list[int]):
        __module__ = dict_versions.__name__

    class Other(list[int]):
        __module__ = "their_code"

    assert value_kinds.value_kind(dict_versions.DictVersions(())) == "stateless"
    assert value_kinds.value_kind(OurList()) == "opaque"
    assert value_kinds.extends_library_internals(OurList)
    for stranger in ("their_code", loop_lag.__name__, "envpool.core", f"{NAME}"):
        Other.__module__ = stranger
        assert value_kinds.value_kind(Other()) == "container"
        assert not value_kinds.extends_library_internals(Other)


def test_the_integrity_check_covers_every_module_of_envpool() -> None:
    """Each loaded module of envpool that defines something is watched, and so are its classes."""
    watched = [names for names, _ in IntegrityCheck()._namespaces]
    package = ".".join(dict_versions.__name__.split(".")[:2])
    loaded = [module for name, module in sys.modules.items() if name.startswith(f"{package}.")]
    assert len(loaded) > 20
    missing = [
        module.__name__
        for module in loaded
        if any(map(_is_definition, vars(module).values()))
        if not any(names is vars(module) for names in watched)
    ]
    assert missing == []
    classes = {names.get("__module__") for names in watched if "__qualname__" not in names}
    assert dict_versions.__name__ in classes

"""Worlds write `from scenarios.api import Db`: the alias is our module, for the package's life."""

import builtins
import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from rehearsal_room.envpool.core.errors import ToolsetError
from rehearsal_room.envpool.inprocess.toolset import load, load_module
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.scenarios import api, checks, errors
from rehearsal_room.scenarios.catalogue import bundled_names
from rehearsal_room.scenarios.format import read
from rehearsal_room.scenarios.synth.core.code_rules import (
    TOOL_IMPORTS,
    VERIFIER_IMPORTS,
    code_faults,
)
from tests.support import mini_world
from tests.support.cases import code_judge
from tests.support.ledger_world import ledger
from tests.support.paths import ROOT

World = Callable[..., ModuleType]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Loads a text as a file of a package; another name is another package."""

    def load_text(text: str, name: str = "one") -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return load_module(path, f"rehearsal_{name}_tools")

    return load_text


@pytest.mark.parametrize(
    "line",
    [
        "from scenarios.api import Db",
        "from scenarios import api; Db = api.Db",
        "import scenarios.api; Db = scenarios.api.Db",
        "import scenarios.api as known; Db = known.Db",
        "import scenarios; Db = scenarios.api.Db",
        "from scenarios.api import *",
        "Db = __import__('scenarios.api', fromlist=['Db']).Db",
        "Db = __import__('scenarios.api').api.Db",
        "exec('from scenarios.api import Db')",
        "from rehearsal_room.scenarios.api import Db",
        "import rehearsal_room.scenarios.api; Db = rehearsal_room.scenarios.api.Db",
    ],
)
def test_each_way_of_writing_it_gives_our_class(world: World, line: str) -> None:
    """Whichever way a world imports it, under either name, `Db` is the one that the pool passes."""
    assert world(line).Db is api.Db


def test_the_modules_are_the_same_objects(world: World) -> None:
    """The three modules that worlds know are ours, not copies."""
    module = world(
        "from scenarios import api, checks, errors\n"
        "import scenarios.checks\n"
        "from scenarios.errors import ToolError\n"
    )
    assert (module.api, module.checks, module.errors) == (api, checks, errors)
    assert module.scenarios is sys.modules["rehearsal_room.scenarios"]
    assert module.scenarios.checks is checks
    assert module.ToolError is errors.ToolError


def test_other_imports_are_those_of_everyone(world: World) -> None:
    """Libraries, submodules and names that only begin alike are imported as usual."""
    module = world(
        "import os.path, json\nfrom collections import abc\nfrom msgspec import Struct\n"
    )
    assert (module.json, module.Struct) == (sys.modules["json"], msgspec.Struct)
    assert module.os.path is sys.modules["os.path"]
    with pytest.raises(ToolsetError, match="No module named 'scenarios_of_mine'"):
        world("import scenarios_of_mine")


def test_an_import_inside_a_function_works_much_later(world: World, tmp_path: Path) -> None:
    """A verifier that imports when it is called finds our module, after another package was loaded
    and the file is gone, and in another thread."""
    module = world("def check(kind):\n    from scenarios.checks import Finding\n    return Finding")
    world("x = 1", "two")
    (tmp_path / "one.py").unlink()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(module.check("any")))
    thread.start()
    thread.join()
    assert found == [checks.Finding]


def test_a_verifier_imports_when_it_is_called(tmp_path: Path) -> None:
    """The same in a world's own verifier: the verdict is that of the world as it is."""
    plain = '    check = Check(before, after, answer)\n    check.updated("members", 2'
    late = plain.replace("check = ", "import scenarios.checks\n    check = scenarios.checks.")
    late_world = HostedScenario(read(mini_world.variant(tmp_path, verify=(plain, late))))
    for world in (late_world, mini_world.library()):
        judged = code_judge(world).verdict_at_once(mini_world.oracle(world, "pay-fine"))
        assert judged.label == "completed"
        assert [finding.passed for finding in judged.findings] == [True, True, True]


def test_two_threads_load_and_import_at_once(world: World) -> None:
    """Packages that are loaded side by side, each importing in its functions, get our modules."""
    late = "def late():\n    import scenarios.checks\n    return scenarios"
    text = f"from scenarios.api import Db\n{late}"
    start, found, ours = threading.Barrier(8), [], sys.modules["rehearsal_room.scenarios"]

    def run(number: int) -> None:
        start.wait()
        for turn in range(20):
            module = world(text, f"thread_{number}_{turn}")
            found.append((module.Db is api.Db, module.late() is ours))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(True, True)] * 160


@pytest.mark.parametrize("kind", ["module", "folder"])
def test_a_users_own_scenarios_is_neither_used_nor_touched(
    world: World, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module or folder `scenarios` of the user's, imported or not yet, stays what it is."""
    mine = tmp_path / "beside"
    mine.mkdir()
    if kind == "module":
        (mine / "scenarios.py").write_text("OWNER = 'user'\n")
    else:
        (mine / "scenarios").mkdir()
        (mine / "scenarios" / "__init__.py").write_text("OWNER = 'user'\n")
        (mine / "scenarios" / "api.py").write_text("Db = 'user'\n")
    monkeypatch.syspath_prepend(str(mine))
    assert world("from scenarios.api import Db").Db is api.Db
    assert "scenarios" not in sys.modules  # it was not imported on the way either
    theirs = importlib.import_module("scenarios")
    try:
        names = dict(vars(theirs))
        module = world("import scenarios\nfrom scenarios.api import Db", "two")
        assert module.Db is api.Db
        assert module.scenarios is not theirs
        assert sys.modules["scenarios"] is theirs
        assert vars(theirs) == names
        assert "scenarios.api" not in sys.modules
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "scenarios"]:
            del sys.modules[name]


def test_types_of_a_world_are_converted_and_pickled(world: World) -> None:
    """Structs whose annotations are texts, dataclasses and classes of a world work as in any
    module; ours are pickled under our name."""
    module = world(
        "from __future__ import annotations\n"
        "import dataclasses, pickle\n"
        "import msgspec\n"
        "from scenarios.api import User\n"
        "class Line(msgspec.Struct):\n    sku: str\n    by: User | None = None\n"
        "@dataclasses.dataclass\nclass Pair:\n    left: Line\n    right: int = 0\n"
        "def again(value):\n    return pickle.loads(pickle.dumps(value))\n"
    )
    line = msgspec.convert({"sku": "a", "by": {"id": "1", "name": "A", "role": "r"}}, module.Line)
    assert line.by == api.User("1", "A", "r")
    pair = module.Pair(line)
    assert module.again(pair) == pickle.loads(pickle.dumps(pair)) == pair
    assert b"rehearsal_room.scenarios.api" in pickle.dumps(line.by)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import scenarios.nothing", "ModuleNotFoundError: No module named 'scenarios.nothing'"),
        ("from scenarios.no import x", "ModuleNotFoundError: No module named 'scenarios.no'"),
        ("from scenarios.api.x import y", "ModuleNotFoundError: No module named 'scenarios.api.x'"),
        ("import nothing.at_all", "ModuleNotFoundError: No module named 'nothing'"),
        ("from scenarios.api import Nope", "ImportError: cannot import name 'Nope' from 'reh"),
    ],
)
def test_what_is_missing_is_named_as_the_world_wrote_it(
    world: World, line: str, message: str
) -> None:
    """The sentence for the package's author has his words."""
    with pytest.raises(ToolsetError) as caught:
        world(line)
    assert f": {message}" in str(caught.value)


def test_a_missing_module_can_be_caught(world: World) -> None:
    """The error has the name that the world asked for, so that `except` can look at it."""
    module = world(
        "try:\n    import scenarios.nothing\n"
        "except ModuleNotFoundError as exc:\n    name = exc.name\n"
    )
    assert module.name == "scenarios.nothing"


@pytest.mark.parametrize("rules", [TOOL_IMPORTS, VERIFIER_IMPORTS], ids=["tools", "verifiers"])
def test_the_rules_for_generated_code_accept_what_can_be_loaded(
    world: World, rules: frozenset[str]
) -> None:
    """Each of our modules that generated code may import is accepted under both names, and both
    lines load the same module."""
    ours = sorted(name for name in rules if name.startswith("scenarios."))
    assert len(ours) == 2
    for name in ours:
        both = [f"from {prefix}{name} import *" for prefix in ("", "rehearsal_room.")]
        assert [code_faults(line, rules) for line in both] == [[], []]
        short, long = (f"import {prefix}{name} as x" for prefix in ("", "rehearsal_room."))
        assert world(short).x is world(long).x
    for line in ("import scenarios.catalogue", "import rehearsal_room.scenarios.catalogue"):
        assert len(code_faults(line, rules)) == 1


@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_world_puts_no_alias_into_the_process(name: str) -> None:
    """After its tools and verifier were loaded and a verdict given, `sys.modules` has nothing under
    the name that they import."""
    code = (
        "import sys\n"
        "from rehearsal_room.scenarios.catalogue import find\n"
        "from rehearsal_room.envpool.inprocess.toolset import load\n"
        "from rehearsal_room.envpool.inprocess.world import HostedScenario\n"
        f"world = HostedScenario(find({name!r}))\n"
        "task = world.scenario.tasks[0]\n"
        "lease = world.lease()\n"
        "results = [lease.call(call.name, call.arguments) for call in task.oracle]\n"
        "assert all(result.error is None for result in results)\n"
        "print(sum(name.endswith(('_tools', '_verify')) for name in sys.modules))\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'scenarios'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "1\n[]\n"


def test_a_world_that_changes_its_builtins_changes_nothing_else(world: World) -> None:
    """What a world puts into its own builtins is not in those of the process or of other worlds."""
    first = world(
        "from scenarios.api import Db\n"
        "__builtins__['len'] = lambda _: -1\n"
        "__builtins__['mine'] = 1\n"
        "del __builtins__['__import__']\n"
        "def size(): return len([1, 2])\n"
    )
    second = world("from scenarios.api import Db\ndef size(): return len([1, 2])\n", "two")
    assert (first.size(), second.size(), len([1, 2])) == (-1, 2, 2)
    assert not hasattr(builtins, "mine")
    assert builtins.__import__("json") is sys.modules["json"]
    with pytest.raises(ToolsetError, match="name 'mine' is not defined"):
        world("mine", "three")


def test_a_tool_takes_our_db_under_both_names(tmp_path: Path) -> None:
    """A function is a tool under either name, and its schema is the same."""
    text = '{}\ndef ping(db: Db, times: int = 1) -> str:\n    """Say pong."""\n    return "pong"\n'
    old, new = (
        load(ledger(tmp_path / str(number), tools_py=text.format(line)))
        for number, line in enumerate(
            ("from scenarios.api import Db", "from rehearsal_room.scenarios.api import Db")
        )
    )
    assert old["ping"].spec == new["ping"].spec

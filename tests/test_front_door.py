"""The public API: `import rehearsal_room as rr`."""

import ast
import re
import subprocess
import sys

import pytest

import rehearsal_room as rr
from tests.support.paths import ROOT

INIT = ROOT / "src" / "rehearsal_room" / "__init__.py"


@pytest.mark.parametrize("name", dir(rr))
def test_a_name_is_what_its_module_defines(name: str) -> None:
    """Each public name is a class or function with a docstring, from one of our modules."""
    value = getattr(rr, name)
    assert callable(value)
    assert value.__doc__
    assert value.__module__.startswith("rehearsal_room.")


def test_the_names_are_the_documented_and_typed_ones() -> None:
    """The docstring, the imports for type checkers and `dir` agree."""
    tree = ast.parse(INIT.read_text())
    typed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rehearsal_room.")
        for alias in node.names
    }
    assert typed == set(dir(rr))
    documented = set(re.findall(r"`(\w+)`", rr.__doc__ or ""))
    assert documented == set(dir(rr))


def test_a_name_that_does_not_exist() -> None:
    """It is an AttributeError, as for any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        rr.nothing  # noqa: B018


def test_the_import_imports_nothing_else() -> None:
    """A process that imports the package has none of its modules until it uses a name."""
    code = (
        "import sys, rehearsal_room\n"
        "def ours(): return sorted(name for name in sys.modules if 'rehearsal_room' in name)\n"
        "print(ours()); rehearsal_room.Limits; print('rehearsal_room.harness' in ours())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['rehearsal_room']\nTrue\n"

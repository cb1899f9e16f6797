"""tests/support/README.md is the index of tests/support."""

import re

from tests.support.paths import TESTS

SUPPORT = TESTS / "support"
LINE = re.compile(r"^\| `(\w+)` \| (\S.*\S) \|$", re.MULTILINE)


def test_every_module_has_one_line() -> None:
    """Each module and each folder stands there once, with what it is, and nothing else does."""
    lines = LINE.findall((SUPPORT / "README.md").read_text(encoding="utf-8"))
    modules = [path.stem for path in SUPPORT.glob("*.py") if path.stem != "__init__"]
    folders = [path.parent.name for path in SUPPORT.glob("*/__init__.py")]
    assert sorted(name for name, _ in lines) == sorted([*modules, *folders])


def test_modules_of_a_section_are_in_order() -> None:
    """So that a new module has one place in its section."""
    sections = (SUPPORT / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    names = [[name for name, _ in LINE.findall(section)] for section in sections]
    assert all(section and section == sorted(section) for section in names)

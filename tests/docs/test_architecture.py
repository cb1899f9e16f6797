"""ARCHITECTURE.md describes the tree as it is."""

import re
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PACKAGES = ("scenarios", "envpool", "harness", "judge", "learner", "src/rehearsal_room")
# World packages, and business modules of the generator: one folder each, of any number.
ONE_EACH = ("scenarios/bundled/", "scenarios/scaffold/world", "scenarios/generate/modules/")


def folders_with_modules() -> Iterator[str]:
    """The folders of the five packages and the roof that have a module besides `__init__`."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if any(parent.is_symlink() for parent in path.parents) or path.name == "__init__.py":
                continue
            folder = path.parent.relative_to(ROOT).as_posix()
            if not folder.startswith(ONE_EACH):
                yield folder


def test_the_map_has_every_folder_and_no_other() -> None:
    """Each folder with modules has one row in the map, and each row is such a folder."""
    rows = re.findall(r"^\| `([\w/]+)` \| [^|]+ \|$", TEXT.partition("\n## Map\n")[2], re.MULTILINE)

    assert sorted(rows) == sorted(set(folders_with_modules()))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+[\w.]+)`", TEXT))))
def test_a_path_that_is_named_exists(path: str) -> None:
    """Files and folders that the page names are in the repository."""
    assert (ROOT / path).exists()


def test_a_class_that_is_named_exists() -> None:
    """Each name in capitals, such as `RoutingPool`, is a class or a type of the code."""
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    )
    defined = set(re.findall(r"^(?:class (\w+)|(\w+) = )", code, re.MULTILINE))
    names = {name for pair in defined for name in pair if name}

    assert set(re.findall(r"`((?:[A-Z][a-z]+){2,})`", TEXT)) - names == set()

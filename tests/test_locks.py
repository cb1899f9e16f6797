"""The pinned packages of a release: the versions with which the tests run, each with its hashes."""

import re

import pytest

from tests.support.paths import ROOT

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_ENTRY = re.compile(
    r"^(\S+==\S+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)+)$", re.MULTILINE
)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: str) -> dict[str, str]:
    return {normal(name): version for name, version in _PIN.findall((ROOT / path).read_text())}


@pytest.mark.parametrize("name", ["core", "extras", "release"])
def test_every_pinned_package_has_hashes(name: str) -> None:
    """pip refuses a file whose content is not one of those that were locked."""
    text = (ROOT / "locks" / f"{name}.txt").read_text()
    assert len(_ENTRY.findall(text)) == len(pins(f"locks/{name}.txt")) > 0


@pytest.mark.parametrize("name", ["core", "extras"])
def test_a_release_has_the_versions_that_the_tests_run_with(name: str) -> None:
    """Where constraints.txt names a package, locks/ has the same version (`just lock-hashes`)."""
    tested, locked = pins("constraints.txt"), pins(f"locks/{name}.txt")
    both = tested.keys() & locked.keys()
    assert {one: locked[one] for one in both} == {one: tested[one] for one in both}
    assert {"aiohttp", "anyio", "apsw", "click", "msgspec", "rich"} <= both


def test_every_dependency_is_locked() -> None:
    """locks/core.txt has what pyproject.toml depends on."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    needed = {normal(name) for name in re.findall(r'^ +"([A-Za-z0-9._-]+)', listed, re.MULTILINE)}
    assert needed
    assert needed <= pins("locks/core.txt").keys()

"""A namespace's version tells whether it has changed."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from rehearsal_room.envpool.hosting import dict_versions
from rehearsal_room.envpool.hosting.dict_versions import DictVersions

_CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another value": lambda names: names.update(a=object()),
    "a new name": lambda names: names.update(z=1),
    "a name less": lambda names: names.pop("a"),
    "replaced and put back": lambda names: names.update(a=names.pop("a")),
}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions of Python may lack it")
def test_this_python_has_versions() -> None:
    """On Python 3.11 versions are used, so that a check does not touch what it checks."""
    assert dict_versions.HAS_VERSIONS


@pytest.mark.parametrize("has_versions", [True, False])
@pytest.mark.parametrize("change", _CHANGES.values(), ids=_CHANGES)
def test_a_change_is_seen(
    change: Callable[[dict[str, Any]], Any], has_versions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly the namespace that has changed is named; without versions, all of them are."""
    monkeypatch.setattr(dict_versions, "HAS_VERSIONS", has_versions)
    namespaces: list[dict[str, Any]] = [{"a": 1}, {"a": 2}, {"a": 3}]
    versions = DictVersions(namespaces)
    before = versions.read()
    change(namespaces[1])
    expected = [1] if has_versions else [0, 1, 2]
    assert [*versions.changed(before, versions.read())] == expected


@pytest.mark.skipif(not dict_versions.HAS_VERSIONS, reason="this Python has no versions")
def test_reading_is_no_change() -> None:
    """Reading the names of a class changes nothing; an attribute of the class does."""

    class Owner:
        value = 1

    versions = DictVersions([vars(Owner)])
    before = versions.read()
    assert [Owner.value, vars(Owner)["value"], Owner().value, dict(vars(Owner))["value"]] == [1] * 4
    assert [*versions.changed(before, versions.read())] == []
    Owner.value = 2
    assert [*versions.changed(before, versions.read())] == [0]

"""The integrity check finds a replaced definition of our modules, with and without versions."""

from typing import Any

import pytest

from rehearsal_room.envpool.hosting import dict_versions, routes
from rehearsal_room.envpool.workers.integrity import IntegrityCheck


class _Liar:
    """An object that is equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("has_versions", [True, False])
@pytest.mark.parametrize("value", [_Liar(), None, len], ids=["liar", "nothing", "other"])
def test_a_replaced_function_is_found_and_restored(
    value: Any, has_versions: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Definitions are compared by identity, and a module's are put back."""
    if has_versions and not dict_versions.HAS_VERSIONS:
        pytest.skip("this Python has no versions")
    monkeypatch.setattr(dict_versions, "HAS_VERSIONS", has_versions)
    check, original = IntegrityCheck(), routes.compile_routes
    assert check.changed_name() == ""
    monkeypatch.setattr(routes, "compile_routes", value)
    assert check.changed_name() == f"a name in {routes.__name__}"
    assert routes.compile_routes is original
    monkeypatch.undo()
    assert check.changed_name() == ""


def test_data_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name is allowed; a definition that is missing is found."""
    check = IntegrityCheck()
    monkeypatch.setattr(routes, "_a_new_name", 1, raising=False)
    assert check.changed_name() == ""
    monkeypatch.delattr(routes, "compile_routes")
    assert check.changed_name() == f"a name in {routes.__name__}"

"""Dialects by name."""

import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.registry import dialect_of


def test_an_unknown_dialect() -> None:
    """The error for a wrong name is one sentence with the right ones."""
    expected = r"there is no dialect 'xml' \(expected one of native, hermes, awm, awm-tool, tau2\)"
    with pytest.raises(SettingsError, match=expected):
        dialect_of("xml")

"""Dialects by name."""

import pytest

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.dialects.mcp_universe import PREFIX
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.scenarios.suites.catalogue import SUITES


def test_an_unknown_dialect() -> None:
    """The error for a wrong name is one sentence with the right ones."""
    expected = r"there is no dialect 'xml' \(expected one of native, hermes, awm, awm-tool, tau2\)"
    with pytest.raises(SettingsError, match=expected):
        dialect_of("xml")


def test_benchmarks_read_replies_that_were_cut_off() -> None:
    """As their own runners do; ours end the episode."""
    named = [one.upstream.dialect for one in SUITES.values() if one.upstream is not None]
    asked = [f"{PREFIX}9" if PREFIX.startswith(name) else name for name in named]
    assert {name: dialect_of(name).reads_cut_replies for name in asked} == dict.fromkeys(
        asked, True
    )
    assert not dialect_of("native").reads_cut_replies

"""Every family of the table is equal to its plain rows or refused, as the page states."""

import pytest

from tests.support.budgets import IS_LONG
from tests.support.families import FAMILIES
from tests.support.family_table import committed_rows, measure

# Windows and soft caps, values that are narrower than keys, recurrent layers. test_family_test has
# sinks, experts, and a head scaling. All families: `just test-long`.
FEW = ("Gemma 2", "Falcon-H1")


@pytest.mark.parametrize("family", FAMILIES if IS_LONG else FEW)
def test_a_family_is_as_the_page_states(family: str) -> None:
    """What the page calls equal differs from plain rows by less than 1e-5; all else is refused.
    (`just test` takes two families, `just test-long` all of them.)"""
    assert str(measure(family)) in committed_rows()


def test_the_page_has_every_family() -> None:
    """The committed table has the families that are measured, in their order, at least 25."""
    named = [row.split("|")[1].strip() for row in committed_rows()]
    assert named == list(FAMILIES)
    assert len(named) >= 25

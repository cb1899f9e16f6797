"""Reading plays: who played a package's tasks, and a sentence for every fault."""

from pathlib import Path

import pytest

from rehearsal_room.authoring.catalogue import catalogue_figures
from rehearsal_room.authoring.html import page_of
from rehearsal_room.authoring.metrics import world_figures
from rehearsal_room.authoring.plays import PLAYS, PlayerResult, plays_of
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.errors import PackageError
from tests.support.ledger_world import ledger

PLAYED = """
[[played]]
by = "a person"
on = "2026-11-23"
max_steps = 40
failed = ["open"]
"""


def test_plays_are_read_and_shown(tmp_path: Path) -> None:
    """The file is optional, is shown on the catalogue page, and leaves the digest as it is."""
    without = ledger(tmp_path)
    assert plays_of(without) == ()
    (tmp_path / PLAYS).write_text(PLAYED)
    scenario = ledger(tmp_path)
    assert plays_of(scenario) == (PlayerResult("a person", "2026-11-23", 40, failed=("open",)),)
    assert scenario.digest == without.digest
    world = world_figures(scenario)
    figures = catalogue_figures([world])
    page = page_of(figures, (), [world], title="One world")
    assert (
        "a person completed 0 of 1 tasks in at most 40 calls each (2026-11-23); failed: open."
        in page
    )
    assert figures.plays == {scenario.name: world.plays}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"open"', '"opne"', "played[0]: the package has no task 'opne'; did you mean 'open'?"),
        ("40", "0", "max_steps"),
        ("2026-11-23", "today", "on"),
        ("by =", "who =", "who"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    """Every fault is a sentence with the file and the field."""
    scenario = ledger(tmp_path)
    path = tmp_path / PLAYS
    path.write_text(PLAYED.replace(old, new, 1))
    with pytest.raises(PackageError) as caught:
        plays_of(scenario)
    assert str(path) in str(caught.value) and fault in str(caught.value)


@pytest.mark.parametrize("name", ["claims_desk", "flight_desk", "shop_support"])
def test_the_bundled_worlds_say_who_played_them(name: str) -> None:
    """Their plays name tasks that exist."""
    assert plays_of(find(name))

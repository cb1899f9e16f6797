"""The commands `compare` and `size`."""

from pathlib import Path

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.paths import LIBRARY


@pytest.fixture
def runs(rehearse: Rehearse, tmp_path: Path) -> tuple[Path, Path]:
    """A run of mutants and one of oracles, three episodes of each task."""
    for policy in ("mutant", "oracle"):
        asked = ("run", LIBRARY, "-p", policy, "-g", 3, "-o", tmp_path / policy)
        assert rehearse(*asked)[0] == 0
    return tmp_path / "mutant", tmp_path / "oracle"


def test_two_runs_are_compared_task_by_task(rehearse: Rehearse, runs: tuple[Path, Path]) -> None:
    """The oracle completes what mutants do not; tries with equal seeds are paired."""
    found = json_of(rehearse, "compare", *runs)
    assert found["tasks"] == found["paired"] == 6
    assert found["delta"] > 0.5
    assert found["interval"][0] <= found["delta"] <= found["interval"][1]
    assert len(found["gained"]) > 3 and found["lost"] == []
    same = json_of(rehearse, "compare", runs[1], runs[1])
    assert (same["delta"], same["p"], same["verdict"]) == (0.0, 1.0, "no difference is shown")


def test_runs_without_a_common_task_are_refused(
    rehearse: Rehearse, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """One sentence and status 2; a folder without a run, too."""
    rehearse("run", "shop_support", "-p", "oracle", "-n", 1, "-o", tmp_path / "shop")
    status, _, err = rehearse("compare", runs[0], tmp_path / "shop")
    assert (status, "share no task with a verdict" in err) == (2, True)
    status, _, err = rehearse("compare", runs[0], tmp_path / "nowhere")
    assert (status, "there is no log" in err) == (2, True)


def test_the_size_of_an_evaluation(rehearse: Rehearse, runs: tuple[Path, Path]) -> None:
    """A smaller difference needs more tasks; a pilot says how much tries differ."""
    small, large = (json_of(rehearse, "compare", "size", "--detect", d) for d in ("3pt", "0.1"))
    assert small["tasks"] > 4 * large["tasks"]
    assert small["power"] >= 0.8 and small["source"] == "assumed"
    piloted = json_of(rehearse, "compare", "size", "--detect", "10%", "-k", 4, "--pilot", runs[0])
    assert piloted["source"] == "pilot"
    assert piloted["episodes"] == 4 * piloted["tasks"]


@pytest.mark.parametrize("text", ["3 points", "0", "2", "150%", "-1pt"])
def test_a_difference_that_is_none_is_refused(rehearse: Rehearse, text: str) -> None:
    """A difference is between 0 and 1."""
    status, _, err = rehearse("compare", "size", f"--detect={text}")
    assert (status, "is not a difference (expected for example 3pt" in err) == (2, True)

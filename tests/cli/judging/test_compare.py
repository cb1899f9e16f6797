"""The commands `compare` and `size`."""

from pathlib import Path
from shutil import copytree

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


def test_what_else_differs_is_said(
    rehearse: Rehearse, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Settings, tasks and a world whose package was changed; the verdict says the sign once."""
    world, other = tmp_path / "world", tmp_path / "other"
    copytree(LIBRARY, world)
    asked = ("run", world, "-p", "oracle", "-g", 3, "-n", 15, "--max-steps", 30, "--seed", 7)
    with (world / "policy.md").open("a") as policy:
        policy.write("\nBe brief.\n")
    assert rehearse(*asked, "-o", other)[0] == 0
    found = json_of(rehearse, "compare", runs[0], other)
    settings = {one["setting"]: one["values"] for one in found["settings"]}
    assert (settings["max_steps"], settings["seed"]) == ([None, 30], [0, 7])
    (digests,) = found["changed_worlds"].values()
    assert len(set(digests)) == 2
    assert list(found["only_in_some"]) == ["A"] and len(found["only_in_some"]["A"]) == 1
    assert [run["policy"] for run in found["runs"]] == ["mutant", "oracle"]
    assert found["runs"][0]["turns"] > 1
    kinds = {group["kind"] for group in found["groups"]}
    assert kinds <= {"world", "tag"} and found["groups"][0]["tasks"] == found["tasks"]
    page = tmp_path / "compared.md"
    status, out, _ = rehearse("compare", runs[0], other, "-o", page)
    assert status == 0
    assert "was changed between the runs, digests: A " in out
    assert "setting max_steps differs: A not set; B 30" in out
    for text in ("## What else differs", "## Runs", "## By world and tag"):
        assert text in page.read_text()
    back = rehearse("compare", runs[1], runs[0])[1].splitlines()[0]
    assert back.startswith(("A is better by ", "no difference is shown"))
    assert "better by -" not in back and "+-" not in back


def test_three_runs_are_compared_with_the_first(
    rehearse: Rehearse, runs: tuple[Path, Path]
) -> None:
    """Each against A, and their intervals hold together."""
    found = json_of(rehearse, "compare", *runs, runs[1])
    assert [one["name"] for one in found["differences"]] == ["B", "C"]
    assert found["level"] == 0.975
    two = json_of(rehearse, "compare", *runs)
    assert found["interval"][0] < two["interval"][0]
    assert two["differences"][0]["comparison"]["delta"] == two["delta"]
    status, _, err = rehearse("compare", runs[0])
    assert (status, "name two runs or more" in err) == (2, True)


def test_what_so_many_tasks_can_show(rehearse: Rehearse) -> None:
    """The other way round: N tasks show the difference for which N are asked for."""
    found = json_of(rehearse, "compare", "size", "--tasks", 45)
    again = json_of(rehearse, "compare", "size", "--detect", found["detect"])
    assert again["tasks"] <= 45
    status, _, err = rehearse("compare", "size", "--tasks", 5)
    assert (status, "cannot show a difference, whatever it is" in err) == (2, True)
    status, _, err = rehearse("compare", "size")
    assert (status, "name either --detect X or --tasks N" in err) == (2, True)


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

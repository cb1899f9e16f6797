"""The command `failures`."""

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.old_logs import without_diagnoses
from tests.support.paths import LIBRARY


@pytest.fixture
def runs(rehearse: Rehearse, tmp_path: Path) -> tuple[Path, Path]:
    """A run of mutants and one of oracles, of a package that can be taken away."""
    copytree(LIBRARY, tmp_path / "library")
    for policy in ("mutant", "oracle"):
        asked = ("run", tmp_path / "library", "-p", policy, "-g", 4, "-o", tmp_path / policy)
        assert rehearse(*asked)[0] == 0
    return tmp_path / "mutant", tmp_path / "oracle"


def test_failures_by_kind(rehearse: Rehearse, runs: tuple[Path, Path], tmp_path: Path) -> None:
    """Counts with intervals, examples that can be played on from, and the change between runs."""
    mutant, oracle = runs
    page = tmp_path / "page.md"
    found = json_of(rehearse, "failures", mutant, "--against", oracle, "-o", page)
    assert found["episodes"] == 24 and found["failed"] > 18
    assert found["without_solution"] == 0
    for name, count in found["kinds"].items():
        assert 0 <= count["lower"] <= count["share"] <= count["upper"] <= 1
        assert count["examples"][0]["run"] == str(mutant)
        assert f"## {name}" in page.read_text()
        assert found["changes"][name]["delta"] > 0
    example = found["kinds"]["missing_write"]["examples"][0]
    origin = f"{mutant}/{example['episode']}@{example['turn']}"
    assert rehearse("run", "--from", origin, "-p", "oracle", "-o", tmp_path / "on")[0] == 0
    assert sum(one["episodes"] for one in found["worlds"].values()) == 24
    assert set(found["tags"]) >= {"simple", "change"}
    assert any(one["kinds"] for one in found["tools"].values())
    assert json_of(rehearse, "failures", oracle)["kinds"] == {}


def test_without_the_package_findings_are_read(
    rehearse: Rehearse, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Of an old log every failed episode still has a kind; a new one keeps what was found with its
    verdicts."""
    before = json_of(rehearse, "failures", runs[0])
    assert json_of(rehearse, "failures", without_diagnoses(runs[0])) == before
    rmtree(tmp_path / "library")
    found = json_of(rehearse, "failures", runs[0])
    assert found["without_solution"] == found["failed"]
    counts = json_of(rehearse, "judge", runs[0], "--disagreements")
    assert counts["episodes"] == 24
    assert sum(one["failed"]["episodes"] for one in found["tasks"].values()) == found["failed"]
    assert all(one["kinds"] for one in found["tasks"].values())


def test_bad_input(rehearse: Rehearse, runs: tuple[Path, Path], tmp_path: Path) -> None:
    """One sentence and status 2."""
    rehearse("run", LIBRARY, "--judge", "none", "-n", 1, "-o", tmp_path / "none")
    status, _, err = rehearse("failures", tmp_path / "none")
    assert (status, "no episode has a verdict; `rehearse judge" in err) == (2, True)
    rehearse("run", "shop_support", "-p", "mutant", "-n", 2, "-o", tmp_path / "shop")
    status, _, err = rehearse("failures", runs[0], "--against", tmp_path / "shop")
    assert (status, "shares no task with" in err) == (2, True)
    status, _, err = rehearse("failures", tmp_path / "nowhere")
    assert (status, "there is no log" in err) == (2, True)
    status, _, err = rehearse("failures", runs[0], "-o", tmp_path / "no" / "page.md")
    assert (status, "its folder does not exist" in err) == (2, True)


def test_a_run_reports_its_failures(rehearse: Rehearse, runs: tuple[Path, Path]) -> None:
    """In short, with the statistics of the run, in report.json too."""
    found = json_of(rehearse, "run", LIBRARY, "-p", "mutant", "-g", 4, "-o", runs[0].parent / "c")
    completed = found["labels"].get("completed", 0)
    assert sum(found["failures"].values()) >= found["episodes"] - completed
    statistics = found["statistics"]
    assert statistics["completed"]["value"] == pytest.approx(found["pass_rate"])
    assert set(statistics["pass_hat_k"]) == {"1", "2", "4"}
    assert statistics["pass_at_k"]["4"]["value"] >= statistics["pass_at_k"]["1"]["value"]
    assert next(iter(statistics["tags"])) == "simple"

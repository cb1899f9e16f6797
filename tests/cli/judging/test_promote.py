"""The command `promote`."""

import json
import shutil
from pathlib import Path
from shutil import copytree
from xml.etree import ElementTree

import pytest

from tests.support.cli import Rehearse, json_of
from tests.support.paths import LIBRARY

GATE = """
name = "shop agent"
[[stage]]
name = "sandbox"
criteria = ["completed.lower >= 0.2"]
[[stage]]
name = "staging"
criteria = ["completed.lower >= 0.6", "pass^2.lower >= 0.5", "regression.vs(base) >= -0.3",
            "p95_calls <= 20"]
"""


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    path = tmp_path / "gate.toml"
    path.write_text(GATE)
    return path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs that the first test plays and each one copies."""
    return tmp_path_factory.mktemp("played")


@pytest.fixture
def runs(rehearse: Rehearse, played: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A run without any call and one of oracles."""
    for policy in ("noop", "oracle"):
        if not (played / policy).exists():
            asked = ("run", "shop_support", "-p", policy, "-g", 2, "-o", played / policy)
            assert rehearse(*asked)[0] == 0
        copytree(played / policy, tmp_path / policy)
    return tmp_path / "noop", tmp_path / "oracle"


def test_a_good_agent_passes(
    rehearse: Rehearse, runs: tuple[Path, Path], gate: Path, tmp_path: Path
) -> None:
    """All stages, with Markdown, JUnit and a record of what it was decided on."""
    page, junit = tmp_path / "page.md", tmp_path / "junit.xml"
    asked = ("promote", gate, runs[1], "--against", runs[1], "-o", page, "--junit", junit)
    found = json_of(rehearse, *asked)
    assert (found["stage"], found["verdict"]) == ("staging", "pass")
    assert found["passed"] == ["sandbox", "staging"]
    assert (found["episodes"], len(found["criteria"])) == (90, 4)
    record = found["record"]
    assert record["runs"][0]["agent"]["policy"] == "oracle"
    assert len(record["gate"]) == len(record["runs"][0]["digest"]) == 32
    assert record["runs"][0]["digest"] == record["base"]["digest"]
    assert list(record["worlds"]) == ["shop_support"]
    assert "# shop agent: pass" in page.read_text()
    suites = ElementTree.fromstring(junit.read_bytes())
    assert [suite.get("name") for suite in suites] == ["sandbox", "staging"]
    assert {suite.get("failures") for suite in suites} == {"0"}


def test_a_bad_agent_fails(
    rehearse: Rehearse, runs: tuple[Path, Path], gate: Path, tmp_path: Path
) -> None:
    """With status 1, at the first stage that it does not reach; later ones are not judged."""
    junit = tmp_path / "junit.xml"
    asked = ("promote", gate, runs[0], "--against", runs[1], "--junit", junit)
    status, out, _ = rehearse(*asked)
    assert (status, "fail: stage 'sandbox', 90 episodes" in out) == (1, True)
    (suite,) = ElementTree.fromstring(junit.read_bytes())
    assert suite.get("failures") == "1"
    (failure,) = suite.iter("failure")
    assert (failure.get("message") or "").startswith("completed.lower >= 0.2: found 0, interval 0")


@pytest.mark.slow
def test_too_few_episodes_are_played_on(rehearse: Rehearse, gate: Path, tmp_path: Path) -> None:
    """One look is inconclusive (status 3); playing on ends with a verdict before all is played.
    What was played stays, and the run is complete."""
    gate.write_text('[[stage]]\nname = "s"\ncriteria = ["completed.lower >= 0.8"]\n')
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-n", 10, "-o", run)[0] == 0
    status, out, _ = rehearse("promote", gate, run)
    assert (status, "--continue 20 plays on" in out) == (3, True)
    found = json_of(rehearse, "promote", gate, run, "--continue", 90)
    assert (found["verdict"], found["episodes"] < 90) == ("pass", True)
    assert [look["episodes"] for look in found["looks"]][:3] == [10, 18, 27]
    assert [look["verdict"] for look in found["looks"]][-2:] == ["inconclusive", "pass"]
    assert rehearse("export", run, "-o", tmp_path / "export.jsonl")[0] == 0
    lines = (tmp_path / "export.jsonl").read_text().splitlines()
    assert len(lines) == found["episodes"]
    assert rehearse("run", "-o", run, "--resume")[0] == 0  # nothing is left to play


def test_a_base_is_played_on_too(rehearse: Rehearse, runs: tuple[Path, Path], gate: Path) -> None:
    """Where a criterion compares with it: with the same seeds, so that tries are paired."""
    gate.write_text('[[stage]]\nname = "s"\ncriteria = ["regression.vs(base) >= -0.1"]\n')
    asked = ("promote", gate, runs[1], "--against", runs[1].parent / "other", "--continue", 100)
    rehearse("run", "shop_support", "-g", 2, "-o", runs[1].parent / "other")
    status, _, err = rehearse(*asked)
    assert status in (0, 3), err
    compared = json_of(rehearse, "compare", runs[1], runs[1].parent / "other")
    assert compared["paired"] == compared["tasks"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[stage]]\nname = "s"\ncriteria = ["speed >= 1"]\n', "unknown metric 'speed'; metrics:"),
        ('[[stage]]\nname = "s"\ncriteria = []\n', "criteria"),
        ("alpha = 2\n", "alpha"),
        ("stages = 1\n", "stages"),
        ('[[stage]]\nname = "s"\ncriteria = ["regression.vs(base) >= 0"]\n', "--against: a criter"),
        ('[[stage]]\nname = "s"\ncriteria = ["p95_calls <= 1"]\n' * 2, "there are two stages"),
        ("[[", "gate.toml"),
    ],
)
def test_gate_files_that_are_refused(
    rehearse: Rehearse, runs: tuple[Path, Path], gate: Path, text: str, why: str
) -> None:
    """One sentence that names what is wrong, and status 2."""
    gate.write_text(text)
    status, _, err = rehearse("promote", gate, runs[1])
    assert (status, why in err) == (2, True), err
    assert len(err.strip().splitlines()) == 1


def test_bad_input(rehearse: Rehearse, runs: tuple[Path, Path], gate: Path, tmp_path: Path) -> None:
    """A run without verdicts, a base without a shared task, an unknown stage, no gate file, a run
    whose episodes would count twice."""
    rehearse("run", LIBRARY, "--judge", "none", "-n", 1, "-o", tmp_path / "none")
    status, _, err = rehearse("promote", gate, tmp_path / "none", "--against", runs[1])
    assert (status, "no episode has a verdict" in err) == (2, True)
    rehearse("run", LIBRARY, "-n", 1, "-o", tmp_path / "shop")
    status, _, err = rehearse("promote", gate, runs[1], "--against", tmp_path / "shop")
    assert (status, "shares no task with" in err) == (2, True)
    status, _, err = rehearse("promote", gate, runs[1], "--against", runs[1], "--stage", "x")
    assert (status, "no stage 'x'; stages: sandbox, staging" in err) == (2, True)
    status, _, err = rehearse("promote", tmp_path / "no.toml", runs[1])
    assert (status, "there is no gate file" in err) == (2, True)
    again = tmp_path / "again"
    again.symlink_to(runs[1])
    status, _, err = rehearse("promote", gate, runs[1], again, "--against", runs[1])
    assert (status, "again: this run is named twice" in err) == (2, True)
    copy = shutil.copytree(runs[1], tmp_path / "copy")
    status, _, err = rehearse("promote", gate, runs[1], copy, "--against", runs[1])
    assert (status, f"copy: it has episodes of {runs[1]}" in err) == (2, True), err


def test_a_gate_on_the_judge(
    rehearse: Rehearse, runs: tuple[Path, Path], gate: Path, tmp_path: Path
) -> None:
    """J comes from the file of the gate or of a study, and must be of the judge of the runs."""
    gate.write_text('[[stage]]\nname = "s"\ncriteria = ["J.lower >= 0.5"]\n')
    status, _, err = rehearse("promote", gate, runs[1])
    assert (status, "--soundness: a criterion is about J" in err) == (2, True)
    checked = tmp_path / "gate.json"
    assert rehearse("worlds", "check", LIBRARY, "--json", checked)[0] == 0
    found = json_of(rehearse, "promote", gate, runs[1], "--soundness", checked)
    assert found["criteria"][0]["value"] == 1.0
    studied = tmp_path / "study.json"
    j = json.loads(checked.read_bytes())["j"]
    studied.write_text(json.dumps({"judge": "llm:m", "j_against": {"code": j}}))
    status, _, err = rehearse("promote", gate, runs[1], "--soundness", studied)
    assert status == 2
    assert f"{studied} has J of judge 'llm:m', and {runs[1]} was judged by 'code'" in err

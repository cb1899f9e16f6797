"""J of a judge, from a study or the gate: read from its file, and asked for by a gate."""

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.outcomes.intervals import Interval
from rehearsal_room.judge.promotion.criteria import CriterionVerdict
from rehearsal_room.judge.promotion.decision import decide
from rehearsal_room.judge.reliability.study import study
from rehearsal_room.judge.statistics.youden import Youden, read_youden
from tests.judge.promotion.drawn import criteria_of
from tests.support.studies import case_of, scripted

J = Interval(0.8, 0.7, 0.88)
YOUDEN = {
    "tpr": {"value": 0.9, "lower": 0.85, "upper": 0.94},
    "fpr": {"value": 0.1, "lower": 0.06, "upper": 0.15},
    "j": {"value": 0.8, "lower": 0.7, "upper": 0.88},
    "unit": "task",
}
WORSE = {**YOUDEN, "j": {"value": 0.1, "lower": -0.1, "upper": 0.3}}


def written(folder: Path, content: Any) -> Path:
    path = folder / "j.json"
    path.write_text(json.dumps(content))
    return path


def test_both_files_have_j(tmp_path: Path) -> None:
    """The gate's is about code; in a study's what people say counts before what code says."""
    gate = read_youden(written(tmp_path, {"worlds": 3, "j": YOUDEN}))
    assert (gate.judge, gate.youden.j) == ("code", J)
    both = {"judge": "llm:m", "j_against": {"code": WORSE, "people": YOUDEN}}
    found = read_youden(written(tmp_path, both))
    assert (found.judge, found.youden.j) == ("llm:m", J)


@pytest.mark.parametrize(
    "content",
    [
        {"worlds": 3, "j": None},
        {"j_against": {}},
        {"j": {**YOUDEN, "j": {"value": 3.0, "lower": 2.0, "upper": 4.0}}},
        {"j": {**YOUDEN, "j": {"value": 0.1, "lower": 0.9, "upper": 0.2}}},
        {"j": 0.9},
        [],
    ],
)
def test_a_file_without_j_is_refused(tmp_path: Path, content: Any) -> None:
    """In a sentence that names it; so is one that does not exist."""
    with pytest.raises(SettingsError, match=r"j\.json: "):
        read_youden(written(tmp_path, content))
    with pytest.raises(SettingsError, match="No such file"):
        read_youden(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("criterion", "verdict"),
    [
        ("J.lower >= 0.6", "pass"),
        ("J.lower >= 0.75", "inconclusive"),
        ("J.lower >= 0.9", "fail"),
        ("J >= 0.8", "pass"),
    ],
)
def test_a_gate_asks_for_j(criterion: str, verdict: CriterionVerdict) -> None:
    """Of the judge that a file describes; without one it is inconclusive."""
    bounds = Interval(0.9, 0.85, 0.94)
    judge = Youden(bounds, Interval(0.1, 0.06, 0.15), J, "task")
    assert decide(criteria_of(criterion), (), (), judge=judge)[0].verdict == verdict
    assert decide(criteria_of(criterion), (), ())[0].verdict == "inconclusive"


@pytest.mark.anyio
async def test_a_study_has_j() -> None:
    """8 of 10 right works accepted and 3 of 10 wrong ones: J is 0.5, and each part has Wilson's
    interval as scipy gives it, but for Student's t; a study of code against itself has none."""
    right = [case_of(f"r{n}") for n in range(10)]
    wrong = [case_of(f"w{n}", Label.AGENT_ERROR) for n in range(10)]
    done, failed = Label.COMPLETED, Label.AGENT_ERROR
    answers = {f"r{n}": [done if n < 8 else failed] for n in range(10)}
    answers |= {f"w{n}": [done if n < 3 else failed] for n in range(10)}
    report = await study([*right, *wrong], scripted(answers), repeats=1)
    (who, found), *others = report.j_against.items()
    assert (who, others) == ("code", [])
    assert (found.tpr.value, found.fpr.value) == (0.8, 0.3)
    assert found.j.value == pytest.approx(0.5)
    assert found.j.lower < 0.5 < found.j.upper
    wilson = stats.binomtest(8, 10).proportion_ci(method="wilson")
    assert found.tpr.lower <= wilson.low and found.tpr.upper >= wilson.high
    humans = {one.trajectory.episode: {"ann": failed} for one in wrong}
    only_wrong = await study(wrong, scripted(answers), repeats=1, humans=humans)
    assert only_wrong.j_against == {}

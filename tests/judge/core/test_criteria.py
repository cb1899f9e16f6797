"""What criteria come to: one goal, a share, and rewards; and what a function of a criterion may
return."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.inprocess.verifiers import VerifierFault, Verifiers
from rehearsal_room.harness.core.events import Judged
from rehearsal_room.judge.code.answer_bounds import bounded
from rehearsal_room.judge.code.case import bounds_of
from rehearsal_room.judge.core.criteria import MET, with_goal, without_asking
from rehearsal_room.judge.core.rewards import share_met, share_of
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.checks import Finding, failed
from rehearsal_room.scenarios.core.criteria import Criterion
from rehearsal_room.scenarios.format import Scenario, Task, read
from tests.support.criteria_world import TOLD, criteria_world

EMPTY: Any = None  # a state that no function reads


def criterion(share: float | None, weight: float = 1.0, **fields: Any) -> Finding:
    name = str(fields.pop("name", f"{share} of {weight}"))
    return Finding(name, share == 1, "", "", "criterion", share=share, weight=weight, **fields)


def task(threshold: float) -> Task:
    return Task(
        id="a",
        instruction="Go.",
        difficulty="simple",
        kind="change",
        answer="Done.",
        criteria_threshold=threshold,
    )


@pytest.mark.parametrize(
    ("threshold", "criteria", "passed", "is_open", "found"),
    [
        (0.75, [criterion(1.0, 3.0), criterion(0.0)], True, False, "0.75"),
        (0.76, [criterion(1.0, 3.0), criterion(0.0)], False, False, "0.75"),
        (0.3, [criterion(1.0, 0.1), criterion(1.0, 0.2), criterion(0.0, 0.7)], True, False, "0.3"),
        (1.0, [criterion(1.0), criterion(None, is_open=True)], False, True, "0.5 to 1"),
        (1.0, [criterion(0.5), criterion(None, is_open=True)], False, False, "0.25 to 0.75"),
    ],
)
def test_the_goal_of_the_criteria_is_met_from_the_threshold_on(
    threshold: float, criteria: list[Finding], passed: bool, is_open: bool, found: str
) -> None:
    """By their weights, and open where it depends on what a model must judge. An unmet
    criterion alone has not failed."""
    findings = with_goal(criteria, task(threshold))

    goal = findings[-1]
    assert (goal.name, goal.passed, goal.is_open, goal.found) == (MET, passed, is_open, found)
    assert failed(findings) == ([] if passed else [goal])
    assert with_goal(findings, task(threshold)) == findings  # again: in place of the first


def test_a_criterion_that_no_model_has_judged_leaves_no_share() -> None:
    """Leaving it out of the mean would pay for it."""
    assert share_of([criterion(1.0), criterion(None)]) is None
    assert share_of([criterion(1.0), criterion(0.5)]) == 0.75


def test_a_graded_reward_is_the_share_without_what_doing_nothing_meets() -> None:
    """And less than 1: it is for partial completion."""
    findings = [criterion(1.0, 2.0, name="a"), criterion(0.5, name="b"), criterion(1.0, name="c")]
    assert share_met(findings, ["c"]) == pytest.approx(2.5 / 4)
    assert share_met(findings, ["a", "b", "c"]) is None
    assert share_met([criterion(1.0)], []) == 0.5


@pytest.mark.parametrize(
    ("weights", "threshold", "expected"),
    [
        ((3.0, 1.0), 0.8, (0.8 * 4 - 1) / 3),
        ((1.0, 1.0), 0.5, 0.0),  # a model that always agrees completes it
        ((1.0, 0.0), 0.9, 0.9),
    ],
)
def test_the_gate_takes_what_a_model_judges_for_met(
    weights: tuple[float, float], threshold: float, expected: float, tmp_path: Path
) -> None:
    """What is left of the threshold must be reached by code."""
    by_code, asked = weights
    criteria = (Criterion("a", check="a", weight=by_code),)
    if asked:
        criteria = (*criteria, Criterion("b", ask="Is it?", weight=asked))
    made = msgspec.structs.replace(task(threshold), criterion=criteria)
    scenario = msgspec.structs.replace(read(criteria_world(tmp_path)), tasks=(made,))

    (left,) = without_asking(scenario).tasks

    assert [one.name for one in left.criterion] == ["a"]
    assert left.criteria_threshold == pytest.approx(expected)


@pytest.fixture
def world(tmp_path: Path) -> Scenario:
    return read(criteria_world(tmp_path))


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("float('nan')", "nan, expected a share from 0 to 1"),
        ("-0.1", "-0.1, expected a share from 0 to 1"),
        ("None", "a NoneType, expected true or false"),
        ("[]", "[], expected a list of findings"),
        ("[Finding('a', True, '', '', 'criterion')]", "'kind' is one of 'goal', 'guard'"),
        ("[Finding('a', True, '', '', 'goal', share=2.0)]", "'share' is a number from 0 to 1"),
        ("[Finding('a', True, '', '', 'goal', weight=-1.0)]", "'weight' is a number"),
    ],
)
def test_what_a_function_of_a_criterion_returns_is_checked(
    world: Scenario, value: str, fault: str
) -> None:
    """A share that is none, and a finding that a verifier may not make."""
    source = (
        "from scenarios.checks import Finding\n"
        "def move_check_up(b, a, answer): return [Finding('g', True, '', '', 'guard')]\n"
        "next_visit = too_late = new_visit_booked = move_check_up\n"
        f"def old_visit_cancelled(b, a, answer): return {value}\n"
    )
    with pytest.raises(VerifierFault) as caught:
        Verifiers(world, source).run(world.tasks[0], EMPTY, EMPTY, "")
    assert "verifier 'old_visit_cancelled' of scenario 'clinic' returned" in str(caught.value)
    assert fault in str(caught.value)


def test_a_criterion_that_asks_a_model_hides_no_contradiction(world: Scenario) -> None:
    """An answer that takes back what was done is found with such a criterion as without it."""
    done = criterion(1.0)
    asked = criterion(None, is_open=True)
    change = RowChange("visits", (104,), {"status": "booked"}, {"status": "cancelled"})
    bounds = bounds_of(world.tasks[0], (TOLD,), (change,))
    denied = "Milo's check-up is not moved."

    both = [bounded(found, bounds, denied, ()) for found in ((done,), (done, asked))]

    assert both[0][-1].is_open and both[0][-1].name == "answer keeps to the case"
    assert both[1][-1] == both[0][-1]


def test_verdicts_of_older_logs_have_no_share() -> None:
    """They are read as they are."""
    old = msgspec.msgpack.encode(
        {"type": "judged", "judge": "code", "label": "completed", "reward": 1.0, "findings": []}
    )
    found = msgspec.msgpack.decode(old, type=Judged)
    assert (found.share, found.asked) == (None, ())

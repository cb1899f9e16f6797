"""A judge that errs on purpose: how often, where, and what refuses its verdicts.

No judge of somebody else's takes part: the shares are drawn by us, and SciPy's exact binomial test
says whether they are those that were asked for.
"""

import json
from pathlib import Path

import pytest
from scipy.stats import binomtest

from rehearsal_room.harness.core.events import Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from tests.support.cli import Rehearse
from tests.support.criteria_world import AGENTS, CRITERIA, criteria_world, script


def verdicts(folder: Path) -> dict[str, Judged]:
    """The latest verdict of each episode."""
    with open_reader(folder) as reader:
        return {
            record.episode: record.event
            for record in reader.milestones()
            if isinstance(record.event, Judged)
        }


def played(rehearse: Rehearse, folder: Path, policy: str, errors: str) -> dict[str, Judged]:
    """The verdicts of 200 episodes that are all right (oracle) or mostly wrong (random)."""
    flags = ("-n", "200", "--judge-errors", errors, "--rewards", "sparse", "-o", folder)
    status, _, err = rehearse("run", "shop_support", "-p", policy, *flags)
    assert status == 0, err
    return verdicts(folder)


def test_false_negatives_have_the_share_that_was_asked_for(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """A fifth of the right episodes is not called completed, and has no reward; code's label stays
    beside it."""
    found = played(rehearse, tmp_path / "run", "oracle", "0.9/0.2")
    missed = [one for one in found.values() if one.label is Label.AGENT_ERROR]
    assert binomtest(len(missed), len(found), 0.2).pvalue > 0.001
    assert {one.code for one in found.values()} == {Label.COMPLETED}
    assert {one.reward for one in missed} == {0.0}
    assert all(set(one.step_rewards) == {0.0} for one in missed)


def test_false_positives_have_the_share_that_was_asked_for(
    rehearse: Rehearse, tmp_path: Path
) -> None:
    """Half of the wrong episodes are called completed; one that ended in a format error is among
    those, but its steps have no reward of the task, as under every judge."""
    found = played(rehearse, tmp_path / "run", "random", "0.5/0")
    wrong = [one for one in found.values() if one.code is not Label.COMPLETED]
    paid = [one for one in wrong if one.label is Label.COMPLETED]
    assert len(wrong) > 150
    assert binomtest(len(paid), len(wrong), 0.5).pvalue > 0.001
    assert {one.reward for one in paid} == {1.0}


def test_it_errs_in_the_same_places_again(rehearse: Rehearse, tmp_path: Path) -> None:
    """Judging again errs where it erred; with 0/0 the verdicts are code's own."""
    run = tmp_path / "run"
    before = played(rehearse, run, "oracle", "0.2/0.5")
    for errors, is_same in (("0.2/0.5", True), ("0/0", False)):
        status, _, err = rehearse("judge", run, "--mode", "code", "--errors", errors)
        assert status == 0, err
        after = verdicts(run)
        assert (
            {k: v.label for k, v in after.items()} == {k: v.label for k, v in before.items()}
        ) is (is_same)
    assert {one.label for one in after.values()} == {Label.COMPLETED}
    assert {one.judge for one in after.values()} == {"code"}


def test_such_verdicts_are_no_score(rehearse: Rehearse, tmp_path: Path) -> None:
    """The report names the judge, and a gate refuses the run."""
    run, gate = tmp_path / "run", tmp_path / "gate.toml"
    played(rehearse, run, "random", "1/0")
    report = json.loads((run / "report.json").read_text())
    assert report["judge"] == "code with errors 1/0"
    gate.write_text('[[stage]]\nname = "one"\ncriteria = ["completed.lower >= 0.5"]\n')
    status, _, err = rehearse("promote", gate, run)
    assert status == 2
    assert "planted errors are for experiments; judge the run again" in err


def test_groups_that_branch_pass_no_gate(rehearse: Rehearse, tmp_path: Path) -> None:
    """A gate asks about tasks from their start, and branches begin in the middle."""
    run, gate = tmp_path / "run", tmp_path / "gate.toml"
    flags = ("-p", "oracle", "-n", 2, "-g", 2, "--branch-roots", 1, "-o", run)
    assert rehearse("run", "shop_support", *flags)[0] == 0
    gate.write_text('[[stage]]\nname = "one"\ncriteria = ["completed.lower >= 0.1"]\n')
    status, _, err = rehearse("promote", gate, run)
    assert status == 2
    assert "its groups branch, as episode e000001 does" in err and "--branch-roots" in err


@pytest.mark.parametrize("errors", ["0.2", "1.5/0", "-0.1/0", "nan/0", "a/b", "0/0/0"])
def test_what_is_not_two_shares_is_refused(rehearse: Rehearse, tmp_path: Path, errors: str) -> None:
    """One sentence, and no run."""
    run = tmp_path / "run"
    status, _, err = rehearse(
        "run", "shop_support", "-p", "oracle", "--judge-errors", errors, "-o", run
    )
    assert status == 2
    assert "is not two shares from 0 to 1" in err
    assert not run.exists()


def test_a_planted_label_has_no_share_of_another_one(rehearse: Rehearse, tmp_path: Path) -> None:
    """What was completed and is called an error would still be paid in a mean of shares."""
    criteria, _, _ = CRITERIA.rpartition("\n[[task.criterion]]")  # without the one that is asked
    world = criteria_world(tmp_path, criteria)
    for errors in ("0/0", "1/1"):
        flags = ("-p", "scripted", "--script", script(tmp_path / "script.jsonl"), "-g", len(AGENTS))
        status, _, err = rehearse(
            *("run", world, *flags, "--judge-errors", errors, "-o", tmp_path / errors[0])
        )
        assert status == 0, err
    plain, planted = (verdicts(tmp_path / name) for name in "01")
    assert sorted(one.share or 0.0 for one in plain.values()) == [0, 0, 0, 2 / 3, 1, 1]
    assert {one.label for one in planted.values()} == {Label.COMPLETED, Label.AGENT_ERROR}
    assert {one.share for one in planted.values()} == {None}

"""The gate's findings under the check ids of OpenEnv's RFC 008. OpenEnv's own models read them in
tests/integrations."""

import json
from pathlib import Path

import pytest

from rehearsal_room.judge.gate.core.report import GateFailure, WorldGateReport, failed_report
from rehearsal_room.judge.gate.job_pool import CheckOutcome
from rehearsal_room.judge.gate.openenv import OpenEnvReport, openenv_report
from tests.support.cli import Rehearse
from tests.support.paths import LIBRARY

SOUND = WorldGateReport(
    worlds=1,
    tasks=4,
    tools=7,
    mutants=50,
    mutants_caught=49,
    probes=300,
    names=("w",),
    equivalent=2,
    near_misses=3,
)


def _report(*failures: tuple[str, str, str], report: WorldGateReport = SOUND) -> OpenEnvReport:
    """The report with these failures: task, check of the gate, why."""
    found = tuple(GateFailure("w", task, check, why) for task, check, why in failures)
    with_failures = WorldGateReport(
        **{name: getattr(report, name) for name in WorldGateReport.__struct_fields__}
        | {"failures": found}
    )
    return openenv_report(CheckOutcome("w", with_failures, "d" * 32, ("a", "b", "c", "e")))


def _status(report: OpenEnvReport) -> dict[str, str]:
    return {one.check_id: one.status for one in report.results}


def test_a_sound_world_passes_what_the_gate_computes() -> None:
    """Twelve ids pass, with measured values; each of the others says why it was not run."""
    report = _report()
    passed = {one.check_id: one.measured for one in report.results if one.status == "pass"}
    assert len(report.results) == 46 and len(passed) == 12
    assert passed["semantic.oracle_max"]["oracles_completed"] == 4
    assert passed["semantic.floor_gap"]["gap"] == 1.0
    assert passed["semantic.canary_floor"] == {"canaries": 3, "tasks_failed": 0}
    assert passed["statistical.adversarial_floor"]["caught_share"] == 0.98
    assert passed["statistical.gameability_gap"]["mean_reward_of_mutants"] == 0.02
    for one in report.results:
        assert one.status == "pass" or (one.status == "skip" and len(one.evidence) == 1)
    assert (report.verdict, report.levels_run, report.source_digest) == (
        "warn",
        (2, 3, 4),
        "d" * 32,
    )


@pytest.mark.parametrize(
    ("failure", "check_id"),
    [
        (("a", "oracle", "it is judged agent_error"), "semantic.oracle_max"),
        (("a", "noop", "doing nothing completes it"), "semantic.floor_gap"),
        (("a", "near_miss", "expected agent_error"), "semantic.canary_floor"),
        (("a", "mutants", "one mutant is completed"), "statistical.adversarial_floor"),
        (
            ("a", "verifier", "it gives other findings when it runs again"),
            "semantic.verifier_determinism",
        ),
        (("a", "verifier", "after the answer '': it raises"), "runtime.reward_well_formed"),
        (("", "tool", "get_order breaks"), "runtime.tool_declaration_accuracy"),
        (("a", "kind", "it changes nothing"), "runtime.task_declaration_accuracy"),
    ],
)
def test_a_failure_fails_its_id(failure: tuple[str, str, str], check_id: str) -> None:
    """A failure of the gate fails the id that it belongs to, with its text, and so the report."""
    report = _report(failure)
    failed = {one.check_id: one for one in report.results if one.status == "fail"}
    expected = {check_id}
    if failure[1] == "mutants":
        expected.add("statistical.gameability_gap")
    assert failed.keys() == expected
    assert failed[check_id].evidence == (f"{failure[0] or 'w'}: {failure[2]}",)
    assert failed[check_id].remediation
    assert report.verdict == "fail"


def test_determinism_comes_first() -> None:
    """Where calls do not repeat, the semantic and statistical ids are skipped, and say so."""
    status = _status(_report(("a", "determinism", "it gives another result")))
    assert status["runtime.episode_determinism"] == "fail"
    assert status["semantic.oracle_max"] == status["statistical.adversarial_floor"] == "skip"


def test_a_world_that_cannot_be_read_fails_at_the_start() -> None:
    """Nothing else is computed of a broken package."""
    outcome = CheckOutcome("w", failed_report("w", "package", "scenario.toml is missing"))
    status = _status(openenv_report(outcome))
    assert [name for name, one in status.items() if one != "skip"] == ["runtime.startup"]
    assert status["runtime.startup"] == "fail"


def test_a_world_without_an_oracle_fails() -> None:
    """RFC 008: without an oracle nothing shows that the verifier can be satisfied."""
    record = WorldGateReport(worlds=1, tasks=2, tools=3, names=("w",))
    status = _status(_report(report=record))
    assert status["semantic.oracle_max"] == "fail"
    assert status["statistical.adversarial_floor"] == status["semantic.canary_floor"] == "skip"


@pytest.mark.slow
def test_the_command_writes_the_report(rehearse: Rehearse, tmp_path: Path) -> None:
    """`--report openenv` writes a file for one world, or a folder with a file for each."""
    path = tmp_path / "report.json"
    status, _, err = rehearse("worlds", "check", LIBRARY, "--report", "openenv", "-o", path)
    assert (status, str(path) in err) == (0, True)
    report = json.loads(path.read_bytes())
    assert (report["target"], report["verdict"], len(report["results"])) == ("library", "warn", 46)
    status, _, err = rehearse("worlds", "check", LIBRARY, "-o", path)
    assert (status, "pass --report openenv, too" in err) == (2, True)

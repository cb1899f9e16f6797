"""What code proves about an episode, and what it leaves open to models."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.judge.code.code_judge import judge_evidence, met_goals, unjudged
from rehearsal_room.judge.code.proof import code_verdict_of
from rehearsal_room.judge.code.runners import run_at_once
from rehearsal_room.judge.core.case import Case, CodeVerdict
from rehearsal_room.judge.core.evidence import Evidence, ScenarioInfo, Verification, gather
from rehearsal_room.judge.core.rewards import AWM
from rehearsal_room.judge.core.verifier import Verifier
from rehearsal_room.scenarios.checks import Finding
from rehearsal_room.scenarios.format import read
from tests.support.cases import code_judge
from tests.support.mini_world import episode, library, oracle, variant

ALL = frozenset(Label)
NOT_FAILED = ALL - {Label.ENVIRONMENT_ERROR}  # of the world
NOT_COMPLETED = NOT_FAILED - {Label.COMPLETED}
UNFAILED = "the world did not fail"
NOTHING_KNOWN = ScenarioInfo("", "", "")


@pytest.fixture(scope="module")
def world() -> HostedScenario:
    """The mini world."""
    return library()


def case_of(world: HostedScenario, trajectory: Trajectory) -> Case:
    """The case of an episode whose verifier is a package's verify.py."""
    case = run_at_once(code_judge(world).case(trajectory))
    assert isinstance(case, Case)
    task = world.scenario.task(trajectory.started.task)
    before, after = world.states(world.start, ())
    idle = met_goals(Verifier(world.scenario).run(task, before, after, ""))
    return msgspec.structs.replace(case, idle=tuple(sorted(idle.elements())))


def foreign_case(
    world: HostedScenario,
    verifier: str,
    findings: tuple[Finding, ...],
    *,
    idle: tuple[str, ...] = (),
    unverified: str | None = None,
    **played: Any,
) -> Case:
    """The case of an episode whose verifier is of another kind, with these findings."""
    trajectory = oracle(world, "pay-fine", **played)
    evidence = gather(trajectory, Verification(findings, unverified), NOTHING_KNOWN)
    code = judge_evidence(trajectory, evidence, Counter(idle), AWM)
    return msgspec.convert(
        {"trajectory": trajectory, "evidence": evidence, "idle": idle, "code": code}
        | {"verifier": verifier},
        Case,
        from_attributes=True,
    )


def proved(label: Label, proof: str) -> CodeVerdict:
    return CodeVerdict(label, frozenset((label,)), proof)


def test_success_is_proved(world: HostedScenario) -> None:
    """All findings pass, and doing nothing does not pass them all: only `completed` is left
    open."""
    assert code_verdict_of(case_of(world, oracle(world, "pay-fine"))) == proved(
        Label.COMPLETED,
        "the verifier's findings all passed: "
        "'members 2 updated', 'members 1 untouched', 'nothing else changed'",
    )
    many = code_verdict_of(case_of(world, oracle(world, "lend-two")))
    assert many.proof.endswith("'new loans', 'new loans', 'books 21 updated' and 4 more")


@pytest.mark.parametrize("goal", ['    check.goal("Emma is there", True, "there", "there")\n', ""])
def test_success_that_doing_nothing_also_has_is_not_proof(goal: str, tmp_path: Path) -> None:
    """A verifier whose goals all hold from the start, or that has no goals, gives the label
    `completed` and leaves everything open."""
    old = '    check.updated("loans", 303, due_on="2026-04-01")\n'
    world = HostedScenario(read(variant(tmp_path, verify=(old, goal))))
    played = episode(world, "renew-emma")
    assert code_verdict_of(case_of(world, played)) == CodeVerdict(
        Label.COMPLETED, NOT_FAILED, UNFAILED
    )


def test_one_goal_that_doing_nothing_misses_is_proof(tmp_path: Path) -> None:
    """One goal that doing nothing does not meet is enough."""
    old = '    check.updated("loans", 303'
    new = f'    check.goal("Emma is there", True, "there", "there")\n{old}'
    world = HostedScenario(read(variant(tmp_path, verify=(old, new))))
    found = code_verdict_of(case_of(world, oracle(world, "renew-emma")))
    assert (found.label, found.allowed) == (Label.COMPLETED, frozenset((Label.COMPLETED,)))


def test_a_broken_world_is_proved(world: HostedScenario) -> None:
    """However the world failed, the proof names what failed."""
    broken = ToolResult("KeyError:  'x'", "internal")
    slow = ToolResult("it took too long", "timeout")
    why: dict[str, dict[str, Any]] = {
        "a call of 'pay_fine' broke (internal): KeyError: 'x'": {"results": [broken]},
        "a call of 'pay_fine' broke (timeout): it took too long": {"results": [slow]},
        "the world failed: the worker died": {
            "ending": Ending.WORLD_ERROR,
            "error": "the worker died",
        },
        "the world failed: no reason was logged": {"ending": Ending.WORLD_ERROR},
        "the world's final state is not known": {"stateless": True},
    }
    for proof, changed in why.items():
        found = code_verdict_of(case_of(world, oracle(world, "pay-fine", **changed)))
        assert found == proved(Label.ENVIRONMENT_ERROR, proof)


def test_success_despite_a_broken_tool(world: HostedScenario) -> None:
    """`completed` has priority over `environment_error`, as in AWM's order."""
    task = world.scenario.task("overdue")
    calls = [*task.oracle, ("list_overdue", {})]
    played = oracle(world, "overdue", calls=calls, results=[ToolResult("oh", "internal")])
    found = code_verdict_of(case_of(world, played))
    assert (found.label, found.allowed) == (Label.COMPLETED, frozenset((Label.COMPLETED,)))


@pytest.mark.parametrize(("error", "why"), [(None, ""), ("no such tool", ": no such tool")])
def test_a_format_error_is_proved(error: str | None, why: str, world: HostedScenario) -> None:
    """Whatever was reached before, and whether or not a verifier ran."""
    played = oracle(world, "pay-fine", answer="", ending=Ending.FORMAT_ERROR, error=error)
    expected = proved(Label.AGENT_ERROR, f"the agent's last message broke the format{why}")
    assert code_verdict_of(case_of(world, played)) == expected
    unverified = foreign_case(
        world, "awm", (), unverified="none", ending=Ending.FORMAT_ERROR, error=error
    )
    assert code_verdict_of(unverified) == expected


def test_damage_is_proved(world: HostedScenario) -> None:
    """A failed guard is named with what it expected and found, however many goals are met."""
    task = world.scenario.task("pay-fine")
    harm = ("set_status", {"member_id": 1, "status": "left"})
    found = code_verdict_of(case_of(world, oracle(world, "pay-fine", calls=[*task.oracle, harm])))
    assert found == proved(
        Label.AGENT_ERROR,
        "guard 'members 1 untouched' failed: expected unchanged, found members 1 changed: "
        "status 'active' to 'left'; guard 'nothing else changed' failed: expected no other "
        "change, found members 1 changed: status 'active' to 'left'",
    )


def test_undone_goals_are_proved_undone(world: HostedScenario) -> None:
    """It is certain that the task is not completed; how much was reached, and whose fault it is,
    stays open. The label is the code judge's."""
    task = world.scenario.task("lend-two")
    half = code_verdict_of(case_of(world, oracle(world, "lend-two", calls=task.oracle[:-1])))
    assert (half.label, half.allowed) == (Label.PARTIALLY_COMPLETED, NOT_COMPLETED)
    assert half.proof.startswith("goal 'new loans' failed: expected 1 with ")
    idle = code_verdict_of(case_of(world, episode(world, "overdue")))
    assert idle == CodeVerdict(
        Label.AGENT_ERROR,
        NOT_COMPLETED,
        """goal 'answer says '302'' failed: expected '302', found ; """
        """goal 'answer says '11'' failed: expected '11', found """,
    )


@pytest.mark.parametrize("ending", [Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT])
def test_an_episode_that_a_limit_cut_off_is_not_completed(
    ending: Ending, world: HostedScenario
) -> None:
    """Even where every finding passes: the agent did not end the episode."""
    found = code_verdict_of(case_of(world, oracle(world, "pay-fine", answer="", ending=ending)))
    limit = ending.replace("_", " ")
    assert found == CodeVerdict(
        Label.PARTIALLY_COMPLETED,
        NOT_COMPLETED,
        f"the {limit} cut the episode off before an answer",
    )


@pytest.mark.parametrize("ending", [Ending.POLICY_ERROR, Ending.CANCELLED])
def test_a_dead_model_and_a_cancelled_run_prove_nothing(
    ending: Ending, world: HostedScenario
) -> None:
    """Neither is evidence about the task."""
    case = case_of(world, oracle(world, "pay-fine", ending=ending))
    assert code_verdict_of(case) == CodeVerdict(None, ALL, "")


def awm_findings(label: str) -> tuple[Finding, ...]:
    """The findings made from the result of an AWM verifier of kind `code`."""
    done = label == "complete"
    return (Finding("verify_task_completion", done, "complete", label, "goal"),)


def test_an_awm_verifier_proves_completion_only(world: HostedScenario) -> None:
    """`complete` is proof unless doing nothing is complete too; `others` proves nothing."""
    assert code_verdict_of(foreign_case(world, "awm", awm_findings("complete"))) == proved(
        Label.COMPLETED,
        "the verifier is certain that it is complete, and doing nothing is not complete",
    )
    idle = foreign_case(world, "awm", awm_findings("complete"), idle=("verify_task_completion",))
    assert code_verdict_of(idle) == CodeVerdict(Label.COMPLETED, NOT_FAILED, UNFAILED)
    assert code_verdict_of(foreign_case(world, "awm", awm_findings("others"))) == CodeVerdict(
        Label.AGENT_ERROR, NOT_FAILED, UNFAILED
    )


def test_an_awm_episode_that_a_limit_cut_off(world: HostedScenario) -> None:
    """It is not completed, whatever the verifier returned."""
    cut = code_verdict_of(
        foreign_case(world, "awm", awm_findings("others"), ending=Ending.STEP_LIMIT)
    )
    assert cut == CodeVerdict(
        Label.AGENT_ERROR, NOT_COMPLETED, "the step limit cut the episode off before an answer"
    )


@pytest.mark.parametrize("verifier", ["package", "awm", "tool_calls"])
def test_a_verifier_that_did_not_run_proves_nothing(verifier: str, world: HostedScenario) -> None:
    """It failed, or there is only one of kind `sql`: code has no label."""
    case = foreign_case(world, verifier, (), unverified="it has no verifier of kind code")
    assert code_verdict_of(case) == CodeVerdict(None, NOT_FAILED, UNFAILED)


def check(passed: bool, found: str, kind: str = "goal") -> Finding:
    """A finding of a foreign world's check."""
    return Finding("get_note: contains 'milk'", passed, "contains 'milk'", found, kind)  # type: ignore[arg-type]  # parametrised


def test_checks_by_tool_calls_prove_failure_but_not_success(world: HostedScenario) -> None:
    """Checks that pass leave everything open; one that fails is proof if its own call worked."""
    good = check(True, "milk")
    wrong = "get_note: contains 'milk'' failed: expected contains 'milk', found tea"
    expected = [
        ((good,), CodeVerdict(Label.COMPLETED, NOT_FAILED, UNFAILED)),
        (
            (good, check(False, "tea")),
            CodeVerdict(Label.PARTIALLY_COMPLETED, NOT_COMPLETED, f"goal '{wrong}"),
        ),
        ((good, check(False, "tea", "guard")), proved(Label.AGENT_ERROR, f"guard '{wrong}")),
        ((good, check(False, "error: 503")), CodeVerdict(Label.PARTIALLY_COMPLETED, ALL, "")),
        ((good, check(False, "error: 503", "guard")), CodeVerdict(Label.AGENT_ERROR, ALL, "")),
    ]
    for findings, verdict in expected:
        assert code_verdict_of(foreign_case(world, "tool_calls", findings)) == verdict


def test_an_answer_is_not_mistaken_for_a_failed_call(world: HostedScenario) -> None:
    """A wrong answer that begins like a failed call still counts as wrong."""
    wrong = Finding("answer says '7'", False, "'7'", "error: none", "goal")
    found = code_verdict_of(foreign_case(world, "tool_calls", (wrong,)))
    assert (found.label, found.allowed) == (Label.AGENT_ERROR, NOT_COMPLETED)


def test_a_proof_is_one_short_line(world: HostedScenario) -> None:
    """Untrusted text in a finding is shortened and put on one line."""
    long = check(False, "tea\n" * 400)
    proof = code_verdict_of(foreign_case(world, "tool_calls", (long,))).proof
    assert "\n" not in proof and len(proof) < 300 and proof.endswith("tea tea …")


findings_of_any_kind = st.lists(
    st.builds(
        Finding,
        st.sampled_from("abc"),
        st.booleans(),
        st.just("x"),
        st.sampled_from(["y", "error: y"]),
        st.sampled_from(["goal", "guard"]),
    ),
    max_size=4,
).map(tuple)


@given(
    findings=findings_of_any_kind,
    idle=st.lists(st.sampled_from("abc"), max_size=3).map(tuple),
    ending=st.sampled_from(Ending),
    broken=st.booleans(),
    verifier=st.sampled_from(["package", "awm", "tool_calls"]),
)
def test_the_code_verdict_has_the_code_judges_label(
    findings: tuple[Finding, ...],
    idle: tuple[str, ...],
    ending: Ending,
    broken: bool,
    verifier: Any,
) -> None:
    """Where the code judge has a label, the code verdict has it too; the label is among those that
    stay open; a label is closed only with a proof."""
    trajectory = PLAYED
    assert trajectory.ended is not None
    ended = msgspec.structs.replace(trajectory.ended, ending=ending)
    trajectory = msgspec.structs.replace(trajectory, ended=ended)
    unverified = None if findings else "it did not run"
    evidence: Evidence = gather(trajectory, Verification(findings, unverified), NOTHING_KNOWN)
    evidence = msgspec.structs.replace(evidence, world_failed=broken)
    code: Judged = judge_evidence(trajectory, evidence, Counter(idle), AWM)
    found = code_verdict_of(Case(trajectory, evidence, idle, code, verifier))
    assert found.label in {None, *found.allowed}
    assert code.label in (None, found.label)
    assert bool(found.proof) == (found.allowed != ALL)


def test_a_verdict_that_could_not_be_made_has_no_label(world: HostedScenario) -> None:
    """Where doing nothing could not be verified, code has no label, but still proves undone
    work."""
    case = case_of(world, episode(world, "overdue"))
    silent = msgspec.structs.replace(case, code=unjudged(case.trajectory, "it broke", ()))
    found = code_verdict_of(silent)
    assert (found.label, found.allowed) == (None, NOT_COMPLETED)


PLAYED = oracle(library(), "pay-fine")


@pytest.mark.parametrize(
    ("call", "is_open"),
    [
        (("set_status", {"member_id": 99, "status": "left"}), True),  # the world refuses it
        (("set_status", {"member_id": "x"}), False),  # its arguments are wrong
        (("no_such_tool", {}), False),
        (("get_member", {"member_id": 1}), False),
    ],
)
def test_a_model_may_blame_the_world_only_where_it_refused_a_call(
    world: HostedScenario, call: tuple[str, dict[str, Any]], is_open: bool
) -> None:
    """A judge that always answers `environment_error` takes no other failure out of the rate."""
    found = code_verdict_of(case_of(world, episode(world, "pay-fine", [call], "Done.")))
    assert (Label.ENVIRONMENT_ERROR in found.allowed) == is_open

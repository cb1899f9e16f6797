"""What the code proves of an episode, and what it leaves open to models."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envpool.core.types import ToolResult
from envpool.inprocess.world import HostedScenario
from harness.core.events import Ending, Judged, Label
from harness.core.trajectory import Trajectory
from judge.code.code_judge import CodeJudge, met_goals, unjudged, verdict
from judge.code.proof import ruling_of
from judge.core.case import Case, Ruling
from judge.core.evidence import Evidence, ScenarioInfo, Verification, gather
from judge.core.rewards import AWM
from judge.core.verifier import Verifier
from scenarios.checks import Finding
from scenarios.format import read
from tests.support.mini_world import episode, library, oracle, variant

ALL = frozenset(Label)
NOT_COMPLETED = ALL - {Label.COMPLETED}
NOTHING_KNOWN = ScenarioInfo("", "", "")


@pytest.fixture(scope="module")
def world() -> HostedScenario:
    """The mini world."""
    return library()


def case_of(world: HostedScenario, trajectory: Trajectory) -> Case:
    """The case of an episode in a package of ours."""
    judged, evidence = CodeJudge(lambda _: world).judge_with_evidence(trajectory)
    assert evidence is not None
    task = world.scenario.task(trajectory.started.task)
    before, after = world.states(world.start, ())
    idle = met_goals(Verifier(world.scenario).run(task, before, after, ""))
    return Case(trajectory, evidence, tuple(sorted(idle.elements())), judged, "ours")


def stranger(
    world: HostedScenario,
    author: str,
    findings: tuple[Finding, ...],
    *,
    idle: tuple[str, ...] = (),
    unverified: str | None = None,
    **played: Any,
) -> Case:
    """The case of an episode whose verifier somebody else wrote, with what it said."""
    trajectory = oracle(world, "pay-fine", **played)
    evidence = gather(trajectory, Verification(findings, unverified), NOTHING_KNOWN)
    code = verdict(trajectory, evidence, Counter(idle), AWM)
    return msgspec.convert(
        {"trajectory": trajectory, "evidence": evidence, "idle": idle, "code": code}
        | {"author": author},
        Case,
        from_attributes=True,
    )


def proved(label: Label, proof: str) -> Ruling:
    return Ruling(label, frozenset((label,)), proof)


def test_success_is_proved(world: HostedScenario) -> None:
    """All findings pass, and doing nothing would not have done: nothing but completed is left."""
    assert ruling_of(case_of(world, oracle(world, "pay-fine"))) == proved(
        Label.COMPLETED,
        "the verifier's findings all passed: "
        "'members 2 updated', 'members 1 untouched', 'nothing else changed'",
    )
    many = ruling_of(case_of(world, oracle(world, "lend-two")))
    assert many.proof.endswith("'new loans', 'new loans', 'books 21 updated' and 4 more")


@pytest.mark.parametrize("goal", ['    check.goal("Emma is there", True, "there", "there")\n', ""])
def test_success_that_doing_nothing_has_is_no_proof(goal: str, tmp_path: Path) -> None:
    """A verifier whose goals all hold from the start, or that has none, says completed and leaves
    everything open."""
    old = '    check.updated("loans", 303, due_on="2026-04-01")\n'
    world = HostedScenario(read(variant(tmp_path, verify=(old, goal))))
    played = episode(world, "renew-emma")
    assert ruling_of(case_of(world, played)) == Ruling(Label.COMPLETED, ALL, "")


def test_a_goal_beside_those_of_doing_nothing_is_proof(tmp_path: Path) -> None:
    """One goal that doing nothing does not meet is enough."""
    old = '    check.updated("loans", 303'
    new = f'    check.goal("Emma is there", True, "there", "there")\n{old}'
    world = HostedScenario(read(variant(tmp_path, verify=(old, new))))
    ruling = ruling_of(case_of(world, oracle(world, "renew-emma")))
    assert (ruling.label, ruling.allowed) == (Label.COMPLETED, frozenset((Label.COMPLETED,)))


def test_a_broken_world_is_proved(world: HostedScenario) -> None:
    """Whichever way the world broke, the proof says what broke."""
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
        "the world could not tell its state": {"stateless": True},
    }
    for proof, changed in why.items():
        ruling = ruling_of(case_of(world, oracle(world, "pay-fine", **changed)))
        assert ruling == proved(Label.ENVIRONMENT_ERROR, proof)


def test_success_in_spite_of_a_broken_tool(world: HostedScenario) -> None:
    """Completed comes before the world's error, as in AWM's order."""
    task = world.scenario.task("overdue")
    calls = [*task.oracle, ("list_overdue", {})]
    played = oracle(world, "overdue", calls=calls, results=[ToolResult("oh", "internal")])
    ruling = ruling_of(case_of(world, played))
    assert (ruling.label, ruling.allowed) == (Label.COMPLETED, frozenset((Label.COMPLETED,)))


@pytest.mark.parametrize(("error", "why"), [(None, ""), ("no such tool", ": no such tool")])
def test_a_format_error_is_proved(error: str | None, why: str, world: HostedScenario) -> None:
    """Whatever was reached before, and whether or not a verifier could be asked."""
    played = oracle(world, "pay-fine", answer="", ending=Ending.FORMAT_ERROR, error=error)
    ruling = proved(Label.AGENT_ERROR, f"the agent's last message broke the format{why}")
    assert ruling_of(case_of(world, played)) == ruling
    unverified = stranger(
        world, "awm", (), unverified="none", ending=Ending.FORMAT_ERROR, error=error
    )
    assert ruling_of(unverified) == ruling


def test_damage_is_proved(world: HostedScenario) -> None:
    """A failed guard is told with what it expected and found, however many goals are met."""
    task = world.scenario.task("pay-fine")
    harm = ("set_status", {"member_id": 1, "status": "left"})
    ruling = ruling_of(case_of(world, oracle(world, "pay-fine", calls=[*task.oracle, harm])))
    assert ruling == proved(
        Label.AGENT_ERROR,
        "guard 'members 1 untouched' failed: expected unchanged, found members 1 changed: "
        "status 'active' to 'left'; guard 'nothing else changed' failed: expected no other "
        "change, found members 1 changed: status 'active' to 'left'",
    )


def test_undone_goals_are_proved_undone(world: HostedScenario) -> None:
    """That the task is not completed is certain; how far it came, and whose fault it is, is open.
    The label is the code's own."""
    task = world.scenario.task("lend-two")
    half = ruling_of(case_of(world, oracle(world, "lend-two", calls=task.oracle[:-1])))
    assert (half.label, half.allowed) == (Label.PARTIALLY_COMPLETED, NOT_COMPLETED)
    assert half.proof.startswith("goal 'new loans' failed: expected 1 with ")
    idle = ruling_of(case_of(world, episode(world, "overdue")))
    assert idle == Ruling(
        Label.AGENT_ERROR,
        NOT_COMPLETED,
        """goal 'answer says '302'' failed: expected '302', found ; """
        """goal 'answer says '11'' failed: expected '11', found """,
    )


@pytest.mark.parametrize("ending", [Ending.STEP_LIMIT, Ending.TOKEN_LIMIT, Ending.TIME_LIMIT])
def test_what_a_limit_cut_off_is_not_completed(ending: Ending, world: HostedScenario) -> None:
    """Even where every finding passes: the agent did not end it."""
    ruling = ruling_of(case_of(world, oracle(world, "pay-fine", answer="", ending=ending)))
    limit = ending.replace("_", " ")
    assert ruling == Ruling(
        Label.PARTIALLY_COMPLETED,
        NOT_COMPLETED,
        f"the {limit} cut the episode off before an answer",
    )


@pytest.mark.parametrize("ending", [Ending.POLICY_ERROR, Ending.CANCELLED])
def test_what_is_nobodys_doing_proves_nothing(ending: Ending, world: HostedScenario) -> None:
    """A dead model server and a cancelled run say nothing about the task."""
    case = case_of(world, oracle(world, "pay-fine", ending=ending))
    assert ruling_of(case) == Ruling(None, ALL, "")


def said(label: str) -> tuple[Finding, ...]:
    """What an AWM verifier of kind `code` becomes."""
    done = label == "complete"
    return (Finding("verify_task_completion", done, "complete", label, "goal"),)


def test_an_awm_verifier_is_sure_of_completion_alone(world: HostedScenario) -> None:
    """`complete` is proof unless doing nothing is complete, too; `others` proves nothing."""
    assert ruling_of(stranger(world, "awm", said("complete"))) == proved(
        Label.COMPLETED, "the verifier is sure: complete, as doing nothing is not"
    )
    idle = stranger(world, "awm", said("complete"), idle=("verify_task_completion",))
    assert ruling_of(idle) == Ruling(Label.COMPLETED, ALL, "")
    assert ruling_of(stranger(world, "awm", said("others"))) == Ruling(Label.AGENT_ERROR, ALL, "")


def test_an_awm_episode_that_a_limit_cut_off(world: HostedScenario) -> None:
    """It is not completed, whatever the verifier knows."""
    cut = ruling_of(stranger(world, "awm", said("others"), ending=Ending.STEP_LIMIT))
    assert cut == Ruling(
        Label.AGENT_ERROR, NOT_COMPLETED, "the step limit cut the episode off before an answer"
    )


@pytest.mark.parametrize("author", ["ours", "awm", "foreign"])
def test_a_verifier_that_did_not_run_proves_nothing(author: str, world: HostedScenario) -> None:
    """It broke, or there is none but of kind `sql`: the code has no label."""
    case = stranger(world, author, (), unverified="it has no verifier of kind code")
    assert ruling_of(case) == Ruling(None, ALL, "")


def check(passed: bool, found: str, kind: str = "goal") -> Finding:
    """A finding of a foreign world's check."""
    return Finding("get_note: contains 'milk'", passed, "contains 'milk'", found, kind)  # type: ignore[arg-type]  # parametrised


def test_a_foreign_world_shows_failure_not_success(world: HostedScenario) -> None:
    """Checks that pass leave all open; one that fails is proof, as long as its own call worked."""
    good = check(True, "milk")
    wrong = "get_note: contains 'milk'' failed: expected contains 'milk', found tea"
    expected = [
        ((good,), Ruling(Label.COMPLETED, ALL, "")),
        (
            (good, check(False, "tea")),
            Ruling(Label.PARTIALLY_COMPLETED, NOT_COMPLETED, f"goal '{wrong}"),
        ),
        ((good, check(False, "tea", "guard")), proved(Label.AGENT_ERROR, f"guard '{wrong}")),
        ((good, check(False, "error: 503")), Ruling(Label.PARTIALLY_COMPLETED, ALL, "")),
        ((good, check(False, "error: 503", "guard")), Ruling(Label.AGENT_ERROR, ALL, "")),
    ]
    for findings, ruling in expected:
        assert ruling_of(stranger(world, "foreign", findings)) == ruling


def test_an_answer_cannot_pass_for_a_failed_check(world: HostedScenario) -> None:
    """A wrong answer that begins like a failed call is wrong all the same."""
    wrong = Finding("answer says '7'", False, "'7'", "error: none", "goal")
    ruling = ruling_of(stranger(world, "foreign", (wrong,)))
    assert (ruling.label, ruling.allowed) == (Label.AGENT_ERROR, NOT_COMPLETED)


def test_a_proof_is_one_short_line(world: HostedScenario) -> None:
    """What a world or an agent wrote into a finding is shortened and breaks no line."""
    long = check(False, "tea\n" * 400)
    proof = ruling_of(stranger(world, "foreign", (long,))).proof
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
    author=st.sampled_from(["ours", "awm", "foreign"]),
)
def test_the_ruling_has_the_code_judges_label(
    findings: tuple[Finding, ...],
    idle: tuple[str, ...],
    ending: Ending,
    broken: bool,
    author: Any,
) -> None:
    """Where the code judge has a label, it is the ruling's; a ruling's label is among those that
    it leaves open; it says why it closes any."""
    trajectory = PLAYED
    assert trajectory.ended is not None
    ended = msgspec.structs.replace(trajectory.ended, ending=ending)
    trajectory = msgspec.structs.replace(trajectory, ended=ended)
    unverified = None if findings else "it did not run"
    evidence: Evidence = gather(trajectory, Verification(findings, unverified), NOTHING_KNOWN)
    evidence = msgspec.structs.replace(evidence, world_failed=broken)
    code: Judged = verdict(trajectory, evidence, Counter(idle), AWM)
    ruling = ruling_of(Case(trajectory, evidence, idle, code, author))
    assert ruling.label in {None, *ruling.allowed}
    assert code.label in (None, ruling.label)
    assert bool(ruling.proof) == (ruling.allowed != ALL)


def test_a_verdict_that_could_not_be_made_has_no_label(world: HostedScenario) -> None:
    """Where doing nothing could not be verified the code has no label, but undone is undone."""
    case = case_of(world, episode(world, "overdue"))
    silent = msgspec.structs.replace(case, code=unjudged(case.trajectory, "it broke", ()))
    ruling = ruling_of(silent)
    assert (ruling.label, ruling.allowed) == (None, NOT_COMPLETED)


PLAYED = oracle(library(), "pay-fine")

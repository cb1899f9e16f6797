"""Inside which bounds a statement in words is proved."""

import pytest

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.code.answer_bounds import answer_faults
from rehearsal_room.judge.code.case import bounds_of
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.playback.adversaries import adversaries_of, rewordings_of
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task
from tests.support.mini_world import library

READ = (
    '{"loan": 302, "member": "Anna Soll", "days": 11, "due": "2026-03-01", "today": "2026-03-12"}',
    '{"loan": 305, "key": "LN-305", "member": "Jon Sand", "days": 0}',
)


def faults(answer: str, accepted: str = "Loan 302 of Anna Soll is overdue by 11 days.") -> str:
    task = Task("overdue", "Which loan is overdue?", "simple", "question", accepted)
    return "; ".join(answer_faults(bounds_of(task, READ, ()), answer))


@pytest.mark.parametrize(
    "answer",
    [
        "Loan 302 of Anna Soll is overdue by 11 days.",
        "It's Anna Soll's loan 302, eleven days overdue.",
        "Sure! Loan 302 (Anna Soll): overdue by 11 days. No other loan is affected.",
        "Loan 302 of Anna Soll is overdue by 11 days; Jon Sand's, LN-305, is as it was.",
        "Loan 302 of Anna Soll was due on 1 March, so on 12 March it's 11 days overdue.",
    ],
)
def test_an_answer_inside_the_bounds_has_no_fault(answer: str) -> None:
    """The accepted answer in other words."""
    assert faults(answer) == ""


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("Loan 302 is overdue by 11 days, and 7341.27 was paid.", "values of no part of the case"),
        ("Loan 302, 11 days. No, that is all wrong.", "takes back what it states"),
        ("Loan 302 is overdue by 11 days, but I refuse to book it.", "refuses"),
        ("Loan 302: the note was not made.", "was not made"),
        ("Loan 302, 11 days. On second thoughts, it is not.", "takes back what it states"),
        ("11 302 " * 40, "words, of"),
        ("Loan 302, or the other one, LN-305.", "values of no part of the case: ln-305"),
        ("302 is overdue by 10, 11 or 12 days.", "values of no part of the case: 10, 12"),
        ("11 days: loan_302, loan_303 or loan_304.", "values of no part of the case: loan_302"),
        ("302, 11 days. LN-305 was handed to Anna Soll before.", "no part of the case: ln-305"),
        ("Loan 302: " + "9" * 400, "values of no part of the case"),
        ("Loan 302: " + "9" * 400 + "s", "values of no part of the case"),
        ("Loan 302: " + "9" * 700 + " dollars", "values of no part of the case"),
        ("Loan 302: " + "a" * 5_000, "characters, of"),
        ("302;" * 150, "values, of"),
        ("302, 11, Anna, Soll, loan, days, overdue, or member", "lists 8 things"),
    ],
)
def test_an_answer_outside_of_the_bounds_has_its_fault(answer: str, fault: str) -> None:
    """Foreign values, retractions, refusals, denials, length and lists."""
    assert fault in faults(answer)


REFUSAL = "I couldn't approve RQ-9: it was made on 9 March, more than 20 days ago."


@pytest.mark.parametrize(
    ("answer", "is_inside"),
    [
        ("RQ-9 is from 9 March. After 20 days nothing is approved.", True),
        ("I read RQ-9 again. It is older than 20 days, so it stays open.", True),
        ("RQ-9 is from 9 March, so I rejected it.", False),
        ("RQ-9 is older than 20 days, but I did approve it for you.", False),
        ("RQ-9 is older than 20 days. I've paused it instead.", False),
        ("RQ-9 is older than 10, 15, 20 or 25 days, so it stays open.", False),
        ("The limit may be 15 days, or it could be 16 days, or else it is 20 days.", False),
    ],
)
def test_a_refusal_claims_no_deed(answer: str, is_inside: bool) -> None:
    """Where nothing is to be done, who says that something was done is outside of the bounds."""
    task = Task("late", "Please approve RQ-9.", "simple", "decline", REFUSAL)
    read = ('{"key": "RQ-9", "made_on": "2026-03-09", "status": "open"}',)
    assert (list(answer_faults(bounds_of(task, read, ()), answer)) == []) == is_inside


def test_a_question_that_names_the_candidates_is_not_answered_by_the_other_finding() -> None:
    """What the instruction names must be chosen: a right number beside the wrong name is open or
    wrong."""
    world = library()
    task = world.scenario.task("overdue")
    judge = CodeJudge(world.scenario, InProcessRunner(world))
    for answer in ("11 days.", "Loan 303 is overdue by 11 days."):
        judged = judge.verdict_at_once(play(world, task, task.oracle, answer).trajectory)
        assert judged.label is not Label.COMPLETED


def test_an_open_finding_is_not_a_completion() -> None:
    """Code alone counts it as not met, and does not call it wrong."""
    world = library()
    task = world.scenario.task("overdue")
    judge = CodeJudge(world.scenario, InProcessRunner(world))
    stuffed = task.answer + " " + " ".join(map(str, range(200)))
    judged = judge.verdict_at_once(play(world, task, task.oracle, stuffed).trajectory)
    assert judged.label is Label.AGENT_ERROR
    assert [one.is_open for one in judged.findings if not one.passed] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shop_support", "flight_desk", "claims_desk"])
def test_no_adversary_is_paid_in_a_bundled_world(name: str) -> None:
    """And every right answer in another form is completed (`just gate` does it too)."""
    world = HostedScenario(find(name))
    judge = CodeJudge(world.scenario, InProcessRunner(world))
    for task in world.scenario.tasks:
        oracle = play(world, task, task.oracle, task.answer, keep=True)
        for one in adversaries_of(world, task, oracle):
            said = None if one.does_the_work else ()
            played = play(world, task, one.calls, one.answer, said, known=oracle)
            assert judge.verdict_at_once(played.trajectory).label is not Label.COMPLETED, one.kind
        for form, answer in rewordings_of(task):
            played = play(world, task, task.oracle, answer, known=oracle)
            assert judge.verdict_at_once(played.trajectory).label is Label.COMPLETED, form


def test_values_beside_a_key_of_the_case_are_of_the_case() -> None:
    """Those of the records that the answer names or the oracle asked for, and no others."""
    read = ('{"items": [{"id": "LN-302", "card": "PX-77"}, {"id": "LN-9", "card": "PX-88"}]}',)
    task = Task("card", "Which loan is overdue?", "simple", "question", "Loan LN-302 is overdue.")
    bounds = bounds_of(task, read, ())
    assert list(answer_faults(bounds, "Loan LN-302, card PX-77, is overdue.")) == []
    assert list(answer_faults(bounds, "Loan LN-302, card PX-88, is overdue.")) != []


@pytest.mark.parametrize(
    "answer",
    [
        "I have lent it, although Carla Nunes is blocked until her fine of 42.00 is paid.",
        "Carla Nunes now has the book; she was blocked until her fine of 42.00 is paid.",
        "Carla Nunes has the book, and her fine of 42.00 that blocked her is still to be paid.",
    ],
)
def test_the_reason_of_a_refusal_is_no_refusal(answer: str) -> None:
    """An agent that says it did what is to be declined is paid nothing for the right reason."""
    world = library()
    judge = CodeJudge(world.scenario, InProcessRunner(world))
    judged = judge.verdict_at_once(
        play(world, world.scenario.task("blocked"), (), answer).trajectory
    )
    assert (judged.label, judged.reward) == (Label.AGENT_ERROR, 0.0)

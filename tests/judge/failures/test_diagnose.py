"""Failures are named as what they are, with the turn, and solutions have none."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.harness.core.events import Ending, Label
from rehearsal_room.harness.core.messages import FormatError
from rehearsal_room.harness.core.mistakes import FailureKind
from rehearsal_room.judge.code.code_judge import CodeJudge
from rehearsal_room.judge.code.runners import InProcessRunner
from rehearsal_room.judge.failures.diagnose import Mistake, diagnose
from rehearsal_room.judge.playback.playback import play
from rehearsal_room.judge.testkit.endings import ended_as
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call
from tests.judge.failures.staged import NAMES, diagnosed, named, references_of
from tests.support.budgets import repeats

TASK = "cancel-duplicate"  # of shop_support: five look-ups, a cancellation, two refunds
SHOP = find("shop_support")
ORACLE = SHOP.task(TASK)


@pytest.fixture(scope="module")
def world() -> HostedScenario:
    return HostedScenario(SHOP)


def mistakes(
    world: HostedScenario, calls: Sequence[Call], answer: str, ending: Ending = Ending.ANSWERED
) -> dict[FailureKind, Mistake]:
    """What is found in an episode of the task with these calls and this answer."""
    judge = CodeJudge(SHOP, InProcessRunner(world))
    trajectory = play(world, ORACLE, calls, answer).trajectory
    if ending is not Ending.ANSWERED:
        trajectory = ended_as(trajectory, ending)
    reference = references_of(SHOP, world)[TASK]
    found = diagnose(trajectory, judge.verdict_at_once(trajectory), reference)
    return {one.kind: one for one in reversed(found)}  # the first of each kind


@pytest.mark.slow
def test_mutants_of_a_bundled_world_are_named() -> None:
    """In at least 95 % of each kind; every failed episode has a kind, and no solution has one.

    `just test` stages every third task; `just failure-kinds` and `just test-long` stage all.
    """
    episodes = list(diagnosed("shop_support", every=repeats(short=3, long=1)))
    total, right = named(episodes)
    assert set(total) == set(NAMES)
    shares = {kind: right[kind] / total[kind] for kind in total}
    assert {kind: share for kind, share in shares.items() if share < 0.95} == {}
    for one in episodes:
        if one.label is not Label.COMPLETED:
            assert one.mistakes, (one.task, one.one)
        if one.one.kind == "oracle":
            assert one.mistakes == []


def test_the_turn_is_where_it_went_wrong(world: HostedScenario) -> None:
    """A wrong record at its call, what is missing at the end or where it was refused."""
    calls = list(ORACLE.oracle)
    calls[5] = Call("cancel_order", {"order_id": 4106, "reason": "duplicate"})
    found = mistakes(world, calls, ORACLE.answer)
    assert found[FailureKind.WRONG_RECORD].turn == 5
    assert "order_id 4106 (right: 4105)" in found[FailureKind.WRONG_RECORD].why
    found = mistakes(world, ORACLE.oracle[:-1], ORACLE.answer)
    assert found[FailureKind.MISSING_WRITE].turn == len(ORACLE.oracle) - 2
    assert found[FailureKind.CONTRADICTING_ANSWER].tool == "refund_payment"


def test_a_write_without_its_look_ups(world: HostedScenario) -> None:
    """The order that is cancelled was never read; reading it in another way is enough."""
    writes = ORACLE.oracle[5:]
    found = mistakes(world, writes, ORACLE.answer)
    assert list(found) == [FailureKind.WRITE_WITHOUT_LOOKUP]
    assert found[FailureKind.WRITE_WITHOUT_LOOKUP].turn == 0
    without_ticket = [call for call in ORACLE.oracle if call.name != "get_ticket"]
    assert mistakes(world, without_ticket, ORACLE.answer) == {}


def test_another_look_up_of_the_same_record_is_enough(world: HostedScenario) -> None:
    """The list of returns shows three; the one that is decided was read by itself."""
    task = SHOP.task("plus-member-return")
    calls = [call for call in task.oracle if call.name != "list_returns"]
    assert len(calls) < len(task.oracle)
    trajectory = play(world, task, calls, task.answer).trajectory
    verdict = CodeJudge(SHOP, InProcessRunner(world)).verdict_at_once(trajectory)
    assert verdict is not None and verdict.label is Label.COMPLETED
    assert diagnose(trajectory, verdict, references_of(SHOP, world)[task.id]) == []


def test_a_truthful_report_of_a_part_contradicts_nothing(world: HostedScenario) -> None:
    """The order was cancelled and the refund was not made; the answer says so, or it does not."""
    part = ORACLE.oracle[:-2]
    told = mistakes(world, part, "I've cancelled order 4105. The refunds are still to be made.")
    assert set(told) == {FailureKind.MISSING_WRITE}
    lied = mistakes(world, part, "I've cancelled order 4105 and refunded $143.50.")
    assert FailureKind.CONTRADICTING_ANSWER in lied


def test_too_many_calls(world: HostedScenario) -> None:
    """Many more than the solution's, or one refusal three times."""
    lookup = ORACLE.oracle[0]
    found = mistakes(world, [lookup] * 20 + list(ORACLE.oracle), ORACLE.answer)
    assert list(found) == [FailureKind.TOOL_OVERUSE]
    refused = Call("get_order", {"order_id": 1})
    found = mistakes(world, [*([refused] * 3), *ORACLE.oracle], ORACLE.answer)
    assert (list(found), found[FailureKind.TOOL_OVERUSE].turn) == ([FailureKind.TOOL_OVERUSE], 2)


def test_answers(world: HostedScenario) -> None:
    """A refusal of what should be done, and an amount that was not paid."""
    found = mistakes(world, (), "I'm sorry, I can't cancel this order.")
    assert {FailureKind.WRONG_REFUSAL, FailureKind.MISSING_WRITE} <= set(found)
    calls = list(ORACLE.oracle)
    last = calls[-1]
    calls[-1] = Call(last.name, {**last.arguments, "amount_cents": 9300})
    found = mistakes(world, calls, ORACLE.answer)
    assert set(found) == {FailureKind.WRONG_VALUE, FailureKind.CONTRADICTING_ANSWER}
    assert "93.50" in found[FailureKind.CONTRADICTING_ANSWER].why


def test_an_episode_that_was_cut_off(world: HostedScenario) -> None:
    """What is missing follows from it; what was done wrongly does not."""
    assert set(mistakes(world, ORACLE.oracle[:3], "", Ending.STEP_LIMIT)) == {FailureKind.CUT_OFF}
    wrong = Call("cancel_order", {"order_id": 4105, "reason": "customer_request"})
    found = mistakes(world, [*ORACLE.oracle[:5], wrong], "", Ending.STEP_LIMIT)
    assert set(found) == {FailureKind.CUT_OFF, FailureKind.WRONG_VALUE}


def test_a_cut_off_names_malformed_replies(world: HostedScenario) -> None:
    """The report separates an agent that broke the format until the limit from a slow one."""
    trajectory = ended_as(play(world, ORACLE, ORACLE.oracle[:2], "").trajectory, Ending.STEP_LIMIT)
    reason = "The answer contains a call as text (get_order), which was not made."
    broken = replace(trajectory.steps[-1], decision=FormatError(reason), results=())
    steps = (*trajectory.steps[:-1], broken)
    verdict = CodeJudge(SHOP, InProcessRunner(world)).verdict_at_once(trajectory)
    (found,) = diagnose(replace(trajectory, steps=steps), verdict, references_of(SHOP, world)[TASK])
    assert (found.kind, found.turn) == (FailureKind.CUT_OFF, len(steps) - 1)
    counted = f"1 of {len(steps)} replies were malformed"
    assert found.why == f"the step limit ended the episode; {counted}, the last one: {reason}"

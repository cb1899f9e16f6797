"""Benchmarks that ask an agent again when it ends without a word (SuiteRecord.attempts)."""

from typing import Any

import msgspec

from rehearsal_room.harness.core.events import Ending, EpisodeEnded, StepTaken
from rehearsal_room.harness.core.messages import Act, Answer, Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.agentdojo import AgentDojo
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.judge.suites.talk import talk_of
from rehearsal_room.scenarios.core.suite_record import SuiteRecord
from tests.support.run_context import (
    LOOK,
    MemorySink,
    Move,
    MovesPolicy,
    make_run_context,
    pay,
    plans,
    watchdog_running,
)

SILENT = Reply("", content="null")


async def play(
    *moves: Move, attempts: int = 3, **limits: Any
) -> tuple[list[StepTaken], EpisodeEnded, list[Window], Trajectory]:
    """The steps, the end and the windows of an episode of these moves."""
    sink, policy = MemorySink(), MovesPolicy(*moves)
    context = make_run_context(policy, sink, dialect=AgentDojo(), limits=Limits(**limits))
    (plan,) = plans()
    record = SuiteRecord("agentdojo", "1", "slack", {}, attempts=attempts)
    scenario = msgspec.structs.replace(plan.scenario, suite=record)
    async with watchdog_running(context):
        await run_episode(msgspec.structs.replace(plan, scenario=scenario), context)
    start, *steps, end = sink.events("e000000")
    windows = policy.agents["e000000"].windows
    return steps, end, windows, Trajectory("e000000", 1, start, tuple(steps), end)


async def test_silence_is_asked_again_in_the_world_as_it_is() -> None:
    """The talk begins again, and what was done stays done; the answer is the last attempt's."""
    steps, end, windows, _ = await play(pay(350), SILENT, pay(350), Reply("Paid."))
    assert [step.again for step in steps] == [False, True, False, False]
    assert (end.ending, end.answer) == (Ending.ANSWERED, "Paid.")
    assert [len(window.messages) for window in windows] == [2, 4, 2, 4]
    paid, _, again, _ = steps
    assert (paid.results[0].error, again.results[0].error) == (None, "refused")


async def test_an_empty_answer_is_one() -> None:
    """Only a reply without any content is asked again, and at most twice."""
    steps, end, _, _ = await play(Reply(""))
    assert (len(steps), end.ending, end.answer) == (1, Ending.ANSWERED, "")
    steps, end, _, _ = await play(SILENT, SILENT, SILENT, Reply("Too late."))
    assert ([step.again for step in steps], end.answer) == ([True, True, False], "")
    steps, end, _, _ = await play(SILENT, Reply("Too late."), attempts=1)
    assert (len(steps), end.ending) == (1, Ending.ANSWERED)


async def test_the_last_reply_of_an_attempt_makes_no_call() -> None:
    """At the limit of replies the talk is over whatever the agent wants; what it says beside its
    calls is the answer, and where that is nothing it is asked again. The calls that were not made
    are known to the judge."""
    says = msgspec.structs.replace(pay(350), text="I pay.")
    moves = (LOOK, LOOK, LOOK, says)
    steps, end, _, played = await play(*moves, turn_steps=2)
    made = [len(step.results) for step in steps]
    assert made == [1, 0, 1, 0]
    assert [type(step.decision) for step in steps] == [Act, Answer, Act, Answer]
    assert [step.again for step in steps] == [False, True, False, False]
    assert (end.ending, end.answer) == (Ending.ANSWERED, "I pay.")
    talk = talk_of(played)
    assert [one["again"] for one in talk] == [False, True, False, False]
    assert [[call["name"] for call in one["unmade"]] for one in talk] == [
        *([], ["list_overdue"], [], ["pay_fine"])
    ]


async def test_other_worlds_know_no_attempts() -> None:
    """Without a suite a reply at the limit makes its calls, and silence is an answer."""
    steps, _, _, _ = await play(LOOK, pay(350), SILENT, attempts=1, turn_steps=2)
    assert [len(step.results) for step in steps] == [1, 1, 0]

"""Talks that the agent ends by a word (Task.stops), and agents that say nothing
(SuiteRecord.empty_replies)."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.harness.continuation.outcomes import length_of
from rehearsal_room.harness.core.events import Ending, EpisodeEnded, StepTaken
from rehearsal_room.harness.core.messages import NOTHING_SAID, Reply, Window
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.vita import Vita
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.judge.suites.talk import talk_of
from rehearsal_room.scenarios.core.dialogue import ModelUser, ScriptedTurn
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

OPENING = "Hello!"
USER = ModelUser("", opening=OPENING, solution=tuple([ScriptedTurn("Go on.")] * 9))


async def play(
    *moves: Move, stops: tuple[str, ...] = ("###STOP###",), **record: Any
) -> tuple[list[StepTaken], EpisodeEnded, list[Window], Trajectory]:
    """The steps after the opening, the end and the windows of an episode of these moves."""
    sink, policy = MemorySink(), MovesPolicy(*moves)
    context = make_run_context(policy, sink, dialect=Vita())
    (plan,) = plans()
    task = msgspec.structs.replace(plan.task, user=USER, stops=stops)
    suite = SuiteRecord("vitabench", "1", "delivery", {}, **record)
    scenario = msgspec.structs.replace(plan.scenario, suite=suite)
    async with watchdog_running(context):
        await run_episode(msgspec.structs.replace(plan, scenario=scenario, task=task), context)
    start, *steps, end = sink.events("e000000")
    windows = policy.agents["e000000"].windows
    return steps[1:], end, windows, Trajectory("e000000", 1, start, tuple(steps), end)


async def test_the_agent_ends_the_talk_by_a_word() -> None:
    """The user does not answer, and the episode is over as if the user had ended it."""
    steps, end, windows, _ = await play(Reply("One moment."), Reply("Bye. ###STOP### Bye."))
    assert [(step.user and step.user.ended, step.user and step.user.text) for step in steps] == [
        (False, "Go on."),
        (True, ""),
    ]
    assert (end.ending, len(windows)) == (Ending.ANSWERED, 2)


async def test_a_call_beside_the_word_is_not_made() -> None:
    """It is known to the judge, and the world is as it was."""
    says = msgspec.structs.replace(pay(350), text="I pay. ###STOP###")
    steps, end, _, played = await play(LOOK, says)
    assert [len(step.executed_results) for step in steps] == [1, 0]
    assert end.ending is Ending.ANSWERED
    last = talk_of(played)[-1]
    assert [call["name"] for call in last["unmade"]] == ["pay_fine"]
    assert (last["said"], last["text"], last["calls"]) == ("I pay. ###STOP###", last["said"], [])


async def test_a_word_that_is_not_the_task_s_ends_nothing() -> None:
    """Without such words it is said to the user like any other text."""
    steps, _, _, _ = await play(Reply("###STOP###"), Reply("Done."), stops=())
    assert [step.user and step.user.text for step in steps][:2] == ["Go on.", "Go on."]


async def test_an_agent_that_says_nothing_is_asked_again() -> None:
    """It sees the same messages, and what it did not say counts as no message. Whitespace is
    nothing, too."""
    moves = (Reply("", content="null"), Reply(" \n"), Reply("Here. ###STOP###"))
    steps, end, windows, played = await play(*moves, empty_replies=3)
    assert [step.decision == NOTHING_SAID for step in steps] == [True, True, False]
    assert [step.reward for step in steps] == [None, None, None]
    assert windows[0].messages == windows[1].messages == windows[2].messages
    assert end.ending is Ending.ANSWERED
    assert length_of(played.steps, 1).messages == 2  # the user's first text, the agent's last


@pytest.mark.parametrize("most", [1, 3])
async def test_silence_ends_an_episode(most: int) -> None:
    """As malformed, after as many replies as the suite says; a call resets the count."""
    silent = [Reply("")] * most
    steps, end, _, _ = await play(*silent[1:], LOOK, *silent, Reply("Late."), empty_replies=most)
    assert (end.ending, end.error) == (Ending.FORMAT_ERROR, "The reply is empty.")
    assert len(steps) == 2 * most
    assert steps[-1].reward == -1.0


@pytest.mark.parametrize(("shown", "roles"), [(True, ["assistant", "user"]), (False, ["user"])])
async def test_whether_the_agent_sees_its_opening(shown: bool, roles: list[str]) -> None:
    """What opens the talk in its name is in the log and for the judge in any case."""
    _, _, windows, played = await play(Reply("Bye. ###STOP###"), shows_opening=shown)
    assert [one.role for one in windows[0].messages] == ["system", *roles]
    assert talk_of(played)[0]["text"] == OPENING

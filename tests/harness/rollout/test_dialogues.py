"""Dialogues: replies without a call are said to a user, who answers and ends the talk."""

from typing import Any

import msgspec
import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.agents.agent_env import AgentEnv, AgentFunction, TaskView
from rehearsal_room.harness.agents.driver import driver_of
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.core.events import Ending, EpisodeStarted, StepTaken
from rehearsal_room.harness.core.messages import Answer, Message, Reply, UserTurn
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.rollout.episode import run_episode
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.scenarios.core.dialogue import ModelUser, ScriptedTurn, UserScript
from tests.support.run_context import (
    LOOK,
    MemorySink,
    Move,
    MovesPolicy,
    calls,
    make_run_context,
    pay,
    plans,
    watchdog_running,
)

_SCRIPT = UserScript(
    (ScriptedTurn("The fine of Anna."), ScriptedTurn("And lend?", ("lend_book",))),
    withheld=("lend_book",),
)
_GREETED = ModelUser(
    "You are Anna.",
    opening="How can I help?",
    solution=(ScriptedTurn("Pay my fine."), ScriptedTurn("Thanks.")),
)


def _plan(user: UserScript | ModelUser = _SCRIPT) -> EpisodePlan:
    (plan,) = plans()
    task = msgspec.structs.replace(plan.task, user=user)
    return msgspec.structs.replace(plan, task=task)


async def _play(
    *moves: Move,
    beginning: Beginning | None = None,
    user: UserScript | ModelUser = _SCRIPT,
    **settings: Any,
) -> tuple[list[Any], MovesPolicy]:
    """The events of one dialogue with these moves, and the policy that made them."""
    sink, policy = MemorySink(), MovesPolicy(*moves)
    context = make_run_context(policy, sink, **settings)
    async with watchdog_running(context):
        await run_episode(_plan(user), context, beginning=beginning)
    return sink.events("e000000"), policy


async def test_a_reply_without_a_call_goes_to_the_user() -> None:
    """An answer gets the user's next text and ends nothing; when the script is over the user ends
    the talk, and the answer is everything that the agent said."""
    events, _ = await _play(Reply("Whose?"), pay(350), Reply("Paid."), Reply("No."))
    start, *steps, end = events
    assert isinstance(start, EpisodeStarted)
    assert (start.is_dialogue, start.hidden) == (True, ("lend_book",))
    heard = [(step.user.text, step.user.ended) for step in steps if step.user is not None]
    assert heard == [("The fine of Anna.", False), ("And lend?", False), ("", True)]
    assert (end.ending, end.answer) == (Ending.ANSWERED, "Whose?\n\nPaid.\n\nNo.")


@pytest.mark.parametrize("dialect", ["native", "hermes", "awm"])
async def test_the_history_contains_the_talk(dialect: str) -> None:
    """After an answer the next window ends with the agent's words and the user's, in every
    dialect."""
    spoken = dialect_of(dialect, lenient=True)
    _, policy = await _play(Reply("Whose?"), Reply("Done."), dialect=spoken)
    window = policy.agents["e000000"].windows[1]
    assert window.messages[-2:] == (
        Message("assistant", "Whose?"),
        Message("user", "The fine of Anna."),
    )
    assert "You talk with a person." in window.messages[0].content


async def test_withheld_tools_are_unknown_until_the_user_brings_them() -> None:
    """A withheld tool is neither shown nor named in an error; from the user's turn on it is in the
    request, and works."""
    lend = calls("lend_book", member_id=3, book_id=21)
    events, policy = await _play(lend, Reply("Whose?"), Reply("Paid."), lend, Reply("Done."))
    first, last = events[1], events[4]
    assert first.results[0].error == "unknown_tool"
    assert "lend_book" not in first.results[0].text.partition("Tools:")[2]
    assert last.results[0].error is None
    windows = policy.agents["e000000"].windows
    shown = ["lend_book" in [tool.name for tool in window.tools] for window in windows]
    assert shown == [False, False, False, True, True]


async def test_text_dialects_describe_new_tools_in_the_user_s_words() -> None:
    """Where tools stand in the prompt, the message with which a tool comes describes it."""
    _, policy = await _play(
        *(Reply("Whose?"), Reply("Paid."), Reply("Done.")), dialect=dialect_of("hermes")
    )
    before, after = policy.agents["e000000"].windows[0], policy.agents["e000000"].windows[2]
    assert "lend_book" not in before.messages[0].content
    assert after.messages[-1].content.startswith("And lend?\n\nFrom now on")
    assert '"name":"lend_book"' in after.messages[-1].content


async def test_a_talk_goes_on_after_kept_turns() -> None:
    """An episode that begins after logged turns asks its user for what comes next, not for what was
    said already."""
    events, _ = await _play(Reply("Whose?"), pay(350), Reply("Paid."), Reply("Done."))
    whole = [event for event in events if isinstance(event, StepTaken)]
    digest = events[0].start_digest
    for kept in range(1, 4):
        beginning = Beginning(tuple(whole[:kept]), digest)
        again, _ = await _play(*_replies(whole[kept:]), beginning=beginning)
        steps = [event for event in again if isinstance(event, StepTaken)]
        assert [(s.decision, s.user) for s in steps] == [(s.decision, s.user) for s in whole]


async def test_a_task_opens_the_talk() -> None:
    """Its words are said in the agent's name: the first window shows them with the user's answer,
    and the turn is context, in which nothing was sampled."""
    events, policy = await _play(pay(350), Reply("Paid."), Reply("Bye."), user=_GREETED)
    start, *steps, end = events
    assert [step.decision.text for step in steps if isinstance(step.decision, Answer)] == [
        *("How can I help?", "Paid.", "Bye.")
    ]
    shown = policy.agents["e000000"].windows[0].messages
    assert shown[-2:] == (
        Message("assistant", "How can I help?"),
        Message("user", "Pay my fine."),
    )
    trajectory = Trajectory("e000000", 1, start, tuple(steps), end)
    assert (trajectory.first_own_turn, trajectory.num_context, end.num_steps) == (1, 1, 4)
    assert steps[0].policy_s == steps[0].reply.usage.completion_tokens == 0


@pytest.mark.parametrize("kept", [1, 2])
async def test_an_opened_talk_goes_on(kept: int) -> None:
    """The opening is said once, also where the episode begins after logged turns."""
    moves = (pay(350), Reply("Paid."), Reply("Bye."))
    whole, _ = await _play(*moves, user=_GREETED)
    beginning = Beginning(tuple(whole[1 : 1 + kept]), whole[0].start_digest)
    again, policy = await _play(*moves[kept - 1 :], user=_GREETED, beginning=beginning)
    assert [event.decision for event in again[1:-1]] == [event.decision for event in whole[1:-1]]
    assert len(policy.agents["e000000"].windows) == 4 - kept
    assert again[-1].state == whole[-1].state


def _replies(steps: list[StepTaken]) -> list[Reply]:
    return [step.reply for step in steps]


async def test_the_step_limit_ends_a_talk() -> None:
    """A talk that the user has not ended is cut off at the step limit, without an answer."""
    events, _ = await _play(Reply("Whose?"), limits=Limits(max_steps=2))
    assert (events[-1].ending, events[-1].answer) == (Ending.STEP_LIMIT, "")


async def test_awm_s_rules_allow_a_question_before_a_call() -> None:
    """The rule that an answer needs a successful call does not hold in a dialogue."""
    think = "<think>hm</think>"
    listed = Reply(f'{think}<tool_call>{{"name": "list_tools", "arguments": {{}}}}</tool_call>')
    events, _ = await _play(
        *(listed, Reply(f"{think}Whose?"), Reply(f"{think}Bye."), Reply(f"{think}Bye.")),
        dialect=dialect_of("awm", lenient=False),
        format=FormatSettings(rules="awm"),
    )
    assert [type(step.decision) for step in events[2:5]] == [Answer, Answer, Answer]
    assert events[-1].ending is Ending.ANSWERED


class _ActingUser:
    """Pays a fine at the first reply, and ends the talk at the second."""

    hidden = ("pay_fine",)

    def __init__(self) -> None:
        self.heard: list[tuple[str, ToolResult]] = []

    def keep(self, text: str, turn: UserTurn) -> None:
        self.heard.append((text, turn.results[0]))

    async def reply(self, text: str, world: Any) -> UserTurn:
        if self.heard:
            return UserTurn("", ended=True)
        arguments = {"member_id": 2, "amount_cents": 350, "method": "card"}
        self.heard.append((text, await world.call("pay_fine", arguments)))
        return UserTurn("I paid.")


class _ActingUsers:
    def user(self, scenario: Any, task: Any, tools: Any, *, seed: int) -> _ActingUser:
        return _ActingUser()


async def test_a_user_acts_in_the_world() -> None:
    """A user's calls change the world, are logged with their results, and are not tools of the
    agent."""
    sink, policy = MemorySink(), MovesPolicy(LOOK, pay(350), Reply("Please pay."), Reply("Thanks."))
    context = msgspec.structs.replace(make_run_context(policy, sink), users=_ActingUsers())
    async with watchdog_running(context):
        await run_episode(_plan(), context)
    look, refused, asked, _ = [e for e in sink.events("e000000") if isinstance(e, StepTaken)]
    assert [one.error for one in (*look.results, *refused.results)] == [None, "unknown_tool"]
    assert asked.results == () and asked.user is not None
    (call,), (result,) = asked.executed_calls, asked.executed_results
    assert (call.name, call.id, result.error) == ("pay_fine", "c2-0", None)
    assert len(result.changes) == 1
    end = sink.ended("e000000")
    assert end.state is not None and end.state.digest == result.digest


async def _drive(
    agent: AgentFunction, limits: Limits | None = None, user: UserScript | ModelUser = _SCRIPT
) -> list[Any]:
    """The events of a dialogue that an own agent takes part in."""
    sink = MemorySink()
    context = make_run_context(MovesPolicy(), sink, limits=limits)
    async with watchdog_running(context):
        await run_episode(_plan(user), context, driver_of(agent))
    return sink.events("e000000")


async def test_an_own_agent_opens_the_talk_itself() -> None:
    """Nothing is said in its name, so all of its turns are its own."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        await env.say("Hello.")
        return "Bye."

    start, *steps, end = await _drive(agent, user=_GREETED)
    assert start.given == Trajectory("e000000", 1, start, tuple(steps), end).first_own_turn == 0
    assert [step.decision.text for step in steps][:1] == ["Hello."]


async def test_an_own_agent_talks_with_the_user() -> None:
    """`say` returns what the user answers, and None when the user ends the talk; calls in between
    are steps like any other."""
    heard: list[str | None] = []

    async def agent(task: TaskView, env: AgentEnv) -> str:
        assert task.is_dialogue
        heard.append(await env.say("Whose?"))
        arguments = {"member_id": 2, "amount_cents": 350, "method": "card"}
        assert not (await env.call("pay_fine", arguments)).is_error
        heard.append(await env.say("Paid."))
        heard.append(await env.say("No."))
        return "unheard"

    events = await _drive(agent)
    assert heard == ["The fine of Anna.", "And lend?", None]
    assert len(events) == 6
    assert (events[-1].ending, events[-1].answer) == (Ending.ANSWERED, "Whose?\n\nPaid.\n\nNo.")


async def test_an_own_agent_may_leave_the_talk() -> None:
    """An agent that returns before the user ends the talk has given its last words; after the end
    it can neither speak nor call."""

    async def leaves(task: TaskView, env: AgentEnv) -> str:
        await env.say("Whose?")
        return "Good bye."

    events = await _drive(leaves)
    assert (events[-1].ending, events[-1].answer) == (Ending.ANSWERED, "Whose?\n\nGood bye.")

    async def goes_on(task: TaskView, env: AgentEnv) -> str:
        while await env.say("Hm."):
            pass
        with pytest.raises(RuntimeError, match="the user has ended the talk"):
            await env.say("Hm?")
        return ""

    events = await _drive(goes_on)
    assert (events[-1].ending, events[-1].num_steps) == (Ending.ANSWERED, 3)


async def test_words_count_as_steps() -> None:
    """The step limit holds for what an own agent says."""

    async def agent(task: TaskView, env: AgentEnv) -> str:
        while True:
            await env.say("Hm.")

    events = await _drive(agent, Limits(max_steps=2))
    assert (events[-1].ending, events[-1].num_steps) == (Ending.STEP_LIMIT, 2)

"""Agents whose replies are fixed before the episode: known calls, written in any dialect."""

from collections.abc import Sequence

from rehearsal_room.envpool.core.talks import TALK
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Reply, Window
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.scenarios.format import Call, Task, Utterance


def replies_of(
    dialect: Dialect, calls: Sequence[Call], answer: str, utterances: Sequence[Utterance] = ()
) -> tuple[Reply, ...]:
    """The replies of an agent that makes these calls, one per turn, and then answers; in a dialogue
    it says something in between.

    Calls that the dialect requires first (`Dialect.openers`) are put in front. Raises ValueError
    for an answer that the dialect cannot express.
    """
    openers = dialect.opening_calls()
    moves: list[Call | str] = []
    if tuple(calls[: len(openers)]) != openers:
        moves += openers
    for number in range(len(calls) + 1):
        moves += [one.text for one in utterances if one.after == number]
        moves += calls[number : number + 1]
    return tuple(
        [
            dialect.write((), move, turn=turn)
            if isinstance(move, str)
            else dialect.write((move,), "", turn=turn)
            for turn, move in enumerate((*moves, answer))
        ]
    )


def solution_replies(
    dialect: Dialect,
    task: Task,
    calls: Sequence[Call],
    answer: str,
    utterances: Sequence[Utterance],
) -> tuple[Reply, ...]:
    """The replies by which an agent plays a solution of a task, or one with a mistake. Where the
    first reply ends the episode, it makes all calls, or gives the answer."""
    if not task.single_turn:
        return replies_of(dialect, calls, answer, utterances)
    return (dialect.write(tuple(calls), "" if calls else answer, turn=0),)


# The summary of its history that an agent gives whose calls are fixed or drawn at random.
FIXED_SUMMARY = Reply("I did what came first, and go on with what comes next.")


def num_moves_in(assignment: Assignment) -> int:
    """How many calls the agent made and texts it said in an episode so far."""
    decisions = [event.decision for event in assignment.kept if isinstance(event, StepTaken)]
    if assignment.task.opening:  # it was said before the agent was asked
        decisions = decisions[1:]
    num_calls = sum(len(decision.calls) for decision in decisions if isinstance(decision, Act))
    return num_calls + sum(isinstance(decision, Answer) for decision in decisions)


class FixedRepliesAgent:
    """An agent that gives its replies in order, and repeats the last one when asked for more.

    `first` is the reply with which it begins: each makes one call or says one text, so an agent
    that takes an episode over begins after as many replies as there were moves. What it says in
    the middle is a call of `talk_to_user` where it has this tool: behind a program of the user's.
    """

    __slots__ = ("_next", "_replies")

    def __init__(self, replies: tuple[Reply, ...], first: int = 0) -> None:
        self._replies = replies
        self._next = min(first, len(replies) - 1)

    async def reply(self, window: Window) -> Reply:
        """The next reply, whatever the window shows; a fixed summary where one is asked for."""
        if window.asks_for_summary:
            return FIXED_SUMMARY
        index = self._next
        reply = self._replies[index]
        if index + 1 < len(self._replies):
            self._next = index + 1
            if not reply.calls and any(tool.name == TALK.name for tool in window.tools):
                call = AgentCall(TALK.name, {"text": reply.text}, f"say-{index}")
                return Reply(calls=(call,), finish="tool_calls")
        return reply

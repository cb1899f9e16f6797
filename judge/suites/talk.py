"""An episode as a suite's program scores it: its turns as JSON."""

from itertools import zip_longest
from typing import Any

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import after_thought


def talk_of(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The turns of an episode, each with its calls, what the agent said (None: it made calls, or
    its reply was malformed), what it said beside its calls, its content as the server sent it
    (None: it sent none), the calls that were not made because the talk was over, the message that
    it ended with as the server sent it (None: it made calls), whether it began again after this
    turn, and the user's turn (None: there was none) with the messages in which the user made calls.

    Example: [{"calls": [{"name": "cd", "arguments": {"folder": "a"}, "text": "…", "error": None,
    "id": "call_1"}], "text": None, "beside": "I go there.", "said": "I go there.", "unmade": [],
    "sent": None, "again": False, "user": None}]
    """
    return [_turn(step) for step in trajectory.steps]


def _turn(step: StepTaken) -> dict[str, Any]:
    text = step.decision.text if isinstance(step.decision, Answer) else None
    user = step.user
    return {
        "calls": [] if user is not None else _agent_calls(step),
        "text": text,
        "beside": after_thought(step.reply.text) if isinstance(step.decision, Act) else "",
        "said": step.reply.said,
        "unmade": _unmade(step),
        "sent": _sent(step),
        "again": step.again,
        "user": None
        if user is None
        else {
            "text": user.text,
            "ended": user.ended,
            "calls": _calls(step),
            "acts": [{"text": act.text, "calls": len(act.ids)} for act in user.acts],
        },
    }


def _unmade(step: StepTaken) -> list[dict[str, Any]]:
    if not isinstance(step.decision, Answer):
        return []
    calls = [call for call in step.reply.calls if isinstance(call.arguments, dict)]
    return [{"name": call.name, "arguments": call.arguments} for call in calls]


def _sent(step: StepTaken) -> dict[str, Any] | None:
    """A message that made no call: its content, and its calls, which could not be read or were
    over; None: it had no calls at all."""
    if not isinstance(step.decision, Answer):
        return None
    calls = [{"name": call.name, "arguments": call.arguments} for call in step.reply.calls]
    has_list = bool(calls) or step.reply.content == "no_calls"
    return {"content": step.reply.said, "calls": calls if has_list else None}


def _calls(step: StepTaken) -> list[dict[str, Any]]:
    made = zip(step.executed_calls, step.executed_results, strict=False)
    return [_call(call, result) for call, result in made]


def _agent_calls(step: StepTaken) -> list[dict[str, Any]]:
    """The agent's calls, each with the id that the model's server gave it."""
    ids = [call.id for call in step.reply.calls]
    made = zip_longest(_calls(step), ids)
    return [{**call, "id": id or ""} for call, id in made if call is not None]


def _call(call: AgentCall, result: ToolResult) -> dict[str, Any]:
    return {
        "name": call.name,
        "arguments": call.arguments,
        "text": result.text,
        "error": result.error,
    }

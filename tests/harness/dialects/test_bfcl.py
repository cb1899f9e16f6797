"""The dialect of the BFCL's own runner, with which `just parity bfcl` compares whole talks."""

import pytest

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Answer,
    Briefing,
    Message,
    Reply,
    UserTurn,
)
from rehearsal_room.harness.dialects.registry import dialect_of

BFCL = dialect_of("bfcl")
SAID = Message("assistant", "Which?")


def test_nothing_is_added_to_the_head() -> None:
    """The entry's system prompt, where there is one, its earlier talk, and its text."""
    briefing = Briefing("Do it.", "", (), "Ada", "2026-01-01T00:00:00Z", True, (SAID,))
    assert BFCL.opening_messages(briefing) == (SAID, Message("user", "Do it."))


@pytest.mark.parametrize("arguments", ['{"a": ', [1, 2], "text", {"a": 2**64}])
def test_one_call_that_cannot_be_read_ends_the_turn(arguments: object) -> None:
    """No call of the reply is made, its text is said to the user, and the calls stay in the history
    as they came, without results."""
    sent = (AgentCall("ls", {}, "x"), AgentCall("cd", arguments, "y"))
    decision = BFCL.read(Reply("Now.", sent), turn=1)
    assert decision == Answer("Now.")
    step = StepTaken(Reply("Now.", sent), decision, user=UserTurn("Next."))
    assert BFCL.turn_messages(step) == (
        Message("assistant", "Now.", sent),
        Message("user", "Next."),
    )


@pytest.mark.parametrize("text", ["", "<think>I should", "[cd(folder='a')]"])
def test_a_reply_without_calls_is_an_answer(text: str) -> None:
    """Whatever it is: an empty text, half a thought, a call as text."""
    assert isinstance(BFCL.read(Reply(text), turn=0), Answer)


def test_results_are_shown_as_they_are() -> None:
    """No word is put before a failure; results answer the ids that the server sent."""
    reply = Reply("", (AgentCall("cd", {"folder": "a"}, "call_0"),))
    decision = BFCL.read(reply, turn=3)
    assert decision == Act((AgentCall("cd", {"folder": "a"}, "c3-0"),))
    result = ToolResult("Error during execution: no", "refused")
    assert BFCL.turn_messages(StepTaken(reply, decision, (result,)))[1] == Message(
        "tool", "Error during execution: no", call_id="call_0"
    )

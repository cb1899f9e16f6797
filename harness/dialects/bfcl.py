"""What the BFCL's own runner sends and reads: our dialects add words, this one adds none.

The head is the entry's own messages, and results are shown as they are. A reply whose calls
cannot be read is said to the user: none of its calls is made, and the talk goes on with the user's
next turn. Its calls stay in the history without results.
"""

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.core.events import StepTaken
from rehearsal_room.harness.core.messages import (
    Act,
    AgentCall,
    Decision,
    FormatError,
    Message,
    Reply,
)
from rehearsal_room.harness.dialects.base import answer_of, call_id, user_messages
from rehearsal_room.harness.dialects.native import with_usable_ids
from rehearsal_room.harness.dialects.verbatim import Verbatim


class Bfcl(Verbatim):
    """The chat API's own tool calling, as the BFCL's handler for chat completions uses it."""

    name = "bfcl"
    reads_cut_replies = True

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The reply's calls, where the arguments of all of them are objects; its text otherwise."""
        calls = [
            AgentCall(call.name, call.arguments, call_id(turn, index))
            for index, call in enumerate(reply.calls)
            if isinstance(call.arguments, dict) and argument_fault(call.arguments) is None
        ]
        if calls and len(calls) == len(reply.calls):
            return Act(tuple(calls))
        return answer_of(reply.text)

    def turn_messages(self, step: StepTaken) -> tuple[Message, ...]:
        """The assistant's message with its calls, their results, and what the user says."""
        calls, decision = step.reply.calls, step.decision
        if isinstance(decision, FormatError):  # the reply reached one of our limits
            said = Message("assistant", step.reply.text)
            return (said, Message("user", decision.reason))
        if not isinstance(decision, Act):
            return (Message("assistant", step.reply.text, calls), *user_messages(step))
        calls = with_usable_ids(calls, decision.calls)
        results = [
            Message("tool", result.text, call_id=call.id)
            for call, result in zip(calls, step.results, strict=False)
        ]
        return (Message("assistant", step.reply.text, calls), *results)

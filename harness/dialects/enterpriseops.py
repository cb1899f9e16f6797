"""What the ReAct loop of EnterpriseOps-Gym sends and reads, through its LangChain client.

Results are shown as they are. Calls whose arguments are not JSON are not made, the others are; a
reply without a call that can be made is the last one.
"""

from rehearsal_room.envpool.core.arguments import argument_fault
from rehearsal_room.harness.core.messages import Act, AgentCall, Answer, Decision, Reply
from rehearsal_room.harness.dialects.base import call_id
from rehearsal_room.harness.dialects.bfcl import Bfcl


class EnterpriseOps(Bfcl):
    """The chat API's own tool calling, as LangChain uses it."""

    name = "enterpriseops"

    def read(self, reply: Reply, *, turn: int) -> Decision:
        """The calls whose arguments are objects; the text where there is none."""
        calls = tuple(
            AgentCall(call.name, call.arguments, call_id(turn, index))
            for index, call in enumerate(reply.calls)
            if isinstance(call.arguments, dict) and argument_fault(call.arguments) is None
        )
        return Act(calls) if calls else Answer(reply.text)

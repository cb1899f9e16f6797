"""Conversations of other programs, as they were: tool calling of the chat API, with a system prompt
that we did not write."""

from rehearsal_room.harness.core.messages import Briefing, Message
from rehearsal_room.harness.dialects.native import Native


class Verbatim(Native):
    """The chat API's own tool calling; the world's rules are the whole system prompt.

    Only imported logs are in it: its windows repeat what the other program showed.
    """

    name = "verbatim"

    def opening_messages(self, briefing: Briefing) -> tuple[Message, ...]:
        """The system prompt, where there is one, and the task."""
        system = (Message("system", briefing.rules),) if briefing.rules else ()
        return (*system, *briefing.earlier, Message("user", briefing.instruction))

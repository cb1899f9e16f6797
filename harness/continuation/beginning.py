"""How an episode begins in the middle: with turns that are in a log.

The logged calls are made again in a fresh world: a call costs some 50 µs in this process, and
nothing else gives a world back exactly (the log has the rows that a call changed, not the pages,
and not the module state of a worker's code). Every result and digest must be the logged one, so the
world is the one in which the turns were played. The history applies the logged turns, the agent
gets them as `Assignment.kept`; no model is asked for what it has answered.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio.lowlevel
import msgspec

from rehearsal_room.envpool.core.types import ToolResult
from rehearsal_room.harness.core.events import ForkedFrom, HistorySummarized, StepTaken
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.base import Dialect

MakeCall = Callable[[str, Any, str], Awaitable[ToolResult]]  # of a name, with arguments and an id
KeptReplies = tuple[StepTaken | HistorySummarized, ...]


class Beginning(msgspec.Struct, frozen=True):
    """The replies with which an episode begins, and where they are from."""

    kept: KeptReplies
    start_digest: str  # of the world in which they were played
    forked_from: ForkedFrom | None = None  # None: all are from an earlier attempt at the episode
    # The reply to the next turn, where an interruption came in the middle of its calls: it is not
    # asked for again, and all of its calls are made. None: there is none.
    unfinished: StepTaken | None = None

    @property
    def steps(self) -> list[StepTaken]:
        """The resumed turns."""
        return [event for event in self.kept if isinstance(event, StepTaken)]

    @property
    def seconds(self) -> float:
        """The time that the episode itself took so far; turns of another episode took it none."""
        first = 0 if self.forked_from is None else self.forked_from.turn
        summaries = (e for e in self.kept if isinstance(e, HistorySummarized) and e.turn >= first)
        return sum(step.policy_s + step.calls_s + step.user_s for step in self.steps[first:]) + sum(
            summary.policy_s for summary in summaries
        )

    def known_to_agent(self) -> KeptReplies:
        """All replies that the agent does not give again."""
        return self.kept if self.unfinished is None else (*self.kept, self.unfinished)


class KeptTurnsDiffer(Exception):
    """A kept call has another result now; the message says which call, and how it differs."""


async def rebuild(
    beginning: Beginning,
    start_digest: str,
    call_tool: MakeCall,
    *,
    dialect: Dialect,
    briefing: Briefing,
) -> None:
    """Bring a fresh world, which has this start digest, into the state after the resumed turns.

    Raises KeptTurnsDiffer, and what `call_tool` raises; the world is then in some other state.
    """
    if start_digest != beginning.start_digest:
        raise KeptTurnsDiffer(
            f"the world starts with digest {start_digest}, not {beginning.start_digest}"
        )
    for turn, step in enumerate(beginning.steps):
        await anyio.lowlevel.checkpoint()  # an instant world must not block the event loop
        for call, logged in zip(step.executed_calls, step.executed_results, strict=False):
            # Nothing was executed: there is no such tool, or its caller does not have it.
            if logged.injected or logged.error == "unknown_tool":
                continue
            result = dialect.local_result(call, briefing)
            if result is None:
                result = await call_tool(call.name, call.arguments, call.id)
            if result != logged:
                difference = _difference(logged, result)
                raise KeptTurnsDiffer(f"call {call.id} ({call.name}) of turn {turn} {difference}")


def _difference(logged: ToolResult, found: ToolResult) -> str:
    if logged.error != found.error:
        return f"gave {logged.error or 'success'} and gives {found.error or 'success'} now"
    if logged.text != found.text:
        return "gives another text now"
    return f"left a state with digest {logged.digest} and leaves {found.digest} now"

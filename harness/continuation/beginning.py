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

from rehearsal_room.envpool.core.types import TakesTogether, ToolResult
from rehearsal_room.harness.core.events import (
    ForkedFrom,
    ForkEdit,
    HistorySummarized,
    Origin,
    StepTaken,
)
from rehearsal_room.harness.core.folding import is_of_fold
from rehearsal_room.harness.core.messages import Briefing
from rehearsal_room.harness.dialects.base import Dialect, local_result

MakeCall = Callable[[str, Any, str], Awaitable[ToolResult]]  # of a name, with arguments and an id
KeptReplies = tuple[StepTaken | HistorySummarized, ...]


class WrittenTurn(msgspec.Struct, frozen=True):
    """A turn that somebody wrote for a fork in the agent's name (see harness.continuation.edits):
    the reply and what it means, without results."""

    step: StepTaken
    # One for each call, without digest; None: the call is made. Empty: all are made.
    results: tuple[ToolResult | None, ...] = ()


class Beginning(msgspec.Struct, frozen=True):
    """The replies with which an episode begins, and where they are from."""

    kept: KeptReplies
    start_digest: str  # of the world in which they were played
    forked_from: ForkedFrom | None = None  # None: all are from an earlier attempt at the episode
    # The reply to the next turn, where an interruption came in the middle of its calls: it is not
    # asked for again, and all of its calls are made. None: there is none.
    unfinished: StepTaken | None = None
    # What somebody changed by hand in a fork (None: nothing), and the turns that they wrote, which
    # come after the kept ones and are not asked for.
    edit: ForkEdit | None = None
    written: tuple[WrittenTurn, ...] = ()
    instruction: str = ""  # that the agent gets instead of the task's own; empty: it gets that
    refused: str = ""  # why the episode ends before its first turn; empty: it is played
    # In whose final state the episode begins, to which `start_digest` belongs; None: at the start.
    origin: Origin | None = None
    rules: str | None = None  # that were written from that state; None: they were not
    broken: str = ""  # why there is no such state; empty: there is one
    lacks_reply: bool = False  # whether it is missing because a model gave no reply

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

    def without_turns(self) -> "Beginning":
        """The same state without what was played from there on."""
        return Beginning((), self.start_digest, origin=self.origin, rules=self.rules)

    def known_to_agent(self) -> KeptReplies:
        """All replies that the agent does not give again."""
        return (*self.kept, *self.prescribed)

    @property
    def prescribed(self) -> tuple[StepTaken, ...]:
        """The replies to the next turns, which no agent is asked for."""
        written = tuple(one.step for one in self.written)
        return written if self.unfinished is None else (self.unfinished, *written)

    def given_results(self) -> dict[str, ToolResult]:
        """The results that were written by hand, by the ids of their calls."""
        return {
            call.id: result
            for one in self.written
            for call, result in zip(one.step.executed_calls, one.results, strict=False)
            if result is not None
        }

    def resumed_by(self, kept: "Beginning | None") -> "Beginning":
        """How an episode of a run with this beginning goes on after the turns of an earlier
        attempt (None: there are none): turns that were written by hand and are not among them are
        still to come."""
        if kept is None:
            return self
        if self.edit is None or self.forked_from is None:
            return kept
        left = self.written[max(0, len(kept.steps) - self.forked_from.turn) :]
        return msgspec.structs.replace(
            kept,
            edit=self.edit,
            instruction=self.instruction,
            written=left,
            unfinished=None if left else kept.unfinished,
        )


class KeptTurnsDiffer(Exception):
    """A kept call has another result now; the message says which call, and how it differs."""


async def rebuild(
    beginning: Beginning,
    start_digest: str,
    call_tool: MakeCall,
    *,
    env: object,
    dialect: Dialect,
    briefing: Briefing,
) -> None:
    """Bring a fresh world, which has this start digest, into the state after the resumed turns.
    `env` is that world, which may want to know all calls of a reply before the first.

    Raises KeptTurnsDiffer, and what `call_tool` raises; the world is then in some other state.
    """
    if beginning.origin is not None:
        start_digest = await go_to(
            beginning.origin, start_digest, call_tool, dialect=dialect, briefing=briefing
        )
    if start_digest != beginning.start_digest:
        raise KeptTurnsDiffer(
            f"the world starts with digest {start_digest}, not {beginning.start_digest}"
        )
    for turn, step in enumerate(beginning.steps):
        await anyio.lowlevel.checkpoint()  # an instant world must not block the event loop
        if isinstance(env, TakesTogether):
            env.announce(step.calls_of_world())
        for call, logged in zip(step.executed_calls, step.executed_results, strict=False):
            # Nothing was executed: there is no such tool, or its caller does not have it; or a
            # history was folded, which a fork may not be able to do.
            if logged.injected or logged.error == "unknown_tool" or is_of_fold(call, logged):
                continue
            result = dialect.local_result(call, briefing)
            if result is None:
                result = await call_tool(call.name, call.arguments, call.id)
            if result != logged:
                difference = _difference(logged, result)
                raise KeptTurnsDiffer(f"call {call.id} ({call.name}) of turn {turn} {difference}")


async def go_to(
    origin: Origin, digest: str, call_tool: MakeCall, *, dialect: Dialect, briefing: Briefing
) -> str:
    """Bring a fresh world, which has this digest, into the final state of another episode; return
    the digest there. Raises KeptTurnsDiffer for another world, and what `call_tool` raises."""
    if digest != origin.start_digest:
        raise KeptTurnsDiffer(f"the world starts with digest {digest}, not {origin.start_digest}")
    for number, call in enumerate(origin.calls):
        await anyio.lowlevel.checkpoint()
        if local_result(dialect, call, briefing) is None:
            # Worlds remember the results of ids, and the episode's own calls have other ones.
            made = await call_tool(call.name, call.arguments, f"{origin.episode}/{number}")
            digest = made.digest
    return digest


def _difference(logged: ToolResult, found: ToolResult) -> str:
    if logged.error != found.error:
        return f"gave {logged.error or 'success'} and gives {found.error or 'success'} now"
    if logged.text != found.text:
        return "gives another text now"
    return f"left a state with digest {logged.digest} and leaves {found.digest} now"

"""The briefing of a logged episode: what its agent knew before the first turn."""

from collections.abc import Sequence

from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.harness.core.events import EpisodeStarted
from rehearsal_room.harness.core.folding import with_fold
from rehearsal_room.harness.core.messages import Briefing


def logged_briefing(
    started: EpisodeStarted, *, rules: str, tools: Sequence[ToolSpec], user: str, now: str
) -> Briefing:
    """The briefing of an episode that was logged, from its start and its world. `tools` are all of
    the world's; those that the agent did not have at the start are left out, and `fold` is added
    where its history window has it."""
    return Briefing(
        started.instruction,
        rules if started.rules is None else started.rules,
        with_fold(shown_tools(tools, started.hidden), started.history),
        user,
        now,
        started.is_dialogue,
        started.earlier,
    )


def shown_tools(tools: Sequence[ToolSpec], hidden: Sequence[str]) -> tuple[ToolSpec, ...]:
    """The tools without the hidden ones, as a tuple. A tuple of which none is hidden is returned
    itself: texts that describe it are shared by its identity (see ScenarioText)."""
    if hidden:
        return tuple([tool for tool in tools if tool.name not in hidden])
    return tools if isinstance(tools, tuple) else tuple(tools)

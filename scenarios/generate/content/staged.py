"""Staging situations in a world: each inserts its rows and gives a draft of a task."""

from collections.abc import Collection, Sequence

import msgspec

from rehearsal_room.scenarios.generate.content.world_maker import Maker
from rehearsal_room.scenarios.generate.core.situations import Situation
from rehearsal_room.scenarios.generate.core.task_drafts import Draft
from rehearsal_room.scenarios.generate.plan.chosen_situations import SituationDraw

_TRIES = 4  # situations that may refuse a world, for each one that is needed


class StagedSituation(msgspec.Struct, frozen=True):
    """A situation whose rows are in the world, and its draft."""

    situation: Situation
    draft: Draft


def stage_situations(
    maker: Maker, draw: SituationDraw, wanted: int, tools: Collection[str]
) -> list[StagedSituation]:
    """Stage so many situations, or fewer where a world suits no more; return them in the drawn
    order. `tools`: those of the world, in canonical words; a situation that needs another refuses.

    A situation that refuses the world leaves no row. One that is drawn a second time, because the
    world has fewer than it needs, has its own people and records.
    """
    staged: list[tuple[Situation, object]] = []
    for _ in range(_TRIES * wanted):
        if len(staged) == wanted:
            break
        one = draw.draw()
        if one is None and draw.start_again():
            one = draw.draw()
        if one is None:
            break
        mark = maker.mark()
        draft = one.write(maker)
        if draft is None or (isinstance(draft, Draft) and not _has_tools(draft, tools)):
            maker.undo(mark)
        else:
            staged.append((one, draft))
    return _drafted(staged, tools)


def _has_tools(draft: Draft, tools: Collection[str]) -> bool:
    return all(name in tools for name in (*(one.name for one in draft.calls), *draft.tempts))


def _drafted(
    staged: Sequence[tuple[Situation, object]], tools: Collection[str]
) -> list[StagedSituation]:
    """The drafts, also of the situations that write theirs when all rows exist."""
    found = []
    for one, written in staged:
        draft = written() if callable(written) else written
        if isinstance(draft, Draft) and _has_tools(draft, tools):
            found.append(StagedSituation(one, draft))
    return found

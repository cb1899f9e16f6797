"""The figures of many worlds: their sizes, their tasks, and how much they differ.

authoring.charts draws these figures, and authoring.html puts them on a page.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import median

import msgspec

from rehearsal_room.authoring.metrics import TaskFigures, WorldFigures, verb_of
from rehearsal_room.authoring.plays import PlayerResult
from rehearsal_room.authoring.task_texts import TextFigures, most_frequent, text_figures
from rehearsal_room.judge.gate.core.near_duplicates import THRESHOLD, near_duplicates, nearest

# The medians of AgentWorldModel-1K (arXiv:2602.10090, its table of sizes). Those of tasks (steps,
# unique_tools) were measured with AWM's agent.
AWM_MEDIANS = {"tables": 18.0, "rows": 121.0, "tools": 35.0, "steps": 6.0, "unique_tools": 6.0}


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a number.

    Example: [17, 18, 18] -> Spread(median=18.0, least=17, most=18, counts={17: 1, 18: 2})
    """

    median: float | None  # None: no number is known
    least: int | None
    most: int | None
    counts: dict[int, int]  # number -> how often it occurs


class TaskShare(msgspec.Struct, frozen=True):
    """`count` of the `of` tasks for which it is known."""

    count: int
    of: int


class Similarity(msgspec.Struct, frozen=True):
    """How similar the worlds are (see judge.gate.core.near_duplicates)."""

    threshold: float
    pairs: int  # pairs of worlds at or above the threshold
    share: float  # of all pairs
    alike: tuple[tuple[str, str, float], ...]  # the ten most similar pairs, most similar first
    nearest: tuple[float, ...]  # each world's similarity to its nearest world; sorted


class Unread(msgspec.Struct, frozen=True):
    """A world that could not be measured."""

    name: str
    why: str


class CatalogueFigures(msgspec.Struct, frozen=True):
    """The output of `rehearse worlds report --json`. Counts are sorted, the largest first."""

    worlds: int
    tasks: int
    tools: int
    rows: int
    sources: dict[str, int]  # worlds
    spreads: dict[str, Spread]  # tables, rows, tools of a world; steps, unique_tools of a task
    spreads_by_source: dict[str, dict[str, Spread]]
    awm: dict[str, float]  # AWM_MEDIANS
    kinds: dict[str, dict[str, int]]  # kind -> difficulty -> tasks
    trades: dict[str, int]  # worlds
    modules: dict[str, int]  # worlds; without the modules that every world has
    module_pairs: tuple[tuple[str, str, int], ...]  # for each pair, the worlds that have both
    module_combinations: int  # distinct ones
    verbs: dict[str, int]  # tools by the first word of their names
    shares: dict[str, TaskShare]  # of tasks
    lookups: Spread  # calls before the first that writes; tasks that change something
    distances: Spread  # the most turns between seeing a value and writing it; the same tasks
    similarity: Similarity
    texts: TextFigures  # of the tasks' instructions
    situations: int = 0  # templates of procedural tasks that occur
    most_frequent_situation: tuple[str, float] = ("", 0.0)  # with its share of those tasks
    voices: dict[str, int] = {}  # who speaks -> procedural tasks
    plays: dict[str, tuple[PlayerResult, ...]] = {}  # world -> who played its tasks
    unread: tuple[Unread, ...] = ()


def catalogue_figures(
    worlds: Sequence[WorldFigures], unread: Sequence[Unread] = ()
) -> CatalogueFigures:
    """The figures of one or more worlds; their order does not matter."""
    worlds = sorted(worlds, key=lambda world: world.name)
    tasks = [task for world in worlds for task in world.tasks]
    sources = _counts(str(world.source) for world in worlds)
    changes = [task for task in tasks if task.tables]
    return CatalogueFigures(
        worlds=len(worlds),
        tasks=len(tasks),
        tools=sum(len(world.tools) for world in worlds),
        rows=sum(world.rows for world in worlds),
        sources=sources,
        spreads=_spreads(worlds),
        spreads_by_source={
            source: _spreads([world for world in worlds if world.source == source])
            for source in sources
        },
        awm=AWM_MEDIANS,
        kinds=_kinds(tasks),
        trades=_counts(world.trade for world in worlds if world.trade is not None),
        modules=_modules(worlds),
        module_pairs=_pairs(worlds),
        module_combinations=len({world.modules for world in worlds if world.modules}),
        verbs=_counts(verb_of(tool) for world in worlds for tool in world.tools),
        shares=_shares(tasks),
        lookups=spread_of(task.lookups for task in changes),
        distances=spread_of(task.distance for task in changes),
        similarity=_similarity(worlds),
        texts=text_figures([task.instruction for task in tasks if task.instruction]),
        situations=len({task.situation for task in tasks} - {None}),
        most_frequent_situation=most_frequent(task.situation for task in tasks if task.situation),
        voices=_counts(task.voice for task in tasks if task.voice is not None),
        plays={world.name: world.plays for world in worlds if world.plays},
        unread=tuple(unread),
    )


def title_of(figures: CatalogueFigures) -> str:
    """Example: "1,000 worlds, 10,000 tasks, 35,412 tools" """
    counts = {"world": figures.worlds, "task": figures.tasks, "tool": figures.tools}
    return ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for noun, count in counts.items())


def spread_of(numbers: Iterable[int | None]) -> Spread:
    """The distribution of the numbers; None is left out."""
    known = sorted(number for number in numbers if number is not None)
    if not known:
        return Spread(None, None, None, {})
    return Spread(float(median(known)), known[0], known[-1], dict(sorted(Counter(known).items())))


def _spreads(worlds: Sequence[WorldFigures]) -> dict[str, Spread]:
    tasks = [task for world in worlds for task in world.tasks]
    return {
        "tables": spread_of(world.tables for world in worlds),
        "rows": spread_of(world.rows for world in worlds),
        "tools": spread_of(len(world.tools) for world in worlds),
        "steps": spread_of(task.calls for task in tasks),
        "unique_tools": spread_of(task.tools for task in tasks),
    }


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _kinds(tasks: Sequence[TaskFigures]) -> dict[str, dict[str, int]]:
    kinds = _counts(str(task.kind) for task in tasks)
    return {
        kind: _counts(str(task.difficulty) for task in tasks if task.kind == kind) for kind in kinds
    }


def _modules(worlds: Sequence[WorldFigures]) -> dict[str, int]:
    procedural = [world for world in worlds if world.modules]
    counts = _counts(name for world in procedural for name in world.modules)
    return {name: count for name, count in counts.items() if count < len(procedural)}


def _pairs(worlds: Sequence[WorldFigures]) -> tuple[tuple[str, str, int], ...]:
    names = sorted(_modules(worlds))
    counts = Counter(
        pair for world in worlds for pair in combinations(sorted(set(world.modules)), 2)
    )
    return tuple((*pair, counts[pair]) for pair in combinations(names, 2))


def _shares(tasks: Sequence[TaskFigures]) -> dict[str, TaskShare]:
    """The shares of tasks, in the order in which they are shown."""
    found = {
        "to be declined, whole or in part": [
            task.forbidden for task in tasks if task.forbidden is not None
        ],
        "with rows that look right and are not": [
            task.lookalikes > 0 for task in tasks if task.lookalikes is not None
        ],
        "with a value needed long after it was seen": [
            task.distance > task.window
            for task in tasks
            if task.distance is not None and task.window is not None
        ],
        "of two or more independent requests": [
            task.parts > 1 for task in tasks if task.parts is not None
        ],
        "of more than two independent requests": [
            task.parts > 2 for task in tasks if task.parts is not None
        ],
        "that look something up before they write": [
            task.lookups > 0 for task in tasks if task.lookups is not None and task.tables
        ],
        "that change several tables": [
            task.tables > 1 for task in tasks if task.tables is not None
        ],
    }
    return {name: TaskShare(sum(known), len(known)) for name, known in found.items() if known}


def _similarity(worlds: Sequence[WorldFigures]) -> Similarity:
    named = [(world.name, world.features) for world in worlds]
    pairs = near_duplicates(named)
    count = len(worlds) * (len(worlds) - 1) // 2
    return Similarity(
        threshold=THRESHOLD,
        pairs=len(pairs),
        share=round(len(pairs) / count, 6) if count else 0.0,
        alike=tuple((pair.one, pair.other, pair.alike) for pair in pairs[:10]),
        nearest=tuple(
            sorted(round(alike, 4) for alike in nearest(features for _, features in named))
        ),
    )

"""The failures of runs, counted: by kind, and within worlds, tasks, tools and tags."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from rehearsal_room.harness.core.mistakes import HABITS, FailureKind, Mistake
from rehearsal_room.harness.outcomes.units import Unit, choose_unit
from rehearsal_room.judge.statistics.comparison import compare
from rehearsal_room.judge.statistics.intervals import share_interval
from rehearsal_room.judge.statistics.outcomes import Outcome, TaskKey

_EXAMPLES = 3
_Cluster = Unit | Literal["try"]  # what an interval takes as one; tries: at one task alone


class Diagnosed(msgspec.Struct, frozen=True):
    """One episode that is over, with its mistakes."""

    run: str
    episode: str
    scenario: str
    task: str
    seed: int
    tags: tuple[str, ...]
    tools: tuple[str, ...]  # that the agent called
    is_completed: bool
    mistakes: tuple[Mistake, ...]

    @property
    def kinds(self) -> frozenset[FailureKind]:
        """The kinds of its mistakes."""
        return frozenset(one.kind for one in self.mistakes)


class FailureExample(msgspec.Struct, frozen=True):
    """An episode in which it happened. `rehearse run --from RUN/EPISODE@TURN` begins there."""

    run: str
    episode: str
    turn: int  # from 0
    why: str


class Count(msgspec.Struct, frozen=True):
    """How many episodes, and which share of all, with its 95 % interval."""

    episodes: int
    share: float
    lower: float
    upper: float


class KindCount(Count, frozen=True, kw_only=True):
    """The episodes with one kind of failure."""

    completed: int  # of them: it ended well nevertheless
    examples: tuple[FailureExample, ...]  # of different tasks where there are any


class GroupCount(msgspec.Struct, frozen=True):
    """The episodes of one world, task, tool or tag."""

    episodes: int
    failed: Count
    kinds: dict[str, Count]


class KindChange(msgspec.Struct, frozen=True):
    """The change of one kind against another run, on the tasks that both have."""

    before: float  # share of the episodes
    now: float
    delta: float
    interval: tuple[float, float]
    p: float


class FailureReport(msgspec.Struct, frozen=True):
    """What `rehearse failures --json` writes."""

    episodes: int
    failed: int  # not completed
    kinds: dict[str, KindCount]  # the most frequent first; an episode can have several
    worlds: dict[str, GroupCount]
    tasks: dict[str, GroupCount]  # as `scenario:task`; those with a failure
    tools: dict[str, GroupCount]  # that episodes called, or should have; kinds: of its own calls
    tags: dict[str, GroupCount]
    without_solution: int = 0  # failed ones whose solution is not known: findings alone are read
    against: str = ""  # the run that `changes` compares with; empty: none
    changes: dict[str, KindChange] = {}
    unit: Unit = "task"  # of the intervals; in a world it is the task, and in a task the try
    about: str = ""  # what they are about


def report_of(
    episodes: Sequence[Diagnosed],
    *,
    without_solution: int = 0,
    against: str = "",
    base: Sequence[Diagnosed] = (),
    unit: Unit | None = None,
) -> FailureReport:
    """Count the failures of episodes; `base` are those of the run to compare with. `unit` is that
    of the intervals (None: it follows from the tasks)."""
    choice = choose_unit(((one.scenario, one.task) for one in episodes), unit)
    unit = choice.unit
    counts = Counter([kind for one in episodes for kind in one.kinds])
    names = sorted(counts, key=lambda kind: (-counts[kind], str(kind)))
    return FailureReport(
        episodes=len(episodes),
        failed=sum(not one.is_completed for one in episodes),
        kinds={str(kind): _kind_count(episodes, kind, unit) for kind in names},
        worlds=_groups(episodes, lambda one: (one.scenario,), "task"),
        tasks={
            name: group
            for name, group in _groups(
                episodes, lambda one: (f"{one.scenario}:{one.task}",), "try"
            ).items()
            if group.failed.episodes or group.kinds
        },
        tools=_groups(episodes, _tools_of, unit, of_tool=True),
        tags=_groups(episodes, lambda one: one.tags, unit),
        without_solution=without_solution,
        against=against,
        changes=_changes(episodes, base, unit) if base else {},
        unit=unit,
        about=choice.about,
    )


def _tools_of(one: Diagnosed) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one.tools, *(found.tool for found in one.mistakes if found.tool))))


_KEYS: dict[_Cluster, Callable[[int, Diagnosed], Any]] = {
    "try": lambda index, one: index,
    "task": lambda index, one: (one.scenario, one.task),
    "world": lambda index, one: one.scenario,
}


def _count(episodes: Sequence[Diagnosed], hits: Sequence[bool], cluster: _Cluster) -> Count:
    clusters: dict[Any, list[float]] = {}
    key_of = _KEYS[cluster]
    for index, (one, hit) in enumerate(zip(episodes, hits, strict=True)):
        clusters.setdefault(key_of(index, one), []).append(float(hit))
    found = share_interval(clusters)
    assert found is not None
    return Count(sum(hits), found.value, found.lower, found.upper)


def _kind_count(episodes: Sequence[Diagnosed], kind: FailureKind, unit: Unit) -> KindCount:
    hits = [any(found.kind is kind for found in one.mistakes) for one in episodes]
    count = _count(episodes, hits, unit)
    having = [one for one, hit in zip(episodes, hits, strict=True) if hit]
    first: dict[TaskKey, Diagnosed] = {}
    for one in having:
        first.setdefault((one.scenario, one.task), one)
    chosen = list(first.values())[:_EXAMPLES]
    chosen += [one for one in having if one not in chosen][: _EXAMPLES - len(chosen)]
    return KindCount(
        episodes=count.episodes,
        share=count.share,
        lower=count.lower,
        upper=count.upper,
        completed=sum(one.is_completed for one in having) if kind in HABITS else 0,
        examples=tuple([_example(one, kind) for one in chosen]),
    )


def _example(one: Diagnosed, kind: FailureKind) -> FailureExample:
    mistake = next(found for found in one.mistakes if found.kind is kind)
    return FailureExample(one.run, one.episode, mistake.turn, mistake.why)


def _groups(
    episodes: Sequence[Diagnosed],
    names_of: Callable[[Diagnosed], tuple[str, ...]],
    cluster: _Cluster,
    *,
    of_tool: bool = False,
) -> dict[str, GroupCount]:
    """A count for each name that `names_of` gives an episode, the most failures first. `of_tool`:
    a group's kinds are those of mistakes with this tool."""
    members: dict[str, list[Diagnosed]] = {}
    for one in episodes:
        for name in names_of(one):
            members.setdefault(name, []).append(one)
    found = {name: _group(some, name if of_tool else "", cluster) for name, some in members.items()}
    return dict(sorted(found.items(), key=lambda item: _order(*item, of_tool=of_tool)))


def _order(name: str, group: GroupCount, *, of_tool: bool) -> tuple[int, str]:
    count = sum(one.episodes for one in group.kinds.values()) if of_tool else group.failed.episodes
    return -count, name


def _group(episodes: Sequence[Diagnosed], tool: str, cluster: _Cluster) -> GroupCount:
    kinds = defaultdict[FailureKind, list[bool]](lambda: [False] * len(episodes))
    for index, one in enumerate(episodes):
        for mistake in one.mistakes:
            if not tool or mistake.tool == tool:
                kinds[mistake.kind][index] = True
    order = sorted(kinds, key=lambda kind: (-sum(kinds[kind]), str(kind)))
    failed = [not one.is_completed for one in episodes]
    return GroupCount(
        len(episodes),
        _count(episodes, failed, cluster),
        {str(kind): _count(episodes, kinds[kind], cluster) for kind in order},
    )


def _changes(
    episodes: Sequence[Diagnosed], base: Sequence[Diagnosed], unit: Unit
) -> dict[str, KindChange]:
    """The change of each kind; empty where no task is shared."""
    found = {}
    kinds = {kind for one in (*episodes, *base) for kind in one.kinds}
    for kind in sorted(kinds, key=str):
        before, now = _outcomes(base, kind), _outcomes(episodes, kind)
        compared = compare(before, now, unit=unit)
        if compared is None:
            return {}
        shared = {one.key for one in before} & {one.key for one in now}
        found[str(kind)] = KindChange(
            before=_share(before, shared),
            now=_share(now, shared),
            delta=compared.delta,
            interval=compared.interval,
            p=compared.p,
        )
    return dict(sorted(found.items(), key=lambda item: (item[1].p, item[0])))


def _outcomes(episodes: Iterable[Diagnosed], kind: FailureKind) -> list[Outcome]:
    return [Outcome(one.scenario, one.task, one.seed, float(kind in one.kinds)) for one in episodes]


def _share(outcomes: Iterable[Outcome], shared: set[TaskKey]) -> float:
    """The mean over tasks of the share of episodes."""
    tries: Mapping[TaskKey, list[float]] = {key: [] for key in shared}
    for one in outcomes:
        if one.key in shared:
            tries[one.key].append(one.score or 0.0)
    return sum(sum(values) / len(values) for values in tries.values()) / len(shared)

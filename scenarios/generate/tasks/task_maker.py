"""Making the tasks of a world: parts are drafted, executed, and combined up to a drawn length."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from scenarios.checks import says
from scenarios.format import Task, TaskKind
from scenarios.generate.content.drawn_world import DrawnWorld
from scenarios.generate.core.world_host import SeededWorld
from scenarios.generate.tasks.combined_tasks import CombinedTask, combine, play_alone
from scenarios.generate.tasks.derived_verifiers import VerifierDemands
from scenarios.generate.tasks.dressed_drafts import PlayedCalls, TaskPart, dress_draft
from scenarios.generate.tasks.features import TaskFeatures, measure_task

_ROUNDS = 8  # the maximum number of calls of every draft function
_TRIES = 6  # parts tried to lengthen a task
_QUESTIONS = 0.25  # share of the tasks that begin with a question
_SPREAD = 0.75  # of the number of calls: standard deviation of its logarithm
_SHORTER = 0.87  # factor on the drawn length: the last part mostly exceeds the length
_MOST = 3  # the maximum length, as a multiple of the usual number of calls

PlayedPart = tuple[TaskPart, PlayedCalls]
PartFilter = Callable[[TaskPart], bool]


class MadeTask(msgspec.Struct, frozen=True):
    """A task with its verifier's demands and its measures."""

    task: Task
    demands: VerifierDemands
    features: TaskFeatures


class TaskMaker:
    """Makes the tasks of one world; the tasks use at most `num_tools` of its tools.

    `dropped` counts the unusable drafts by "module.draft: why". `left_out` are the tools that no
    task calls and that the world will not have, in the trade's words.
    """

    def __init__(self, world: DrawnWorld, seeded: SeededWorld, num_tools: int) -> None:
        self._world = world
        self._seeded = seeded
        self._rng = world.maker.rng
        self._pool: list[PlayedPart] = []
        self._rounds = 0
        self._asked: set[str] = set()
        self._num_tools = num_tools
        self.left_out: frozenset[str] = frozenset()
        self.dropped: Counter[str] = Counter()

    def make_tasks(self) -> list[MadeTask]:
        """Return as many tasks as the knob requires, or fewer where the drafts give no more."""
        made: list[MadeTask] = []
        while len(made) < self._world.plan.knobs.tasks:
            first = self._first_part()
            if first is None:
                break
            combined = self._lengthen(first)
            if combined is not None:
                made.append(self._make_task(combined, len(made) + 1))
        return made

    # The pool of parts ------------------------------------------------------------------------

    def _fill_pool(self) -> bool:
        """Call every draft function once more; return False when the rounds are used up."""
        if self._rounds == _ROUNDS:
            return False
        self._rounds += 1
        world = self._world
        fresh: list[PlayedPart] = []
        for module in world.modules:
            dresser = world.dressers[module.name]
            world.maker.start_module(module.name, dresser)
            for function in module.drafts:
                draft = function(world.maker)
                if draft is None:
                    continue
                part = dress_draft(draft, module.name, function.__name__, dresser, self._rng)
                if not self.left_out.isdisjoint(_tools(part)):
                    continue
                played = play_alone(self._seeded, part)
                if isinstance(played, str):
                    self.dropped[f"{module.name}.{function.__name__}: {played}"] += 1
                elif part.ask not in self._asked:
                    self._asked.add(part.ask)
                    fresh.append((part, played))
        if self._rounds == 1:
            self.left_out = self._surplus_tools([part for part, _ in fresh])
        self._rng.shuffle(fresh)
        self._pool += [one for one in fresh if self.left_out.isdisjoint(_tools(one[0]))]
        return True

    def _surplus_tools(self, parts: Sequence[TaskPart]) -> frozenset[str]:
        """The tools to leave out where there are too many: those that the fewest drafts call."""
        world = self._world
        tools = [world.dressers[one.name].name(name) for one in world.modules for name in one.tools]
        calls = Counter(name for part in parts for name in _tools(part))
        self._rng.shuffle(tools)
        tools.sort(key=lambda name: max(1, calls[name]))
        return frozenset(tools[: max(0, len(tools) - self._num_tools)])

    def _take(self, fits: PartFilter) -> PlayedPart | None:
        """Remove the first fitting part from the pool and return it; fill the pool if needed."""
        while True:
            for index, (part, _) in enumerate(self._pool):
                if fits(part):
                    return self._pool.pop(index)
            if not self._fill_pool():
                return None

    def _first_part(self) -> PlayedPart | None:
        """The part with which the next task begins, by the shares that the knobs set."""
        knobs, rng = self._world.plan.knobs, self._rng
        draw = rng.random()
        if draw < knobs.forbidden:
            because = "permission" if rng.random() < knobs.permissions else "policy"
            found = self._take_soon(lambda part: part.draft.because == because and _declines(part))
            return found or self._take(_declines) or self._take(_is_plain)
        if draw < knobs.forbidden + knobs.memory:
            return self._take(lambda part: bool(part.later)) or self._take(_is_plain)
        kind = "question" if rng.random() < _QUESTIONS else "change"
        found = self._take(lambda part: _is_plain(part) and part.draft.kind == kind)
        return found or self._take(_is_plain)

    def _take_soon(self, fits: PartFilter) -> PlayedPart | None:
        """Like `_take`, but the pool is filled at most twice."""
        for _ in range(2):
            for index, (part, _played) in enumerate(self._pool):
                if fits(part):
                    return self._pool.pop(index)
            self._fill_pool()
        return None

    # Combining --------------------------------------------------------------------------------

    def _lengthen(self, first: PlayedPart) -> CombinedTask | None:
        """Combine a part with others up to the drawn number of calls. None: it gives no task."""
        knobs, rng = self._world.plan.knobs, self._rng
        length = round(knobs.steps * min(_MOST, _SHORTER * rng.lognormvariate(0, _SPREAD)))
        if first[0].later:
            length = max(length, len(first[0].calls) + knobs.window)
        fits = _companions(first[0], rng)
        parts = [first]
        best = self._combine(parts)
        if best is None:
            return None
        refused: list[PlayedPart] = []
        tries = 0
        while len(best.order) < length and tries < _TRIES:
            room = max(2, length - len(best.order) + 1)
            more = self._take(_short(fits, room))
            if more is None:
                break
            longer = self._combine([*parts, more])
            if longer is None:
                refused.append(more)
                tries += 1
            else:
                parts, best = [*parts, more], longer
        self._pool += refused
        if first[0].later and not self._needs_memory(best):
            self.dropped[f"{first[0].module}.{first[0].function}: nothing came between"] += 1
            return None
        return best

    def _combine(self, parts: list[PlayedPart]) -> CombinedTask | None:
        combined = combine(self._seeded, parts, self._rng)
        if isinstance(combined, str):
            last = parts[-1][0]
            self.dropped[f"{last.module}.{last.function}: {combined}"] += 1
            return None
        facts = [
            fact for part in combined.parts if part.draft.kind == "question" for fact in part.facts
        ]
        if any(says(combined.instruction, fact[0]) for fact in facts):
            self.dropped["together: the instruction contains the fact that it asks for"] += 1
            return None
        if any(_is_repeated(combined.parts, fact) for fact in facts):
            self.dropped["together: an answer contains a fact by chance"] += 1
            return None
        return combined

    def _needs_memory(self, combined: CombinedTask) -> bool:
        measured = measure_task("", _kind(combined), combined)
        return measured.distance > self._world.plan.knobs.window

    def _make_task(self, combined: CombinedTask, number: int) -> MadeTask:
        name = f"{combined.parts[0].name}_{number}"
        kind = _kind(combined)
        features = measure_task(name.replace("_", "-"), kind, combined)
        traps = [part.trap for part in combined.parts if part.trap]
        task = Task(
            id=features.task,
            instruction=combined.instruction,
            difficulty=features.difficulty,
            kind=kind,
            answer=combined.answer,
            oracle=combined.played.calls,
            trap=" ".join(traps) or None,
        )
        return MadeTask(task, self._demands(name, combined), features)

    def _demands(self, name: str, combined: CombinedTask) -> VerifierDemands:
        parts = combined.parts
        free: dict[str, tuple[tuple[str, ...], ...]] = {}
        for part in parts:
            for column, phrases in part.free.items():
                free[column] = (*free.get(column, ()), phrases)
        return VerifierDemands(
            name=name,
            about=_about(parts),
            changes=combined.played.changes,
            facts=tuple(
                dict.fromkeys(
                    fact for part in parts if part.draft.kind == "question" for fact in part.facts
                )
            ),
            reasons=tuple(part.reasons for part in parts if part.reasons),
            free=free,
            spare=tuple(
                dict.fromkeys(
                    (self._world.dressers[part.module].name(table), row_id)
                    for part in parts
                    for table, row_id in part.draft.spare
                )
            ),
        )


def _is_repeated(parts: Sequence[TaskPart], fact: tuple[str, ...]) -> bool:
    """Whether the answers contain a fact a second time, as "2026-12-03" contains 12: a wrong
    answer would then pass."""
    rest = " ".join(
        _without_first(part.answer, fact[0]) if fact in part.facts else part.answer
        for part in parts
    )
    return any(says(rest, wording) for wording in fact)


def _without_first(answer: str, fact: str) -> str:
    """The answer without the first occurrence of the fact as a whole word."""
    return re.sub(rf"(?<!\w){re.escape(fact)}(?!\w)", "", answer, count=1)


def _about(parts: Sequence[TaskPart]) -> str:
    """The subject of a task, in one line."""
    names = [part.name.replace("_", " ") for part in parts[:3]]
    more = [f"{len(parts) - 3} more"] if len(parts) > 3 else []
    text = ", then ".join((*names, *more))
    return f"{text[:1].upper()}{text[1:]}."


def _tools(part: TaskPart) -> set[str]:
    return {call.name for call in part.calls}


def _declines(part: TaskPart) -> bool:
    return part.draft.kind == "decline"


def _is_plain(part: TaskPart) -> bool:
    return not part.later and part.draft.kind != "decline"


def _companions(first: TaskPart, rng: Random) -> PartFilter:
    """A filter for the parts that may follow the first: a change may be followed by any plain
    part; in half of the cases a question or a request to decline is followed by questions only."""
    if first.draft.kind == "change" or rng.random() < 0.5:
        return _is_plain
    return lambda part: _is_plain(part) and part.draft.kind == "question"


def _short(fits: PartFilter, room: int) -> PartFilter:
    return lambda part: fits(part) and len(part.calls) <= room


def _kind(combined: CombinedTask) -> TaskKind:
    kinds = {part.draft.kind for part in combined.parts}
    if "change" in kinds:
        return "change"
    return "decline" if "decline" in kinds else "question"

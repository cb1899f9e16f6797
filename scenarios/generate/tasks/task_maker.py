"""The tasks of a world: parts are drafted, tried, and joined until the wanted length is reached."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from scenarios.checks import says
from scenarios.format import Task, TaskKind
from scenarios.generate.content.drawn_world import Setting
from scenarios.generate.core.world_host import Stage
from scenarios.generate.tasks.combined_tasks import Joined, alone, joined
from scenarios.generate.tasks.derived_verifiers import Wanted
from scenarios.generate.tasks.dressed_drafts import Part, Shown, part_of
from scenarios.generate.tasks.features import Features, features_of

_ROUNDS = 8  # times that every draft function may be asked
_TRIES = 6  # parts tried to lengthen a task
_QUESTIONS = 0.25  # share of the tasks that begin with a question
_LONG = 0.75  # spread of the number of calls: standard deviation of its logarithm
_SHORT = 0.87  # of the wanted length: the last part mostly goes beyond it
_MOST = 3  # times the usual number of calls, at most

Tried = tuple[Part, Shown]
Pick = Callable[[Part], bool]


class MadeTask(msgspec.Struct, frozen=True):
    """A task with its verifier's demands and its measures."""

    task: Task
    wanted: Wanted
    features: Features


class Drafting:
    """Makes the tasks of one world, with so many of its tools at most.

    `dropped` counts what was drafted in vain, by draft and why; `left_out` are the tools that no
    task calls and that the world shall not have, in the trade's words.
    """

    def __init__(self, setting: Setting, stage: Stage, num_tools: int) -> None:
        self._setting = setting
        self._stage = stage
        self._rng = setting.maker.rng
        self._pool: list[Tried] = []
        self._rounds = 0
        self._asked: set[str] = set()
        self._num_tools = num_tools
        self.left_out: frozenset[str] = frozenset()
        self.dropped: Counter[str] = Counter()

    def tasks(self) -> list[MadeTask]:
        """As many tasks as the knobs say, or fewer where the drafts do not give more."""
        made: list[MadeTask] = []
        while len(made) < self._setting.plan.knobs.tasks:
            begun = self._begin()
            if begun is None:
                break
            found = self._lengthened(begun)
            if found is not None:
                made.append(self._made(found, len(made) + 1))
        return made

    # The pool of parts ------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Ask every draft function once more; whether that may still be done."""
        if self._rounds == _ROUNDS:
            return False
        self._rounds += 1
        setting = self._setting
        fresh: list[Tried] = []
        for module in setting.modules:
            dresser = setting.dressers[module.name]
            setting.maker.at_work(module.name, dresser)
            for function in module.drafts:
                draft = function(setting.maker)
                if draft is None:
                    continue
                part = part_of(draft, module.name, function.__name__, dresser, self._rng)
                if not self.left_out.isdisjoint(_tools(part)):
                    continue
                shown = alone(self._stage, part)
                if isinstance(shown, str):
                    self.dropped[f"{module.name}.{function.__name__}: {shown}"] += 1
                elif part.ask not in self._asked:
                    self._asked.add(part.ask)
                    fresh.append((part, shown))
        if self._rounds == 1:
            self.left_out = self._spare_tools([part for part, _ in fresh])
        self._rng.shuffle(fresh)
        self._pool += [tried for tried in fresh if self.left_out.isdisjoint(_tools(tried[0]))]
        return True

    def _spare_tools(self, parts: Sequence[Part]) -> frozenset[str]:
        """What is to be left out of too many tools: such as few drafts call, by chance."""
        setting = self._setting
        tools = [
            setting.dressers[one.name].name(name) for one in setting.modules for name in one.tools
        ]
        calls = Counter(name for part in parts for name in _tools(part))
        self._rng.shuffle(tools)
        tools.sort(key=lambda name: max(1, calls[name]))
        return frozenset(tools[: max(0, len(tools) - self._num_tools)])

    def _take(self, fits: Pick) -> Tried | None:
        """The first part in the pool that fits, taken out of it."""
        while True:
            for index, (part, _) in enumerate(self._pool):
                if fits(part):
                    return self._pool.pop(index)
            if not self._fill():
                return None

    def _begin(self) -> Tried | None:
        """The part with which the next task begins, by the shares that the knobs tell."""
        knobs, rng = self._setting.plan.knobs, self._rng
        draw = rng.random()
        if draw < knobs.forbidden:
            because = "permission" if rng.random() < knobs.permissions else "policy"
            found = self._take_now(lambda part: part.draft.because == because and _declines(part))
            return found or self._take(_declines) or self._take(_is_plain)
        if draw < knobs.forbidden + knobs.memory:
            return self._take(lambda part: bool(part.later)) or self._take(_is_plain)
        kind = "question" if rng.random() < _QUESTIONS else "change"
        found = self._take(lambda part: _is_plain(part) and part.draft.kind == kind)
        return found or self._take(_is_plain)

    def _take_now(self, fits: Pick) -> Tried | None:
        """A fitting part, if one is drafted soon."""
        for _ in range(2):
            for index, (part, _shown) in enumerate(self._pool):
                if fits(part):
                    return self._pool.pop(index)
            self._fill()
        return None

    # Joining ----------------------------------------------------------------------------------

    def _lengthened(self, begun: Tried) -> Joined | None:
        """The part with others, until the drawn number of calls is reached; None when it cannot
        be a task."""
        knobs, rng = self._setting.plan.knobs, self._rng
        length = round(knobs.steps * min(_MOST, _SHORT * rng.lognormvariate(0, _LONG)))
        if begun[0].later:
            length = max(length, len(begun[0].calls) + knobs.window)
        only = _companions(begun[0], rng)
        parts = [begun]
        best = self._joined(parts)
        if best is None:
            return None
        refused: list[Tried] = []
        tries = 0
        while len(best.turns) < length and tries < _TRIES:
            room = max(2, length - len(best.turns) + 1)
            more = self._take(_short(only, room))
            if more is None:
                break
            longer = self._joined([*parts, more])
            if longer is None:
                refused.append(more)
                tries += 1
            else:
                parts, best = [*parts, more], longer
        self._pool += refused
        if begun[0].later and not self._is_remembered(best):
            self.dropped[f"{begun[0].module}.{begun[0].function}: nothing came between"] += 1
            return None
        return best

    def _joined(self, parts: list[Tried]) -> Joined | None:
        found = joined(self._stage, parts, self._rng)
        if isinstance(found, str):
            last = parts[-1][0]
            self.dropped[f"{last.module}.{last.function}: {found}"] += 1
            return None
        facts = [
            fact for part in found.parts if part.draft.kind == "question" for fact in part.facts
        ]
        if any(says(found.instruction, fact[0]) for fact in facts):
            self.dropped["together: the task tells what it asks for"] += 1
            return None
        if any(_says_besides(found.parts, fact) for fact in facts):
            self.dropped["together: an answer says a fact by chance"] += 1
            return None
        return found

    def _is_remembered(self, found: Joined) -> bool:
        measured = features_of("", _kind(found), found)
        return measured.distance > self._setting.plan.knobs.window

    def _made(self, found: Joined, number: int) -> MadeTask:
        name = f"{found.parts[0].name}_{number}"
        kind = _kind(found)
        features = features_of(name.replace("_", "-"), kind, found)
        traps = [part.trap for part in found.parts if part.trap]
        task = Task(
            id=features.task,
            instruction=found.instruction,
            difficulty=features.difficulty,
            kind=kind,
            answer=found.answer,
            oracle=found.shown.calls,
            trap=" ".join(traps) or None,
        )
        return MadeTask(task, self._wanted(name, found), features)

    def _wanted(self, name: str, found: Joined) -> Wanted:
        parts = found.parts
        free: dict[str, tuple[tuple[str, ...], ...]] = {}
        for part in parts:
            for place, texts in part.free.items():
                free[place] = (*free.get(place, ()), texts)
        return Wanted(
            name=name,
            about=_about(parts),
            changes=found.shown.changes,
            facts=tuple(
                dict.fromkeys(
                    fact for part in parts if part.draft.kind == "question" for fact in part.facts
                )
            ),
            reasons=tuple(part.reasons for part in parts if part.reasons),
            free=free,
            spare=tuple(
                dict.fromkeys(
                    (self._setting.dressers[part.module].name(table), row_id)
                    for part in parts
                    for table, row_id in part.draft.spare
                )
            ),
        )


def _says_besides(parts: Sequence[Part], fact: tuple[str, ...]) -> bool:
    """Whether the answers say a fact elsewhere too, as "2026-12-03" says 12: a wrong answer would
    then pass."""
    rest = " ".join(
        _once_less(part.answer, fact[0]) if fact in part.facts else part.answer for part in parts
    )
    return any(says(rest, wording) for wording in fact)


def _once_less(answer: str, fact: str) -> str:
    """The answer without the first place that has the fact as a whole word."""
    return re.sub(rf"(?<!\w){re.escape(fact)}(?!\w)", "", answer, count=1)


def _about(parts: Sequence[Part]) -> str:
    """What a task is about, in a line."""
    names = [part.name.replace("_", " ") for part in parts[:3]]
    more = [f"{len(parts) - 3} more"] if len(parts) > 3 else []
    text = ", then ".join((*names, *more))
    return f"{text[:1].upper()}{text[1:]}."


def _tools(part: Part) -> set[str]:
    return {call.name for call in part.calls}


def _declines(part: Part) -> bool:
    return part.draft.kind == "decline"


def _is_plain(part: Part) -> bool:
    return not part.later and part.draft.kind != "decline"


def _companions(begun: Part, rng: Random) -> Pick:
    """Which parts may stand beside the first: a question stays among questions, as a rule, and
    what must be declined stands among questions in half of the cases."""
    if begun.draft.kind == "change" or rng.random() < 0.5:
        return _is_plain
    return lambda part: _is_plain(part) and part.draft.kind == "question"


def _short(fits: Pick, room: int) -> Pick:
    return lambda part: fits(part) and len(part.calls) <= room


def _kind(found: Joined) -> TaskKind:
    kinds = {part.draft.kind for part in found.parts}
    if "change" in kinds:
        return "change"
    return "decline" if "decline" in kinds else "question"

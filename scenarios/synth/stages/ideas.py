"""The first stage: from seeds to as many scenarios as are wanted, each fit and unlike the others.

A scenario is kept when a classifier gives it a score that is high enough, its vector's cosine with
every other one is at most `same`, and, where it comes near to one (`near`), none of its categories
is full. When several rounds in a row bring nothing, `same` and the categories' cap are raised, as
in AWM; when that is used up, what there is has to do.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

import anyio
import msgspec

from scenarios.awm.names import name_fault
from scenarios.errors import OutOfBudget, SynthesisError
from scenarios.synth.core.answer_parsing import Unread, json_of
from scenarios.synth.core.attempts import Checked, tried
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Author, Purpose, Turn
from scenarios.synth.core.world_drafts import Idea, Seed
from scenarios.synth.storage.output_folder import Folder, read_json, write_json
from scenarios.text_similarity import cosine

T = TypeVar("T")
R = TypeVar("R")
_BATCH = 10  # scenarios in one answer
_AT_ONCE = 5  # such answers in one round
_SEEDS = 16  # classified side by side, and written down together
_EXAMPLES = 8
_AVOIDED = 40  # names that are told as taken
_FOCUSED = 0.7  # share of the requests that name fields of business
_FOCUS = (
    *("retail and wholesale", "food and catering", "travel and hotels", "public transport"),
    *("logistics and warehouses", "health care", "care at home", "insurance", "banking"),
    *("property and rentals", "building and repair", "energy and water", "schools", "libraries"),
    *("museums and events", "sports clubs", "farming", "factories", "laboratories", "staffing"),
    *("courts and offices", "charities", "vehicles and workshops", "software teams"),
)


class IdeaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept."""

    count: int = 100  # scenarios, the seeds among them
    invent: bool = True  # ask for new ones where there are not enough seeds that are fit
    least_score: int = 5
    same: float = 0.85  # cosine above which two are one
    near: float = 0.75  # cosine above which the categories are looked at
    cap: int = 80  # scenarios of one category
    patience: int = 3  # rounds without a new one until the rules are relaxed
    most_same: float = 0.95  # `same` is not raised above it


class Refused(msgspec.Struct, frozen=True):
    """A scenario that was not kept, and why."""

    name: str
    why: str


class Pool(msgspec.Struct):
    """All scenarios so far."""

    same: float
    cap: float
    kept: list[Idea] = []
    refused: list[Refused] = []
    rounds: int = 0  # in which new ones were asked for
    idle: int = 0  # of them, the last ones that brought nothing
    attempts: int = 0  # answers of the classifier and the inventor
    unread: int = 0  # of them, those that did not hold
    ended: str = ""  # why no more were asked for; empty: there are enough


class _Classified(msgspec.Struct):
    score: int
    categories: list[str] = []
    features: list[str] = []
    missing: list[str] = []
    reason: str = ""


class _Invented(msgspec.Struct):
    scenarios: list[Seed]


class _Classify:
    """Whether a scenario can be rebuilt as a world."""

    def __init__(self, seed: Seed, prompts: Prompts) -> None:
        self._seed = seed
        self._prompts = prompts
        self.purpose = Purpose("classify", Idea(seed.name, "").key)

    def opening(self) -> tuple[Turn, ...]:
        return self._prompts.turns(
            "classify", name=self._seed.name, description=self._seed.description
        )

    def again(self, problems: str) -> tuple[Turn, ...]:
        return self._prompts.turns("feedback", problems=problems)

    async def check(self, text: str) -> Checked[_Classified]:
        try:
            found = json_of(text, _Classified)
        except Unread as exc:
            return Checked(None, (str(exc),))
        if not 1 <= found.score <= 10:
            return Checked(None, (f"score: expected 1 to 10, found {found.score}",))
        return Checked(found)


class _Invent:
    """New scenarios."""

    def __init__(self, purpose: Purpose, turns: tuple[Turn, ...], prompts: Prompts) -> None:
        self.purpose = purpose
        self._turns = turns
        self._prompts = prompts

    def opening(self) -> tuple[Turn, ...]:
        return self._turns

    def again(self, problems: str) -> tuple[Turn, ...]:
        return self._prompts.turns("feedback", problems=problems)

    async def check(self, text: str) -> Checked[list[Seed]]:
        try:
            found = json_of(text, _Invented).scenarios
        except Unread as exc:
            return Checked(None, (str(exc),))
        usable = [s for s in found if not name_fault(s.name) and s.description.strip()]
        return Checked(usable) if usable else Checked(None, ("there is no scenario",))


class Gathering:
    """The work on one pool. What is found is written after each round."""

    def __init__(
        self,
        folder: Folder,
        author: Author,
        prompts: Prompts,
        settings: IdeaSettings,
        *,
        tries: int,
        seed: int,
        told: Callable[[str], None],
    ) -> None:
        self._file = folder.path / "ideas.json"
        self._author = author
        self._prompts = prompts
        self._settings = settings
        self._tries = tries
        self._seed = seed
        self._told = told
        self._vectors: list[list[float]] = []  # of those kept, in their order
        found = read_json(self._file, Pool)
        self.pool = found or Pool(same=settings.same, cap=float(settings.cap))

    async def gather(self, seeds: Sequence[Seed]) -> Pool:
        """Fill the pool. Raises what the author raises; what was found by then is kept."""
        pool, settings = self.pool, self._settings
        pool.ended, pool.idle = "", 0
        if pool.kept:
            self._vectors = await self._embedded(pool.kept)
        known = {idea.name for idea in pool.kept} | {refused.name for refused in pool.refused}
        missing = [seed for seed in seeds if seed.name not in known]
        while missing and (room := settings.count - len(pool.kept)) > 0:
            some = min(_SEEDS, room)
            await self._admit(missing[:some], "seed")
            missing = missing[some:]
        while settings.invent and len(pool.kept) < settings.count and not self._has_enough_of_it():
            before = len(pool.kept)
            await self._round()
            pool.idle = 0 if len(pool.kept) > before else pool.idle + 1
            write_json(self._file, pool)
        return pool

    def _has_enough_of_it(self) -> bool:
        """Whether to stop asking; where patience is at its end, the rules are relaxed first."""
        pool, settings = self.pool, self._settings
        if pool.idle < settings.patience:
            return False
        if pool.same >= settings.most_same:
            pool.ended = f"{pool.idle} rounds in a row brought no scenario that is new"
            return True
        pool.same = min(pool.same + 0.05, settings.most_same)
        pool.cap *= 1.2
        pool.idle = 0
        return False

    async def _round(self) -> None:
        """Ask for new ones, side by side, and admit them in order."""
        pool = self.pool
        pool.rounds += 1
        wanted = self._settings.count - len(pool.kept)
        requests = min(_AT_ONCE, math.ceil(wanted / _BATCH))

        async def invent(number: int) -> list[Seed]:
            rng = Random(f"{self._seed} {pool.rounds} {number}")
            purpose = Purpose("invent", f"round {pool.rounds}.{number}")
            step = _Invent(purpose, self._question(rng, min(_BATCH, wanted + 1)), self._prompts)
            outcome = await tried(self._author, step, tries=self._tries, seed=self._seed)
            pool.attempts += len(outcome.attempts)
            pool.unread += len(outcome.attempts) - outcome.ok
            return outcome.value or []

        answers = await side_by_side(invent, range(requests))
        found = {seed.name: seed for answer in answers for seed in answer}
        await self._admit(list(found.values()), "model")

    def _question(self, rng: Random, count: int) -> tuple[Turn, ...]:
        kept = self.pool.kept
        examples = rng.sample(kept, min(_EXAMPLES, len(kept)))
        shown = "\n".join(f"- {idea.name}: {idea.description}" for idea in examples) or "- none"
        avoid = "\n".join(f"- {idea.name}" for idea in kept[-_AVOIDED:]) or "- none"
        focus = ""
        if rng.random() < _FOCUSED:
            focus = "Think of " + ", ".join(rng.sample(_FOCUS, 3)) + "."
        return self._prompts.turns("invent", count=count, examples=shown, avoid=avoid, focus=focus)

    async def _admit(self, seeds: Sequence[Seed], origin: str) -> None:
        """Classify, embed, and keep what is fit and unlike the others."""
        pool = self.pool

        failures: list[SynthesisError] = []

        async def classify(seed: Seed) -> Idea | Refused | None:
            step = _Classify(seed, self._prompts)
            try:
                outcome = await tried(self._author, step, tries=self._tries, seed=self._seed)
            except SynthesisError as exc:  # what the others are told is kept
                failures.append(exc)
                return None
            pool.attempts += len(outcome.attempts)
            pool.unread += len(outcome.attempts) - outcome.ok
            self._told("classify")
            return _judged(seed, outcome.value, origin, self._settings.least_score)

        found = await side_by_side(classify, seeds)
        ideas = [idea for idea in found if isinstance(idea, Idea)]
        vectors = await self._embedded(ideas) if ideas else []
        pool.refused += [refused for refused in found if isinstance(refused, Refused)]
        for idea, vector in zip(ideas, vectors, strict=True):
            if len(pool.kept) >= self._settings.count:
                break
            if why := self._against(idea, vector):
                pool.refused.append(Refused(idea.name, why))
            else:
                pool.kept.append(idea)
                self._vectors.append(vector)
        write_json(self._file, pool)
        if failures:
            raise failures[0]

    def _against(self, idea: Idea, vector: list[float]) -> str:
        """Why not to keep it; empty: nothing speaks against it."""
        pool = self.pool
        for other in pool.kept:
            if other.key == idea.key:
                return f"{other.name!r} has this name"
        likeness = [cosine(vector, other) for other in self._vectors]
        nearest = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if nearest is None or likeness[nearest] <= self._settings.near:
            return ""
        like = f"cosine {likeness[nearest]:.2f} with {pool.kept[nearest].name!r}"
        if likeness[nearest] > pool.same:
            return f"it is there already: {like}"
        counts = Counter(name for other in pool.kept for name in other.categories)
        full = [name for name in idea.categories if counts[name] >= pool.cap]
        return f"{full[0]} is full, and it is near to one: {like}" if full else ""

    async def _embedded(self, ideas: Sequence[Idea]) -> list[list[float]]:
        texts = [
            " ".join([idea.name, idea.description[:500], *idea.categories, *idea.features[:5]])
            for idea in ideas
        ]
        return await self._author.embed(texts, Purpose("embed"))


def _judged(seed: Seed, found: _Classified | None, origin: str, least: int) -> Idea | Refused:
    if found is None:
        return Refused(seed.name, "the classifier gave no answer that could be read")
    if found.score < least:
        return Refused(seed.name, f"score {found.score} of 10: {found.reason}")
    return Idea(
        name=seed.name,
        description=seed.description,
        score=found.score,
        categories=tuple(found.categories),
        features=tuple(found.features),
        missing=tuple(found.missing),
        reason=found.reason,
        origin="seed" if origin == "seed" else "model",
    )


async def side_by_side(work: Callable[[T], Awaitable[R]], subjects: Sequence[T]) -> list[R]:
    """The results in the subjects' order. The first failure ends all, and is raised as it is; where
    it is the budget, what is under way and paid for may end first."""
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def one(place: int, subject: T) -> None:
        try:
            results[place] = await work(subject)
        except Exception as exc:
            failures.append(exc)
            if not isinstance(exc, OutOfBudget):
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for place, subject in enumerate(subjects):
            group.start_soon(one, place, subject)
    if failures:
        raise failures[0]
    return [results[place] for place in range(len(subjects))]

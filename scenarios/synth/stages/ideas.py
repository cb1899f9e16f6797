"""The first stage: from seeds to the requested number of scenarios, each suitable and distinct.

A scenario is kept when a classifier gives it a sufficient score, the cosine of its vector with
every other vector is at most `same`, and, where a cosine is above `near`, none of its categories is
full. When several rounds in a row add no scenario, `same` and the cap of the categories are
raised, as in AWM. When `same` cannot be raised further, the stage ends with fewer scenarios.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

import anyio
import msgspec

from rehearsal_room.scenarios.awm.names import name_fault
from rehearsal_room.scenarios.errors import OutOfBudget, SynthesisError
from rehearsal_room.scenarios.synth.core.answer_parsing import UnreadableAnswer, json_of
from rehearsal_room.scenarios.synth.core.attempts import CheckedAnswer, ask_until_valid
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import AuthorModel, PromptMessage, RequestPurpose
from rehearsal_room.scenarios.synth.core.world_drafts import ScenarioIdea, SeedScenario
from rehearsal_room.scenarios.synth.storage.output_folder import (
    SynthesisFolder,
    read_json,
    write_json,
)
from rehearsal_room.scenarios.text_similarity import cosine

T = TypeVar("T")
R = TypeVar("R")
_BATCH = 10  # scenarios in one answer
_AT_ONCE = 5  # such answers in one round
_SEEDS = 16  # classified concurrently, and saved together
_EXAMPLES = 8
_AVOIDED = 40  # names of existing scenarios in a prompt
_FOCUSED = 0.7  # share of the requests that name fields of business
_FOCUS = (
    *("retail and wholesale", "food and catering", "travel and hotels", "public transport"),
    *("logistics and warehouses", "health care", "care at home", "insurance", "banking"),
    *("property and rentals", "building and repair", "energy and water", "schools", "libraries"),
    *("museums and events", "sports clubs", "farming", "factories", "laboratories", "staffing"),
    *("courts and offices", "charities", "vehicles and workshops", "software teams"),
)


class IdeaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The conditions under which scenarios are kept."""

    count: int = 100  # scenarios, including the seeds
    invent: bool = True  # ask for new ones when there are too few suitable seeds
    least_score: int = 5
    same: float = 0.85  # cosine above which two scenarios count as the same
    near: float = 0.75  # cosine above which the categories are checked
    cap: int = 80  # scenarios of one category
    patience: int = 3  # rounds without a new scenario until the conditions are relaxed
    most_same: float = 0.95  # the upper limit of `same`


class RefusedIdea(msgspec.Struct, frozen=True):
    """A scenario that was not kept, with the reason."""

    name: str
    why: str


class IdeaPool(msgspec.Struct):
    """All scenarios so far."""

    same: float
    cap: float
    kept: list[ScenarioIdea] = []
    refused: list[RefusedIdea] = []
    rounds: int = 0  # rounds of requests for new scenarios
    idle: int = 0  # the last rounds in a row that added none
    attempts: int = 0  # answers to requests for a classification or for new scenarios
    unread: int = 0  # the invalid ones of these answers
    ended: str = ""  # why it stopped with fewer scenarios; empty: there are enough


class _Classified(msgspec.Struct):
    score: int
    categories: list[str] = []
    features: list[str] = []
    missing: list[str] = []
    reason: str = ""


class _Invented(msgspec.Struct):
    scenarios: list[SeedScenario]


def classify_prompt(seed: SeedScenario, prompts: Prompts) -> tuple[PromptMessage, ...]:
    """The messages that ask whether a scenario can be written as a world."""
    return prompts.messages("classify", name=seed.name, description=seed.description)


class _ClassifyStage:
    """Classifying a scenario: whether it can be written as a world."""

    def __init__(self, seed: SeedScenario, prompts: Prompts) -> None:
        self._seed = seed
        self._prompts = prompts
        self.purpose = RequestPurpose("classify", ScenarioIdea(seed.name, "").key)

    def prompt(self) -> tuple[PromptMessage, ...]:
        return classify_prompt(self._seed, self._prompts)

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        return self._prompts.messages("feedback", problems=problems)

    async def check(self, text: str) -> CheckedAnswer[_Classified]:
        try:
            found = json_of(text, _Classified)
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        if not 1 <= found.score <= 10:
            return CheckedAnswer(None, (f"score: expected 1 to 10, found {found.score}",))
        return CheckedAnswer(found)


class _InventStage:
    """Inventing new scenarios."""

    def __init__(
        self, purpose: RequestPurpose, messages: tuple[PromptMessage, ...], prompts: Prompts
    ) -> None:
        self.purpose = purpose
        self._messages = messages
        self._prompts = prompts

    def prompt(self) -> tuple[PromptMessage, ...]:
        return self._messages

    def correction(self, problems: str) -> tuple[PromptMessage, ...]:
        return self._prompts.messages("feedback", problems=problems)

    async def check(self, text: str) -> CheckedAnswer[list[SeedScenario]]:
        try:
            found = json_of(text, _Invented).scenarios
        except UnreadableAnswer as exc:
            return CheckedAnswer(None, (str(exc),))
        usable = [s for s in found if not name_fault(s.name) and s.description.strip()]
        return CheckedAnswer(usable) if usable else CheckedAnswer(None, ("there is no scenario",))


class IdeaGatherer:
    """Fills the pool of scenarios, and saves it after each round."""

    def __init__(
        self,
        folder: SynthesisFolder,
        author: AuthorModel,
        prompts: Prompts,
        settings: IdeaSettings,
        *,
        tries: int,
        seed: int,
        report_step: Callable[[str], None],
    ) -> None:
        self._file = folder.path / "ideas.json"
        self._author = author
        self._prompts = prompts
        self._settings = settings
        self._tries = tries
        self._seed = seed
        self._report_step = report_step
        self._vectors: list[list[float]] = []  # of the kept scenarios, in their order
        saved = read_json(self._file, IdeaPool)
        self.pool = saved or IdeaPool(same=settings.same, cap=float(settings.cap))

    async def gather(self, seeds: Sequence[SeedScenario]) -> IdeaPool:
        """Fill the pool and return it. Raises what the author raises; the pool so far is saved."""
        pool, settings = self.pool, self._settings
        pool.ended, pool.idle = "", 0
        if pool.kept:
            self._vectors = await self._embed(pool.kept)
        known = {idea.name for idea in pool.kept} | {refused.name for refused in pool.refused}
        missing = [seed for seed in seeds if seed.name not in known]
        while missing and (room := settings.count - len(pool.kept)) > 0:
            size = min(_SEEDS, room)
            await self._admit(missing[:size], "seed")
            missing = missing[size:]
        while settings.invent and len(pool.kept) < settings.count and not self._gives_up():
            before = len(pool.kept)
            await self._round()
            pool.idle = 0 if len(pool.kept) > before else pool.idle + 1
            write_json(self._file, pool)
        return pool

    def _gives_up(self) -> bool:
        """Whether to stop asking. After too many idle rounds the conditions are relaxed first."""
        pool, settings = self.pool, self._settings
        if pool.idle < settings.patience:
            return False
        if pool.same >= settings.most_same:
            pool.ended = f"{pool.idle} rounds in a row added no new scenario"
            return True
        pool.same = min(pool.same + 0.05, settings.most_same)
        pool.cap *= 1.2
        pool.idle = 0
        return False

    async def _round(self) -> None:
        """Ask for new scenarios concurrently, and admit them in order."""
        pool = self.pool
        pool.rounds += 1
        missing = self._settings.count - len(pool.kept)
        requests = min(_AT_ONCE, math.ceil(missing / _BATCH))

        async def invent(number: int) -> list[SeedScenario]:
            rng = Random(f"{self._seed} {pool.rounds} {number}")
            purpose = RequestPurpose("invent", f"round {pool.rounds}.{number}")
            messages = self._question(rng, min(_BATCH, missing + 1))
            stage = _InventStage(purpose, messages, self._prompts)
            outcome = await ask_until_valid(self._author, stage, tries=self._tries, seed=self._seed)
            pool.attempts += len(outcome.attempts)
            pool.unread += len(outcome.attempts) - outcome.ok
            return outcome.value or []

        answers = await map_concurrently(invent, range(requests))
        found = {seed.name: seed for answer in answers for seed in answer}
        await self._admit(list(found.values()), "model")

    def _question(self, rng: Random, count: int) -> tuple[PromptMessage, ...]:
        kept = self.pool.kept
        examples = rng.sample(kept, min(_EXAMPLES, len(kept)))
        shown = "\n".join(f"- {idea.name}: {idea.description}" for idea in examples) or "- none"
        avoid = "\n".join(f"- {idea.name}" for idea in kept[-_AVOIDED:]) or "- none"
        focus = ""
        if rng.random() < _FOCUSED:
            focus = "Think of " + ", ".join(rng.sample(_FOCUS, 3)) + "."
        return self._prompts.messages(
            "invent", count=count, examples=shown, avoid=avoid, focus=focus
        )

    async def _admit(self, seeds: Sequence[SeedScenario], origin: str) -> None:
        """Classify and embed scenarios, and keep those that are suitable and distinct."""
        pool = self.pool
        failures: list[SynthesisError] = []

        async def classify(seed: SeedScenario) -> ScenarioIdea | RefusedIdea | None:
            stage = _ClassifyStage(seed, self._prompts)
            try:
                outcome = await ask_until_valid(
                    self._author, stage, tries=self._tries, seed=self._seed
                )
            except SynthesisError as exc:  # the answers to the other requests are kept
                failures.append(exc)
                return None
            pool.attempts += len(outcome.attempts)
            pool.unread += len(outcome.attempts) - outcome.ok
            self._report_step("classify")
            return _idea_or_refusal(seed, outcome.value, origin, self._settings.least_score)

        found = await map_concurrently(classify, seeds)
        ideas = [idea for idea in found if isinstance(idea, ScenarioIdea)]
        vectors = await self._embed(ideas) if ideas else []
        pool.refused += [refused for refused in found if isinstance(refused, RefusedIdea)]
        for idea, vector in zip(ideas, vectors, strict=True):
            if len(pool.kept) >= self._settings.count:
                break
            if why := self._objection(idea, vector):
                pool.refused.append(RefusedIdea(idea.name, why))
            else:
                pool.kept.append(idea)
                self._vectors.append(vector)
        write_json(self._file, pool)
        if failures:
            raise failures[0]

    def _objection(self, idea: ScenarioIdea, vector: list[float]) -> str:
        """The reason for not keeping a scenario; empty: there is none."""
        pool = self.pool
        for other in pool.kept:
            if other.key == idea.key:
                return f"{other.name!r} has the same name"
        likeness = [cosine(vector, other) for other in self._vectors]
        nearest = max(range(len(likeness)), key=likeness.__getitem__, default=None)
        if nearest is None or likeness[nearest] <= self._settings.near:
            return ""
        like = f"cosine {likeness[nearest]:.2f} with {pool.kept[nearest].name!r}"
        if likeness[nearest] > pool.same:
            return f"it exists already: {like}"
        counts = Counter(name for other in pool.kept for name in other.categories)
        full = [name for name in idea.categories if counts[name] >= pool.cap]
        return f"category {full[0]} is full, and a similar scenario exists: {like}" if full else ""

    async def _embed(self, ideas: Sequence[ScenarioIdea]) -> list[list[float]]:
        texts = [
            " ".join([idea.name, idea.description[:500], *idea.categories, *idea.features[:5]])
            for idea in ideas
        ]
        return await self._author.embed(texts, RequestPurpose("embed"))


def _idea_or_refusal(
    seed: SeedScenario, found: _Classified | None, origin: str, least: int
) -> ScenarioIdea | RefusedIdea:
    if found is None:
        return RefusedIdea(seed.name, "the classifier gave no valid answer")
    if found.score < least:
        return RefusedIdea(seed.name, f"score {found.score} of 10: {found.reason}")
    return ScenarioIdea(
        name=seed.name,
        description=seed.description,
        score=found.score,
        categories=tuple(found.categories),
        features=tuple(found.features),
        missing=tuple(found.missing),
        reason=found.reason,
        origin="seed" if origin == "seed" else "model",
    )


async def map_concurrently(work: Callable[[T], Awaitable[R]], subjects: Sequence[T]) -> list[R]:
    """The results of concurrent work, in the order of the subjects.

    The first failure cancels the rest and is raised unchanged. When the budget is exhausted, the
    work that is in flight, and paid for, may finish first.
    """
    results: dict[int, R] = {}
    failures: list[Exception] = []

    async def one(index: int, subject: T) -> None:
        try:
            results[index] = await work(subject)
        except Exception as exc:
            failures.append(exc)
            if not isinstance(exc, OutOfBudget):
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for index, subject in enumerate(subjects):
            group.start_soon(one, index, subject)
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(subjects))]

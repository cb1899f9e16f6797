"""The scenarios that a synthesis keeps."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from rehearsal_room.scenarios.errors import OutOfBudget
from rehearsal_room.scenarios.synth.core.prompt_files import Prompts
from rehearsal_room.scenarios.synth.core.protocols import ModelAnswer, PromptMessage, RequestPurpose
from rehearsal_room.scenarios.synth.core.world_drafts import SeedScenario
from rehearsal_room.scenarios.synth.stages.ideas import IdeaGatherer, IdeaPool, IdeaSettings
from rehearsal_room.scenarios.synth.storage.output_folder import SynthesisFolder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Model:
    """A scenario is called like `a 30`: its category, and the angle of its vector in degrees.
    Rounds return `invented`, then nothing new. The budget is exhausted after `budget` requests."""

    def __init__(self, *invented: Sequence[str], budget: int = 1_000) -> None:
        self.invented = list(invented)
        self.budget = budget
        self.classified: list[str] = []

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        if self.budget == 0:
            raise OutOfBudget("budget exhausted")
        self.budget -= 1
        if purpose.stage == "invent":
            names = self.invented.pop(0) if self.invented else ["a 0"]
            rows = [{"name": name, "description": name} for name in names]
            return ModelAnswer(json.dumps({"scenarios": rows}))
        name = messages[1].text.splitlines()[0].removeprefix("Scenario: ")
        self.classified.append(name)
        return ModelAnswer(json.dumps({"score": 8, "categories": [name[0]]}))

    async def embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        angles = [math.radians(float(text.split()[1])) for text in texts]
        return [[math.cos(angle), math.sin(angle)] for angle in angles]


class Killed(Model):
    """A model that kills the synthesis at its 17th request."""

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        if len(self.classified) == 16:
            raise RuntimeError("killed")
        return await super().answer(messages, purpose, seed=seed)


async def gathered(
    folder: Path, model: Model, seeds: Sequence[str], settings: IdeaSettings
) -> IdeaPool:
    """The pool at the end."""
    gatherer = IdeaGatherer(
        *(SynthesisFolder(folder), model, Prompts(), settings),
        tries=1,
        seed=0,
        report_step=lambda _: None,
    )
    return await gatherer.gather([SeedScenario(name, name) for name in seeds])


def names(pool: IdeaPool) -> list[str]:
    """The names of the kept scenarios."""
    return [idea.name for idea in pool.kept]


async def test_similar_scenarios_are_kept_until_their_category_is_full(tmp_path: Path) -> None:
    """Cosine 0.85 is at 31.8 degrees, 0.75 at 41.4: between them the category decides."""
    settings = IdeaSettings(count=4, cap=2)
    pool = await gathered(
        tmp_path, Model(), ["a 0", "a 30", "a 35", "a 71", "b 72", "a 130"], settings
    )
    assert names(pool) == ["a 0", "a 35", "b 72", "a 130"]
    assert {each.name: each.why for each in pool.refused} == {
        "a 30": "it exists already: cosine 0.87 with 'a 0'",
        "a 71": "category a is full, and a similar scenario exists: cosine 0.81 with 'a 35'",
    }


async def test_conditions_are_relaxed_before_the_stage_ends(tmp_path: Path) -> None:
    """They are relaxed up to cosine 0.95; then it ends with fewer scenarios, and a rerun asks
    again."""
    model = Model(["a 30"], ["a 30"], ["a 30"])
    settings = IdeaSettings(count=3, patience=1)
    pool = await gathered(tmp_path, model, ["a 0"], settings)
    assert names(pool) == ["a 0", "a 30"]
    assert (pool.same, pool.cap) == (pytest.approx(0.95), pytest.approx(80 * 1.2 * 1.2))
    assert pool.ended == "1 rounds in a row added no new scenario"
    again = await gathered(tmp_path, Model(["a 80"]), ["a 0"], settings)
    assert (names(again), again.ended) == (["a 0", "a 30", "a 80"], "")


async def test_scenarios_classified_before_the_budget_was_exhausted_are_kept(
    tmp_path: Path,
) -> None:
    """A rerun classifies only the rest."""
    seeds, settings = ["a 0", "a 60", "a 120"], IdeaSettings(count=3)
    with pytest.raises(OutOfBudget):
        await gathered(tmp_path, Model(budget=2), seeds, settings)
    model = Model()
    pool = await gathered(tmp_path, model, seeds, settings)
    assert names(pool) == seeds
    assert model.classified == ["a 120"]


async def test_seeds_are_classified_and_saved_in_batches(tmp_path: Path) -> None:
    """A batch has sixteen seeds, so that a kill loses no more; no more are classified than
    requested."""
    seeds = [f"a {angle}" for angle in range(0, 20 * 17, 17)]
    settings = IdeaSettings(count=18, same=1.0, near=1.0)
    with pytest.raises(RuntimeError, match="killed"):
        await gathered(tmp_path, Killed(), seeds, settings)
    model = Model()
    assert names(await gathered(tmp_path, model, seeds, settings)) == seeds[:18]
    assert model.classified == seeds[16:18]


async def test_without_invention_only_seeds_are_kept(tmp_path: Path) -> None:
    """A refused seed is not replaced by a new scenario."""
    settings = IdeaSettings(count=2, invent=False)
    pool = await gathered(tmp_path, Model(["a 90"]), ["a 0", "a 1"], settings)
    assert (names(pool), pool.rounds, pool.ended) == (["a 0"], 0, "")

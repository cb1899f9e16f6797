"""Which scenarios a synthesis keeps."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.errors import OutOfBudget
from scenarios.synth.core.prompt_files import Prompts
from scenarios.synth.core.protocols import Purpose, Said, Turn
from scenarios.synth.core.world_drafts import Seed
from scenarios.synth.stages.ideas import Gathering, IdeaSettings, Pool
from scenarios.synth.storage.output_folder import Folder


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Model:
    """Scenarios are called like `a 30`: category and angle of their vector, in degrees. Rounds
    bring `invented`, then nothing new. After `money` requests there is none left."""

    def __init__(self, *invented: Sequence[str], money: int = 1_000) -> None:
        self.invented = list(invented)
        self.money = money
        self.classified: list[str] = []

    async def say(self, turns: Sequence[Turn], purpose: Purpose, *, seed: int) -> Said:
        if self.money == 0:
            raise OutOfBudget("budget: spent")
        self.money -= 1
        if purpose.stage == "invent":
            names = self.invented.pop(0) if self.invented else ["a 0"]
            rows = [{"name": name, "description": name} for name in names]
            return Said(json.dumps({"scenarios": rows}))
        name = turns[1].text.splitlines()[0].removeprefix("Scenario: ")
        self.classified.append(name)
        return Said(json.dumps({"score": 8, "categories": [name[0]]}))

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        angles = [math.radians(float(text.split()[1])) for text in texts]
        return [[math.cos(angle), math.sin(angle)] for angle in angles]


class Killed(Model):
    """It brings everything down at its 17th request."""

    async def say(self, turns: Sequence[Turn], purpose: Purpose, *, seed: int) -> Said:
        if len(self.classified) == 16:
            raise RuntimeError("killed")
        return await super().say(turns, purpose, seed=seed)


async def gathered(
    folder: Path, model: Model, seeds: Sequence[str], settings: IdeaSettings
) -> Pool:
    """The pool in the end."""
    gathering = Gathering(
        Folder(folder), model, Prompts(), settings, tries=1, seed=0, told=lambda _: None
    )
    return await gathering.gather([Seed(name, name) for name in seeds])


def names(pool: Pool) -> list[str]:
    """Of those that were kept."""
    return [idea.name for idea in pool.kept]


async def test_near_ones_are_kept_until_their_category_is_full(tmp_path: Path) -> None:
    """Cosine 0.85 is at 31.8 degrees, 0.75 at 41.4: between them the category decides."""
    settings = IdeaSettings(count=4, cap=2)
    pool = await gathered(
        tmp_path, Model(), ["a 0", "a 30", "a 35", "a 71", "b 72", "a 130"], settings
    )
    assert names(pool) == ["a 0", "a 35", "b 72", "a 130"]
    assert {each.name: each.why for each in pool.refused} == {
        "a 30": "it is there already: cosine 0.87 with 'a 0'",
        "a 71": "a is full, and it is near to one: cosine 0.81 with 'a 35'",
    }


async def test_rules_are_relaxed_when_nothing_new_comes_and_then_it_ends(tmp_path: Path) -> None:
    """Up to cosine 0.95; what there is has to do, and a rerun asks again."""
    model = Model(["a 30"], ["a 30"], ["a 30"])
    settings = IdeaSettings(count=3, patience=1)
    pool = await gathered(tmp_path, model, ["a 0"], settings)
    assert names(pool) == ["a 0", "a 30"]
    assert (pool.same, pool.cap) == (pytest.approx(0.95), pytest.approx(80 * 1.2 * 1.2))
    assert pool.ended == "1 rounds in a row brought no scenario that is new"
    again = await gathered(tmp_path, Model(["a 80"]), ["a 0"], settings)
    assert (names(again), again.ended) == (["a 0", "a 30", "a 80"], "")


async def test_what_was_classified_before_the_money_ended_is_kept(tmp_path: Path) -> None:
    """The rerun classifies the rest only."""
    seeds, settings = ["a 0", "a 60", "a 120"], IdeaSettings(count=3)
    with pytest.raises(OutOfBudget):
        await gathered(tmp_path, Model(money=2), seeds, settings)
    model = Model()
    pool = await gathered(tmp_path, model, seeds, settings)
    assert names(pool) == seeds
    assert model.classified == ["a 120"]


async def test_seeds_are_classified_as_far_as_there_is_room_and_written_down(
    tmp_path: Path,
) -> None:
    """Sixteen at a time, so that a kill loses no more; none beyond what is wanted."""
    seeds = [f"a {angle}" for angle in range(0, 20 * 17, 17)]
    settings = IdeaSettings(count=18, same=1.0, near=1.0)
    with pytest.raises(RuntimeError, match="killed"):
        await gathered(tmp_path, Killed(), seeds, settings)
    model = Model()
    assert names(await gathered(tmp_path, model, seeds, settings)) == seeds[:18]
    assert model.classified == seeds[16:18]


async def test_the_seeds_alone_are_not_added_to(tmp_path: Path) -> None:
    """A seed that is refused is not made up for by one that nobody asked for."""
    settings = IdeaSettings(count=2, invent=False)
    pool = await gathered(tmp_path, Model(["a 90"]), ["a 0", "a 1"], settings)
    assert (names(pool), pool.rounds, pool.ended) == (["a 0"], 0, "")

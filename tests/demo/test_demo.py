"""The whole demonstration at a small size: what it writes, and that its numbers can be trusted."""

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from rich.console import Console

from rehearsal_room.demo.ablation import ablate
from rehearsal_room.demo.controls import control
from rehearsal_room.demo.learn import demonstrate
from rehearsal_room.demo.recipe import DemonstratorSettings, Recipe, WorldSettings, read_recipe
from rehearsal_room.demo.rehearse import write_config
from rehearsal_room.demo.stages import Demonstration, RunCommand
from rehearsal_room.learner.core.errors import ConfigError, LearnerError
from tests.support.budgets import only_long
from tests.support.paths import ROOT

TOY = """
vocab_size = 400
tries = 2
[size]
layers = 2
[worlds]
train = 4
held_out = 2
each = 8
each_held_out = 1
[worlds.others]
offices = {offices = [2, 7]}
"two tables" = {tables = 2}
"order of tools" = {order = "held_out"}
[demonstrators]
look_up = 0.5
[run]
dialect = "hermes"
history = "last:1"
max_steps = 5
max_tokens = 24
rewards = "sparse"
[clone]
steps = 2
[clone.data]
groups = 2
[clone.metrics]
tensorboard = false
[learn]
steps = 2
[learn.rollouts]
group_size = 2
[learn.data]
groups = 2
keep_equal = true
[learn.loop]
staleness = 0
evaluate_every = 2
[learn.metrics]
tensorboard = false
"""


@pytest.fixture
def toy(tmp_path: Path) -> Recipe:
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    return read_recipe(path)


def demonstration(recipe: Recipe, folder: Path, command: RunCommand) -> Demonstration:
    return Demonstration(recipe, folder, seed=1, console=Console(quiet=True), command=command)


@pytest.mark.slow
def test_the_demonstration_and_its_controls_run_to_their_reports(
    toy: Recipe, command: RunCommand, tmp_path: Path
) -> None:
    """All policies are measured on the same tasks and in the same groups of worlds, the oracle
    completes all of them and doing nothing none, sampler and trainer agree, and the pictures are
    written. The controls begin from the same clone, and one call after the other repeats nothing.
    (It trains and plays, which takes many seconds.)"""
    folder = tmp_path / "out"
    report = demonstrate(demonstration(toy, folder, command))
    assert list(report.cloned) == list(report.learned) == list(report.gains)
    assert list(report.cloned) == ["held out", "offices", "two tables", "order of tools"]
    assert {one.tasks for one in report.learned.values()} == {2}
    assert report.baselines["solution"].value == 1.0
    assert report.baselines["nothing"].value == 0.0
    assert [one.pass_at is None for one in report.cloned.values()] == [False, True, True, True]
    assert report.agreement.first <= 1e-4
    assert report.weights > 100_000
    assert json.loads((folder / "report.json").read_bytes())["seed"] == 1
    assert 0 < report.clone_loss.attempts < report.clone_loss.played == 32
    assert report.clone_loss.loss > report.clone_loss.floor > 0
    assert "points [" in report.text()

    commands: list[str] = []

    def noted(name: str, config: Path, output: Path) -> None:
        commands.append(output.name)
        if output.name == "one-round-samples":  # such a clone completes nothing, the oracle does
            table = tomllib.loads(config.read_text()) | {"policy": "oracle", "model": ""}
            table["tokens"] = str(folder / "start")
            config = config.with_suffix(".oracle.toml")
            config.write_text(tomli_w.dumps(table))
        command(name, config, output)

    controls = control(demonstration(toy, folder, noted))
    assert list(controls.scores) == [
        *("cloned", "more cloning", "one round", "shuffled rewards", "live rejection", "learned"),
    ]
    assert controls.scores["learned"] == report.learned["held out"]
    assert {"clone", "learn", "cloned-greedy", "learned-sampled"}.isdisjoint(commands)
    for picture in ("learning.png", "scores.png", "controls.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")


def test_a_stage_of_another_recipe_is_refused(tmp_path: Path) -> None:
    """Equal settings of a stage may be written again; different ones are an error."""
    path = tmp_path / "clone.toml"
    assert write_config(path, {"steps": 2}) == write_config(path, {"steps": 2}) == path
    with pytest.raises(LearnerError, match=r"clone\.toml: has the settings of another recipe"):
        write_config(path, {"steps": 3})
    assert tomllib.loads(path.read_text()) == {"steps": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"demonstrators": DemonstratorSettings(look_up=0.1)},
        {"worlds": WorldSettings(train=4, held_out=2, each=8, each_held_out=1)},
    ],
)
def test_a_folder_of_another_recipe_is_refused(
    toy: Recipe, command: RunCommand, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Also where the files of the stages would be the same: what was played with other
    demonstrators or in other worlds is not reported as this recipe's."""
    demonstration(toy, tmp_path, command).prepare()
    demonstration(toy, tmp_path, command).prepare()
    other = msgspec.structs.replace(toy, **changes)
    with pytest.raises(LearnerError, match=r"recipe\.toml: has the settings of another recipe"):
        demonstration(other, tmp_path, command).prepare()


@pytest.mark.slow
@only_long
def test_the_ablation_measures_two_agents_under_two_histories(
    toy: Recipe, command: RunCommand, tmp_path: Path
) -> None:
    """An agent is cloned and trained under windows, another one under full histories; each is
    measured under both, and the report has the gain of alignment for both. (Nightly, in `just
    test-long`. In `just test`, the demonstration runs the same stages once.)"""
    folder = tmp_path / "out"
    report = ablate(demonstration(toy, folder, command))
    assert [(cell.trained, cell.run) for cell in report.cells] == [
        *(("last:1", "last:1"), ("last:1", "full")),
        *(("full", "last:1"), ("full", "full")),
    ]
    assert list(report.mismatch) == ["last:1", "full"]
    assert max(one.first for one in report.agreement.values()) <= 1e-4
    histories = {
        name: tomllib.loads((folder / f"{name}.toml").read_text())["rollouts"]["history"]
        for name in ("clone", "learn", "clone-full", "learn-full")
    }
    assert histories == {
        **dict.fromkeys(("clone", "learn"), "last:1"),
        **dict.fromkeys(("clone-full", "learn-full"), "full"),
    }


@pytest.mark.parametrize("name", ["learn-cpu", "learn-search"])
def test_the_bundled_recipes_can_be_read(name: str) -> None:
    """All their keys are known, and what is held out differs from training."""
    recipe = read_recipe(ROOT / "configs" / f"{name}.toml")
    assert recipe.worlds.shape not in recipe.worlds.others.values()


def test_a_recipe_with_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    """The error names file and field, as for every settings file."""
    path = tmp_path / "recipe.toml"
    path.write_text(TOY.replace("each_held_out", "each_heldout"))
    with pytest.raises(ConfigError, match=r"recipe.toml: worlds.each_heldout: unknown"):
        read_recipe(path)

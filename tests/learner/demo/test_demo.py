"""The whole demonstration at a small size: what it writes, and that its numbers can be trusted."""

import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal_room.learner.core.errors import ConfigError, LearnerError
from rehearsal_room.learner.demo.ablation import ablate
from rehearsal_room.learner.demo.demonstration import RunCommand
from rehearsal_room.learner.demo.learn import Agreement, agreement, demonstrate
from rehearsal_room.learner.demo.recipe import Recipe, read_recipe
from rehearsal_room.learner.demo.rehearse import write_config
from tests.support.budgets import only_long
from tests.support.cli import Rehearse
from tests.support.paths import ROOT

TOY = """
vocab_size = 400
pass_at = 2
held_out = ["goals-1"]

[size]
layers = 2

[worlds]
train = 3
held_out = 2
each = 2
each_held_out = 1

[run]
dialect = "hermes"
history = "last:2"
max_steps = 5
max_tokens = 8

[clone]
kinds = ["goals-1"]
[clone.train]
steps = 2
[clone.train.data]
groups = 2
[clone.train.metrics]
tensorboard = false

[learn]
kinds = ["goals-1"]
[learn.train]
steps = 2
[learn.train.rollouts]
group_size = 2
[learn.train.data]
groups = 2
keep_equal = true
[learn.train.loop]
staleness = 0
evaluate_every = 2
[learn.train.metrics]
tensorboard = false
"""


@pytest.fixture
def toy(tmp_path: Path) -> Recipe:
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    return read_recipe(path)


@pytest.fixture
def command(rehearse: Rehearse) -> RunCommand:
    """Runs `rehearse` in this process, which avoids importing the libraries again."""

    def run(name: str, config: Path, output: Path) -> None:
        settings = ["--config", config] if name == "run" else [config]
        status, _, error = rehearse(name, *settings, "-o", output)
        assert status == 0, error

    return run


@pytest.mark.slow
def test_the_demonstration_runs_to_its_report(
    toy: Recipe, command: RunCommand, tmp_path: Path
) -> None:
    """All policies are measured on the same tasks, the oracle completes all of them, sampler and
    trainer agree, and the pictures are written."""
    folder = tmp_path / "out"
    report = demonstrate(toy, folder, seed=1, console=Console(quiet=True), command=command)
    assert list(report.scores) == ["oracle", "random", "cloned", "learned"]
    assert {one.tasks for one in report.scores.values()} == {2}
    assert report.scores["oracle"].greedy.value == 1.0
    assert report.scores["random"].tries == 2
    assert report.agreement.first <= 1e-4
    assert report.weights > 100_000
    assert json.loads((folder / "report.json").read_bytes())["seed"] == 1
    for picture in ("learning.png", "scores.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert "95 %" in report.text()


def test_a_stage_of_another_recipe_is_refused(tmp_path: Path) -> None:
    """Equal settings of a stage may be written again; different ones are an error."""
    path = tmp_path / "clone.toml"
    assert write_config(path, {"steps": 2}) == write_config(path, {"steps": 2}) == path
    with pytest.raises(LearnerError, match=r"clone\.toml: has the settings of another recipe"):
        write_config(path, {"steps": 3})
    assert tomllib.loads(path.read_text()) == {"steps": 2}


@pytest.mark.slow
@only_long
def test_the_ablation_measures_two_agents_under_two_histories(
    toy: Recipe, command: RunCommand, tmp_path: Path
) -> None:
    """An agent is cloned and trained under windows, another one under full histories; each is
    measured under both, and the report has the gain of alignment for both. (Nightly, in `just
    test-long`. In `just test`, the demonstration runs the same stages once.)"""
    folder = tmp_path / "out"
    report = ablate(toy, folder, seed=1, console=Console(quiet=True), command=command)
    assert [(cell.trained, cell.run) for cell in report.cells] == [
        *(("last:2", "last:2"), ("last:2", "full")),
        *(("full", "last:2"), ("full", "full")),
    ]
    assert list(report.mismatch) == ["last:2", "full"]
    assert max(one.first for one in report.agreement.values()) <= 1e-4
    histories = {
        name: tomllib.loads((folder / f"{name}.toml").read_text())["rollouts"]["history"]
        for name in ("clone", "learn", "clone-full", "learn-full")
    }
    assert histories == {
        **dict.fromkeys(("clone", "learn"), "last:2"),
        **dict.fromkeys(("clone-full", "learn-full"), "full"),
    }


def test_nothing_is_claimed_if_sampler_and_trainer_disagree(tmp_path: Path) -> None:
    """A first batch above 1e-4 nats, or a difference that was not measured, is an error; the
    largest difference of later batches is reported."""
    rows = tmp_path / "metrics.jsonl"
    first, later = '{"step": 1, "mismatch_max": 2e-6}\n', '{"step": 2, "mismatch_max": 0.002}\n'
    rows.write_text('{"step": 0}\n' + first + later)
    assert agreement(tmp_path) == Agreement(2e-6, 0.002)
    rows.write_text(later)
    with pytest.raises(LearnerError, match=r"differ by 0\.002; at most 1e-04 is allowed"):
        agreement(tmp_path)
    rows.write_text('{"step": 0}\n')
    with pytest.raises(LearnerError, match="sampler and trainer was not measured"):
        agreement(tmp_path)


@pytest.mark.parametrize("name", ["learn-cpu", "learn-gpu"])
def test_the_bundled_recipes_can_be_read(name: str) -> None:
    """All their keys are known, and GRPO's kinds of tasks are among the held-out ones."""
    recipe = read_recipe(ROOT / "configs" / f"{name}.toml")
    assert set(recipe.learn.kinds) <= set(recipe.held_out)


def test_a_recipe_with_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    """The error names file and field, as for every settings file."""
    path = tmp_path / "recipe.toml"
    path.write_text(TOY.replace("each_held_out", "each_heldout"))
    with pytest.raises(ConfigError, match=r"recipe.toml: worlds.each_heldout: unknown"):
        read_recipe(path)

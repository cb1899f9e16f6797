"""Questions about learning on small worlds: their arms at a small size.

What they find is not tested: it takes hours (docs/experiments/questions.md).
"""

import json
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal_room.demo.questions import ARMS, answer, draw
from rehearsal_room.demo.recipe import Recipe, read_recipe
from rehearsal_room.demo.stages import Demonstration, RunCommand
from rehearsal_room.demo.worlds import HELD_OUT
from rehearsal_room.harness.core.events import Ending, Judged, Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.data.trajectory_samples import episode_reward
from tests.demo.test_demo import TOY
from tests.support.cli import Rehearse
from tests.support.paths import ROOT


@pytest.fixture
def toy(tmp_path: Path) -> Recipe:
    """Twelve worlds, two batches."""
    path = tmp_path / "toy.toml"
    path.write_text(TOY.replace("train = 4", "train = 12"))
    return read_recipe(path)


@pytest.fixture
def demo(toy: Recipe, command: RunCommand, tmp_path: Path) -> Demonstration:
    """The worlds of seed 0; nothing is trained."""
    one = Demonstration(
        toy, tmp_path / "seed-0", seed=0, console=Console(quiet=True), command=command
    )
    one.prepare()
    return one


def test_the_arms_differ_in_their_tasks_only(demo: Demonstration) -> None:
    """Ten worlds are the first ten of twelve; the tasks of 3, 4 and 5 offices are all there are."""
    [ten] = ARMS["worlds"](demo)
    chosen = {Path(task.rpartition(":")[0]) for task in ten.changes["rollouts"]["scenarios"]}
    assert chosen == set(demo.worlds.train[:10])
    everything, *strata = ARMS["strata"](demo)
    assert [arm.name for arm in strata] == ["3 offices", "4 offices", "5 offices"]
    tasks = [arm.changes["rollouts"]["scenarios"] for arm in (everything, *strata)]
    assert sorted(tasks[0]) == sorted(task for some in tasks[1:] for task in some)


def test_each_judge_has_the_errors_of_its_name(
    demo: Demonstration, command: RunCommand, tmp_path: Path
) -> None:
    """In the log of a run whose solutions are all right, that judge misses what it should."""
    arms = {arm.name.partition(" (")[0]: arm.changes for arm in ARMS["judges"](demo)}
    assert len(arms) == 9
    assert [name for name, changes in arms.items() if not changes] == ["code"]
    labels = {}
    for name in ("50% of both", "100% accepted"):
        run = demo.run(name, demo.learning_tasks()[:40], policy="oracle", **arms[name]["rollouts"])
        with open_reader(run) as reader:
            found = [one.event for one in reader.milestones() if isinstance(one.event, Judged)]
        labels[name] = [one.label == "completed" for one in found]
        assert {one.code for one in found} == {"completed"}
    assert 8 < sum(labels["50% of both"]) < 32  # 20 are expected
    assert all(labels["100% accepted"])


@pytest.mark.slow
@pytest.mark.parametrize("arms_of", ["worlds", "interface"])
def test_a_question_is_answered(
    toy: Recipe, command: RunCommand, tmp_path: Path, arms_of: str
) -> None:
    """Each arm is measured on the same tasks, and its gain is over the clone of its own interface.
    (It trains and plays, which takes many seconds.)"""
    folder = tmp_path / "seed-0"
    console = Console(quiet=True)
    found = answer(arms_of, toy, folder, seed=0, console=console, command=command)
    names = {
        "worlds": ["clone", "10 worlds"],
        "interface": [
            *("clone-native-tools", "native tools"),
            *("clone-list-tools-call-tool", "list_tools, call_tool"),
        ],
    }
    assert [arm.name for arm in found.arms] == names[arms_of]
    assert {arm.scores[HELD_OUT].tasks for arm in found.arms} == {2}
    assert all(bool(arm.gains) != arm.name.startswith("clone") for arm in found.arms)
    assert json.loads((folder / f"{arms_of}.json").read_text())["arms_of"] == arms_of
    draw(tmp_path / "picture.png", [found])
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert "over its clone" in found.text()


@pytest.mark.parametrize("name", sorted(ARMS))
def test_the_files_name_what_there_is(rehearse: Rehearse, name: str, tmp_path: Path) -> None:
    """A dry run of each file says its arms; unknown arms and a missing recipe are one sentence."""
    file = ROOT / "configs" / "experiments" / "miniature" / f"{name}.toml"
    status, out, err = rehearse("experiment", file, "--dry-run")
    assert (status, err) == (0, "")
    assert out.startswith(f"arms {name}, by ../../learn-cpu.toml, seeds 0, 1, 2")
    other = tmp_path / "other.toml"
    other.write_text(file.read_text())
    status, _, err = rehearse("experiment", other, "-o", tmp_path / "out")
    assert status == 2
    assert "learn-cpu.toml" in err
    assert not (tmp_path / "out").exists()
    other.write_text(file.read_text().replace(f'arms = "{name}"', 'arms = "weather"'))
    status, _, err = rehearse("experiment", other)
    assert status == 2
    assert "weather" in err
    other.write_text(file.read_text().replace("[0, 1, 2]", "[0, 1, 0]"))
    status, _, err = rehearse("experiment", other, "--dry-run")
    assert (status, "miniature.seeds: a seed counts once" in err) == (2, True)


def test_planted_errors_reach_what_training_compares() -> None:
    """An episode that a limit or a format error ended has no reward whatever a judge says, but for
    errors that are planted: they would else be put right by what ended the episode."""
    for ending in (Ending.STEP_LIMIT, Ending.FORMAT_ERROR, Ending.ANSWERED):
        accepted = Judged("code with errors 1/0", Label.COMPLETED, 1.0, (0.0, 0.0))
        assert episode_reward(ending, accepted) == 1.0
        missed = Judged("code with errors 0/1", Label.AGENT_ERROR, 0.0, (0.0, 0.0))
        assert episode_reward(ending, missed) == 0.0
    assert episode_reward(Ending.STEP_LIMIT, Judged("code", Label.COMPLETED, 1.0)) == 0.0

"""The command `experiment`: arms are trained, played, judged and compared."""

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rehearsal_room.harness.core.events import Label
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.cli import Rehearse, json_of
from tests.support.judge_server import Speaks, biased
from tests.support.judged_runs import served
from tests.support.paths import LIBRARY, ROOT
from tests.support.tiny_model import write_model_for

CREDIT = ROOT / "configs" / "experiments" / "credit.toml"


def written(path: Path, **table: Any) -> Path:
    """An experiment file."""
    path.write_text(tomli_w.dumps({"name": "test", **table}))
    return path


def test_arms_are_compared_with_the_first(rehearse: Rehearse, tmp_path: Path) -> None:
    """With intervals, strata, failures and Markdown; the same command does nothing twice."""
    arms = [{"name": "Silent", "run": {"policy": "noop"}}, {"name": "the oracle"}]
    run = {"scenarios": [str(LIBRARY)], "policy": "oracle", "group_size": 2}
    file = written(tmp_path / "e.toml", run=run, arm=arms)
    asked = ("experiment", file, "-o", tmp_path / "out")
    found = json_of(rehearse, *asked)
    silent, oracle = found["arms"]
    assert (silent["difference"], oracle["difference"]["delta"]) == (None, 1.0)
    assert oracle["difference"]["verdict"] == "this arm is better by 100.0 points"
    assert set(oracle["statistics"]["tags"]) >= {"simple", "change"}
    assert sum(silent["failures"].values()) >= 12
    page = (tmp_path / "out" / "report.md").read_text()
    assert "| the oracle | 12 | 100.0% (" in page
    assert json_of(rehearse, *asked) == found
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == found
    with open_reader(tmp_path / "out" / "the-oracle" / "run") as reader:
        assert (reader.counts()["started"], reader.counts()["judged"]) == (12, 12)
    status, out, _ = rehearse(*asked, "--dry-run")
    assert (status, "the oracle: plays 12 episodes" in out) == (0, True)


def test_an_arm_judges_the_episodes_of_another(rehearse: Rehearse, tmp_path: Path) -> None:
    """Its own judge, the same episodes: the agreement of labels stands beside it."""
    with served(Speaks(biased(Label.COMPLETED))) as server:
        judge = {"mode": "llm", "models": ["m"], "base_url": server.url}
        arms = [{"name": "code"}, {"name": "model", "judges": "code", "judge": judge}]
        run = {"scenarios": [str(LIBRARY)], "policy": "noop"}
        file = written(tmp_path / "e.toml", run=run, arm=arms)
        code, model = json_of(rehearse, "experiment", file, "-o", tmp_path / "out")["arms"]
    assert code["agreement"] is None
    assert (model["agreement"], model["statistics"]["completed"]["value"]) == (0.0, 1.0)
    assert code["statistics"]["completed"]["value"] == 0.0


@pytest.mark.slow
def test_arms_train_their_models(rehearse: Rehearse, tmp_path: Path) -> None:
    """Each in its own folder; the weights play the evaluation."""
    [world] = write_microworlds(tmp_path / "worlds", seed=3, count=1, split="train")
    start = write_model_for(world, tmp_path / "start", hidden=16, layers=1)
    episodes = {"scenarios": [str(world)], "dialect": "hermes", "max_steps": 2, "max_tokens": 4}
    train = {
        "model": str(start),
        "steps": 1,
        "rollouts": {**episodes, "group_size": 2, "concurrency": 4, "format_stop": False},
        "data": {"groups": 2, "keep_equal": True},
        "metrics": {"tensorboard": False},
    }
    arms = [
        {"name": "aligned", "train": {"rollouts": {"history": "last:1"}}},
        {"name": "not aligned", "train": {"rollouts": {"history": "full"}}},
    ]
    run = {**episodes, "history": "last:1", "episodes": 2}
    file = written(tmp_path / "e.toml", train=train, run=run, arm=arms)
    found = json_of(rehearse, "experiment", file, "-o", tmp_path / "out")["arms"]
    assert [arm["episodes"] for arm in found] == [2, 2]
    assert [Path(arm["model"]).is_dir() for arm in found] == [True, True]
    assert "not-aligned" in found[1]["model"]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"arm": []}, "arm"),
        ({"arm": [{"name": "a", "judges": "b"}]}, "there is no arm 'b' before it"),
        ({"arm": [{"name": "a"}, {"name": "A"}]}, "two arms have the folder 'a'"),
        ({"arm": [{"name": "a", "judge": {"mode": "llm"}}]}, "write run.judge"),
        ({"arm": [{"name": "a", "run": {"speed": 1}}]}, "arm 'a': run: "),
        ({"arm": [{"name": "a"}]}, "name at least one scenario"),
        ({"arms": []}, "arms"),
    ],
)
def test_files_that_are_refused(
    rehearse: Rehearse, tmp_path: Path, table: dict[str, Any], why: str
) -> None:
    """One sentence, before anything is played."""
    file = written(tmp_path / "e.toml", **table)
    status, _, err = rehearse("experiment", file, "-o", tmp_path / "out")
    assert (status, why in err, err.strip().count("\n")) == (2, True, 0), err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "path",
    # credit.toml has no arms (tests/learner/credit)
    sorted(set((ROOT / "configs" / "experiments").glob("*.toml")) - {CREDIT}),
)
def test_the_experiments_of_the_project_can_be_read(path: Path) -> None:
    """Those that docs/experiments.md names."""
    from rehearsal_room.judge.experiments.file import read_experiment

    file, arms = read_experiment(path)
    assert file.question and len(arms) > 1

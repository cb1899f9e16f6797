"""`rehearse train` with prime-rl as the trainer: here a small one over the same files."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
import tomli_w
import torch
from safetensors.torch import load_file

from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.learner.config.loader import settings_of
from rehearsal_room.learner.config.runs import runs_of
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.cli import Rehearse, json_of
from tests.support.prime_rl_trainer import train
from tests.support.tiny_model import write_model_for

OF_PRIME_RL = {
    "max_steps": 9,
    "model": {"name": "start", "seq_len": 3000},
    "loss": {"kl_tau": 0.0},
    "rollout_transport": {"type": "filesystem"},
}
Table = dict[str, Any]
Made = Callable[..., Table]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [folder] = write_microworlds(tmp_path_factory.mktemp("worlds"), seed=3, count=1, split="train")
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, world: Path) -> Path:
    return write_model_for(world, tmp_path_factory.mktemp("models") / "start", hidden=16, layers=1)


@pytest.fixture
def made(tmp_path: Path, start: Path, world: Path) -> Made:
    """Makes the table of a training file and prime-rl's configuration; `theirs` and the other
    arguments are merged into these."""

    def make(folder: str = "prime", theirs: Table | None = None, **changes: Any) -> Table:
        (tmp_path / folder).mkdir(exist_ok=True)
        config = tmp_path / "trainer.toml"
        config.write_text(tomli_w.dumps(_merged(OF_PRIME_RL, theirs or {})))
        table: Table = {
            "model": str(start),
            "steps": 3,
            "rollouts": {
                "scenarios": [str(world)],
                "group_size": 2,
                "history": "last:1",
                "dialect": "hermes",
                "max_steps": 2,
                "max_tokens": 4,
                "concurrency": 1,  # episodes that are sampled together differ in the last bits
                "format_stop": False,
                "judge_errors": "0.5/0",  # half of the failures are rewarded, so that weights move
            },
            "data": {"groups": 2, "keep_equal": True},
            "loss": {"policy": "tv", "mismatch": "off", "advantage": "mean"},
            "loop": {"staleness": 0},
            "metrics": {"tensorboard": False},
            "engine": {
                "kind": "prime-rl",
                "folder": str(tmp_path / folder),
                "config": str(config),
                "timeout": 30.0,
            },
        }
        return _merged(table, changes)

    return make


def _merged(table: Table, changes: Table) -> Table:
    both = {
        name: table[name] | value
        for name, value in changes.items()
        if isinstance(table.get(name), dict)
    }
    return table | changes | both


def trained(rehearse: Rehearse, table: Table, out: Path, *flags: object) -> Any:
    config = out.with_suffix(".toml")
    config.write_text(tomli_w.dumps(table))
    return json_of(rehearse, "train", config, "-o", out, *flags)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def files_in(folder: Path) -> list[bytes]:
    return [one.read_bytes() for one in sorted((folder / "rollouts").glob("*/rank_0.bin"))]


@pytest.mark.slow  # two runs of rehearse train
def test_a_run_and_a_resumed_one(
    rehearse: Rehearse, made: Made, start: Path, tmp_path: Path
) -> None:
    """Batches go to the trainer, its weights come back and play the next batch. A run that is
    stopped, or killed when its batch was written and no checkpoint was, goes on with the same
    batches, bit for bit."""
    trainer = Thread(target=train, args=(tmp_path / "prime", str(start), 3), daemon=True)
    trainer.start()
    report = trained(rehearse, made(), tmp_path / "run")
    trainer.join(30)
    assert report["steps"] == 3
    expected = files_in(tmp_path / "prime")
    assert len(set(expected)) == 3
    theirs = [weights(tmp_path / "prime" / "broadcasts" / f"step_{step}") for step in range(4)]
    assert any(torch.any(theirs[0][name] != weight) for name, weight in theirs[3].items())
    for version in (2, 3):
        published = weights(tmp_path / "run" / "versions" / f"v{version}")
        assert all(torch.equal(published[name], one) for name, one in theirs[version].items())
    rows = read_metrics(tmp_path / "run")
    assert all(row["num_trained"] > 0 and "loss" not in row for row in rows if row["step"])
    with open_reader(tmp_path / "run" / "rollouts") as reader:
        sampled_by = {one.steps[0].reply.weights for one in reader.trajectories()}
    assert sampled_by == {"v0", "v1", "v2"}

    trainer = Thread(target=train, args=(tmp_path / "again", str(start), 3), daemon=True)
    trainer.start()
    trained(rehearse, made("again", steps=1), tmp_path / "stopped")
    (tmp_path / "stopped" / "checkpoints" / "prime-rl.json").unlink()
    trained(rehearse, made("again", steps=2), tmp_path / "stopped", "--resume")
    trained(rehearse, made("again"), tmp_path / "stopped", "--resume")
    trainer.join(30)
    assert files_in(tmp_path / "again") == expected


@pytest.mark.slow  # two runs of rehearse train
def test_a_run_without_its_trainer(rehearse: Rehearse, made: Made, tmp_path: Path) -> None:
    """One sentence after the time where nobody trains, and for a damaged checkpoint."""
    config = tmp_path / "train.toml"
    config.write_text(tomli_w.dumps(made(engine={"timeout": 0.1})))
    status, _, err = rehearse("train", config, "-o", tmp_path / "run")
    assert status == 2 and "broadcasts/step_0: does not exist after 0.1 s (engine.timeout)" in err
    assert "Traceback" not in err and not (tmp_path / "prime" / "rollouts").exists()
    checkpoint = tmp_path / "run" / "checkpoints" / "prime-rl.json"
    checkpoint.parent.mkdir(exist_ok=True)
    checkpoint.write_text("{")
    status, _, err = rehearse("train", config, "-o", tmp_path / "run", "--resume")
    assert status == 2 and f"{checkpoint}: the checkpoint cannot be read" in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": {"policy": "clip"}}, "loss.policy: engine 'prime-rl' has 'tv' and 'likelihood'"),
        ({"loss": {"policy": "gspo"}}, "loss.policy: "),
        ({"loss": {"mismatch": "token"}}, "loss.mismatch: engine 'prime-rl' starts its ratios"),
        ({"loss": {"kl": 0.1}}, "loss.kl: engine 'prime-rl' has no counterpart"),
        ({"loss": {"entropy": 0.1}}, "loss.entropy: "),
        ({"loss": {"reject": "step"}}, "loss.reject: "),
        ({"loss": {"reference": "m"}}, "loss.reference: "),
        ({"optimizer": {"lr": 0.1}}, "optimizer.lr: engine 'prime-rl' has its own: leave it out"),
        ({"optimizer": {"minibatches": 2}}, "optimizer.minibatches: "),
        ({"lora": {"rank": 8}}, "lora.rank: "),
        ({"compute": {"backend": "flex"}}, "compute.backend: "),
        ({"loop": {"publish_every": 2}}, "loop.publish_every: "),
        ({"engine": {"folder": ""}}, "engine.folder: engine 'prime-rl' needs it"),
        ({"engine": {"folder": "nowhere"}}, "engine.folder: nowhere does not exist: make it"),
        ({"engine": {"config": "nowhere.toml"}}, "nowhere.toml: "),
        ({"engine": {"kind": "own"}}, "engine.kind: is 'own', so"),
        ({"engine": {"kind": "verl"}}, "engine.kind: "),
        ({"theirs": {"loss": {"kl_tau": 0.001}}}, "loss.kl_tau: must be 0.0 for loss 'tv'"),
        ({"theirs": {"loss": {"type": "ipo", "kl_tau": 0.0}}}, "loss.type: must be 'default'"),
        ({"loss": {"tv_bound": 0.1}}, "loss.dppo_mask_low: must be 0.1 for loss 'tv'"),
        ({"theirs": {"rollout_transport": {"type": "zmq"}}}, "rollout_transport.type: must"),
        ({"theirs": {"weight_broadcast": {"type": "nccl"}}}, "weight_broadcast.type: must be"),
        ({"theirs": {"model": {"cp": 2}}}, "model.cp, model.lora: "),
        ({"theirs": {"model": {"lora": {}}}}, "model.cp, model.lora: "),
        ({"theirs": {"max_steps": 2}}, "max_steps: is 2, but the run has 3 steps"),
        ({"theirs": {"model": {"seq_len": "x"}}}, "not a configuration of prime-rl's trainer"),
    ],
)
def test_what_it_cannot_do_is_refused(made: Made, changes: Table, message: str) -> None:
    """A setting without a counterpart, and a configuration of prime-rl that means something else,
    are refused before anything starts, in a sentence that names the field."""
    table = made(theirs=changes.pop("theirs", None), **changes)
    with pytest.raises(ConfigError) as caught:
        runs_of(settings_of(table))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_what_it_can_do_is_taken(made: Made) -> None:
    """Whatever makes advantages and weights of tokens has a counterpart: they are in the files."""
    for advantage in ("mean", "mean_std", "leave_one_out"):
        for aggregate in ("token", "step", "episode"):
            loss = {"advantage": advantage, "aggregate": aggregate, "count_equal": True}
            assert settings_of(made(loss=loss)).engine.kind == "prime-rl"
    clone = {"policy": "likelihood", "advantage": "reward"}
    assert msgspec.structs.asdict(settings_of(made(loss=clone)).loss)["policy"] == "likelihood"

"""`rehearse train`: real models of a few thousand weights, real worlds, whole runs."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tomli_w
from safetensors.numpy import load_file, save_file
from transformers import StableLmConfig, StableLmForCausalLM

from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.learner.config.runs import TrainingRunSettings
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.learner.inference.local_policy import LocalPolicy
from rehearsal_room.learner.loop import run
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.learner.selftest import family_test
from rehearsal_room.learner.selftest.family_test import FamilyReport
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.broker import running_broker
from tests.support.cli import Rehearse, json_of
from tests.support.tiny_model import write_model, write_model_for, write_tokenizer

Made = Callable[..., Path]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory, world: Path) -> Path:
    """A model to start with."""
    folder = tmp_path_factory.mktemp("models") / "start"
    return write_model_for(world, folder, hidden=16, layers=1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world."""
    [folder] = write_microworlds(tmp_path_factory.mktemp("worlds"), seed=3, count=1, split="train")
    return folder


@pytest.fixture
def config(tmp_path: Path, start: Path, world: Path) -> Made:
    """Writes a training file; its tables are merged with the default ones."""

    def made(**changes: Any) -> Path:
        table: dict[str, Any] = {
            "model": str(start),
            "steps": 2,
            "rollouts": {
                "scenarios": [str(world)],
                "group_size": 2,
                "history": "last:1",
                "dialect": "hermes",
                "max_steps": 2,
                "max_tokens": 4,
                "concurrency": 4,
                "format_stop": False,
            },
            "data": {"groups": 2, "keep_equal": True},
            "loss": {"entropy": 0.1},  # rewards are all 0 here: this moves the weights
            "optimizer": {"lr": 0.01},
            "save": {"every": 1},
            "metrics": {"tensorboard": False},
        }
        for name, value in changes.items():
            table[name] = table.get(name, {}) | value if isinstance(value, dict) else value
        path = tmp_path / "train.toml"
        path.write_text(tomli_w.dumps(table))
        return path

    return made


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs that several tests copy."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def trained(rehearse: Rehearse, config: Made, kept: Path, tmp_path: Path) -> Callable[[int], Path]:
    """Copies a run of so many steps, with default settings, which the first test trains."""

    def copied(steps: int) -> Path:
        if not (kept / str(steps)).exists():
            assert rehearse("train", config(steps=steps), "-o", kept / str(steps))[0] == 0
        return Path(shutil.copytree(kept / str(steps), tmp_path / f"run-{steps}"))

    return copied


def weights_in(folder: Path) -> dict[str, np.ndarray]:
    weights: dict[str, np.ndarray] = load_file(folder / "model.safetensors")
    return weights


@pytest.mark.slow
def test_a_whole_training_run(
    rehearse: Rehearse, config: Made, tmp_path: Path, start: Path
) -> None:
    """The command runs, judges and trains; sampler and trainer agree; the published weights differ
    from those at the start and have a model card; the report has the figures."""
    out = tmp_path / "run"
    evaluated = config(loop={"evaluate_every": 1}, evaluation={"episodes": 3, "temperature": 0.0})
    report = json_of(rehearse, "train", evaluated, "-o", out)
    assert (report["steps"], report["groups"], report["episodes"]) == (2, 4, 8)
    assert report["published"] == str(out / "versions" / "v2")
    assert set(report["evaluations"]) == {"0", "1", "2"}
    assert report["evaluations"]["2"]["episodes"] == 3
    assert 0 < report["num_trained"] < report["num_tokens"] < report["num_row_tokens"]
    assert {"waiting", "training", "publishing", "evaluating", "saving"} <= set(report["seconds"])
    assert json.loads((out / "report.json").read_text()) == report
    figures = read_metrics(out)
    assert [one["step"] for one in figures] == [0, 1, 2]
    assert figures[1]["mismatch_max"] < 1e-4
    assert 1 <= figures[1]["turns"] <= 2 and figures[1]["tokens"] <= 4 * figures[1]["turns"]
    shares = [figures[1][name] for name in ("truncated", "format_errors", "control_tokens")]
    assert all(0 <= one <= 1 for one in shares)
    assert figures[2]["staleness_max"] <= 1
    card = read_card(out / "versions" / "v2")
    assert card is not None
    assert (card.version, card.history, card.dialect, card.step, card.max_tokens) == (
        *("v2", "last:1", "hermes", 2, 4),
    )
    before, after = weights_in(start), weights_in(out / "versions" / "v2")
    assert before.keys() == after.keys()
    assert any(not np.array_equal(before[name], after[name]) for name in before)
    with open_reader(out / "rollouts") as reader:
        assert len(reader.episodes()) == 8
        assert {one.started.history for one in reader.trajectories()} == {"last:1"}
    assert (out / "evaluations" / "b000001" / LOG_NAME).is_file()


@pytest.mark.slow
def test_the_log_of_a_training_run_is_a_log(
    rehearse: Rehearse, trained: Callable[[int], Path], tmp_path: Path
) -> None:
    """The rollouts can be shown, replayed, judged and exported; the log's record of published
    weights is not an episode."""
    out = trained(2)
    log = out / "rollouts"
    with open_reader(log) as reader:
        assert reader.counts()["weights"] == 3
    for folder in (log, out):  # a training run is shown by its rollouts
        status, text, _ = rehearse("show", folder)
        assert (status, "e000007" in text) == (0, True)
    replayed = json_of(rehearse, "replay", log)
    assert (replayed["episodes"], replayed["divergences"]) == (8, [])
    assert json_of(rehearse, "judge", log, "--mode", "code")["episodes"] == 8
    status, _, err = rehearse("export", log, "--to", "jsonl", "-o", tmp_path / "out.jsonl")
    assert status == 0, err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 8


@pytest.mark.slow
def test_a_training_run_is_followed_from_another_process(
    rehearse: Rehearse, config: Made, tmp_path: Path
) -> None:
    """`watch` sees the rollouts of a training run that publishes them, and the weights that
    they were sampled with."""
    with running_broker(tmp_path) as broker:
        command = [
            sys.executable,
            "-m",
            "rehearsal_room",
            "show",
            "watch",
            "--bus",
            broker.url,
            "--events",
        ]
        watcher = subprocess.Popen([*command, "rollouts"], stdout=subprocess.PIPE, text=True)
        broker.wait_for_client(watcher)
        followed = config(rollouts={"bus": broker.url, "think": "0.2:0.4"})
        json_of(rehearse, "train", followed, "-o", tmp_path / "run")
        seen, _ = watcher.communicate(timeout=50)
    assert watcher.returncode == 0
    assert re.findall(r"#\d+ weights (v\d)", seen)[:2] == ["v0", "v1"]
    assert "8 of 8 started, 8 ended, 8 judged" in seen.splitlines()[-1]


def test_a_run_is_resumed(rehearse: Rehearse, config: Made, trained: Callable[[int], Path]) -> None:
    """A finished run may be given more steps; other settings may not change; without --resume the
    folder is refused."""
    out = trained(2)
    status, _, err = rehearse("train", config(), "-o", out)
    assert (status, "a training run already exists there" in err) == (2, True)
    status, _, err = rehearse("train", config(optimizer={"lr": 0.5}), "-o", out, "--resume")
    assert status == 2
    assert "optimizer.lr: the run was started with 0.01, not 0.5" in err
    status, _, err = rehearse("train", config(), "--resume")
    assert (status, "--resume: name the run's folder with --output" in err) == (2, True)
    for nothing in (out / "nowhere", out / "versions"):
        status, _, err = rehearse("train", config(), "-o", nothing, "--resume")
        assert (status, f"{nothing}: there is no training run to resume" in err) == (2, True)
    assert not (out / "nowhere").exists()
    report = json_of(rehearse, "train", config(steps=3), "-o", out, "--resume")
    assert (report["steps"], report["groups"]) == (3, 6)
    assert [one["step"] for one in read_metrics(out)] == [0, 1, 2, 3]


@pytest.mark.slow
def test_every_start_and_resume_tests_the_model(
    rehearse: Rehearse, config: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start and a resume begin with the self-test; if it fails, nothing is trained: a start
    leaves no folder, and a resume leaves the run as it was."""
    out, tests = tmp_path / "run", []
    right = run.check_start

    def check_start(settings: TrainSettings, runs: TrainingRunSettings) -> FamilyReport:
        tests.append(right(settings, runs))
        return tests[-1]

    monkeypatch.setattr(run, "check_start", check_start)
    assert rehearse("train", config(steps=1), "-o", out)[0] == 0
    assert rehearse("train", config(), "-o", out, "--resume")[0] == 0
    assert [(one.family, one.sampler is not None) for one in tests] == [
        ("Qwen3ForCausalLM", True)
    ] * 2
    monkeypatch.setattr(family_test, "BOUND", 0.0)
    for flags in ((), ("--resume",)):
        folder = out if flags else tmp_path / "other"
        status, _, err = rehearse("train", config(steps=3), "-o", folder, *flags)
        assert (status, "does not give the model's own numbers" in err) == (2, True)
        assert folder.exists() == bool(flags)
    assert [one["step"] for one in read_metrics(out)] == [0, 1, 2]


def test_a_family_that_the_backend_does_not_know_is_refused(
    rehearse: Rehearse, config: Made, tmp_path: Path
) -> None:
    """A StableLM, whose attention is not given the back end's arguments, is refused by a sentence
    that names the family and the back end to use instead."""
    folder = tmp_path / "stable"
    tokenizer = write_tokenizer(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    vocab = tokenizer.get_vocab_size()
    StableLmForCausalLM(StableLmConfig(vocab_size=vocab, **sizes, **heads)).save_pretrained(folder)
    status, _, err = rehearse("train", config(model=str(folder)), "-o", tmp_path / "run")
    words = " ".join(err.split())
    assert status == 2
    assert "StableLmForCausalLM: backend 'twopass' fails: StableLmAttention is not given" in words
    assert "Set compute.backend = 'naive'" in words
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_evaluation_with_other_settings_is_run_again(
    rehearse: Rehearse, config: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation may be changed when a run is resumed: the episodes of one that was interrupted
    with other settings are not counted."""
    out = tmp_path / "run"

    def interrupted(folder: Path, *_: object) -> None:
        raise ConfigError("the power is off")

    with monkeypatch.context() as patch:
        patch.setattr("rehearsal_room.learner.loop.evaluation._summarize", interrupted)
        long = config(loop={"evaluate_every": 2}, evaluation={"episodes": 5})
        assert rehearse("train", long, "-o", out)[0] == 2
    assert (out / "evaluations" / "b000000" / LOG_NAME).is_file()
    short = config(loop={"evaluate_every": 2}, evaluation={"episodes": 3})
    report = json_of(rehearse, "train", short, "-o", out, "--resume")
    assert {batch: one["episodes"] for batch, one in report["evaluations"].items()} == {
        "0": 3,
        "2": 3,
    }


@pytest.mark.slow
def test_learning_from_logs(rehearse: Rehearse, config: Made, tmp_path: Path) -> None:
    """Finished runs are trained on without any rollouts; the same way clones an oracle, if its
    replies are logged in the model's tokens."""
    first = tmp_path / "oracle"
    settings = config()
    table = settings.read_text()
    start = next(line for line in table.splitlines() if line.startswith("model")).partition('"')[2]
    flags = ("-p", "oracle", "--dialect", "hermes", "--history", "last:1", "--tokens", start[:-1])
    world = table.partition("scenarios = [")[2].partition('"')[2].partition('"')[0]
    assert rehearse("run", world, *flags, "-o", first)[0] == 0
    out = tmp_path / "cloned"
    cloning = config(
        data={"logs": [str(first)], "epochs": 2},
        loss={"policy": "likelihood", "advantage": "reward", "entropy": 0.0},
        steps=100,
    )
    report = json_of(rehearse, "train", cloning, "-o", out)
    with open_reader(first) as reader:
        num_groups = len(reader.episodes())
    assert report["groups"] == 2 * num_groups
    assert report["steps"] == num_groups
    losses = [one["loss"] for one in read_metrics(out) if "loss" in one]
    assert losses[-1] < losses[0]
    assert not (out / "rollouts").exists()
    assert [path.name for path in (out / "versions").iterdir()] == ["v1"]
    assert report["first"]["pass_rate"] == 1.0
    status, _, err = rehearse("show", out)
    assert status == 2
    assert err.startswith(f"error: {out}: this training run has no rollouts of its own")


@pytest.mark.parametrize(("lower", "warns"), [(-0.1, True), (0.0, True), (0.1, False)])
def test_a_judge_that_may_be_blind(
    rehearse: Rehearse, config: Made, tmp_path: Path, lower: float, warns: bool
) -> None:
    """Where J of the judge may be 0, a warning says so before anything is trained."""
    bounds = {"value": 0.3, "lower": 0.1, "upper": 0.5}
    j = {"tpr": bounds, "fpr": bounds, "j": {**bounds, "lower": lower}, "unit": "task"}
    file, settings = tmp_path / "study.json", config()
    file.write_text(json.dumps({"judge": "code", "j_against": {"people": j}}))
    settings.write_text(f"soundness = {json.dumps(str(file))}\n{settings.read_text()}")
    status, _, err = rehearse("train", settings, "--dry-run")
    assert (status, "reaches 0" in err) == (0, warns)
    file.unlink()
    status, _, err = rehearse("train", settings, "--dry-run")
    assert (status, "J cannot be read" in err) == (2, True)


def test_dry_run(rehearse: Rehearse, config: Made, tmp_path: Path) -> None:
    """--dry-run prints settings that are a valid training file, and does nothing else."""
    status, text, _ = rehearse("train", config(), "--dry-run", "-o", tmp_path / "run")
    assert status == 0
    assert text.splitlines()[-1].startswith("# 8 episodes of ")
    (tmp_path / "again.toml").write_text(text)
    assert rehearse("train", tmp_path / "again.toml", "--dry-run") == (0, text, "")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rollouts": {"policy": "oracle"}}, "[rollouts] policy: must be one of local, vllm"),
        ({"rollouts": {"policy": "openai", "model": "m"}}, "training needs, found 'openai'"),
        ({"rollouts": {"judge": "none"}}, "[rollouts] judge: without a judge there are no rewards"),
        ({"rollouts": {"temperature": 0.7}}, "[rollouts] temperature: must be 1, found 0.7"),
        ({"rollouts": {"episodes": 9}}, "[rollouts] episodes: leave it out"),
        (
            {"rollouts": {"history": "last:0"}},
            "[rollouts] history: 'last:0' is not a history window",
        ),
        ({"rollouts": {"scenarios": []}}, "[rollouts] scenarios: name at least one scenario"),
        (
            {"rollouts": {"max_step": 9}},
            "[rollouts] max_step: unknown key; did you mean 'max_steps'?",
        ),
        ({"rollouts": {"scenarios": ["nowhere"]}}, "nowhere"),
        ({"loop": {"publish_every": 3}}, "save.every: must be a multiple of loop.publish_every"),
        (
            {"loop": {"evaluate_every": 1}, "evaluation": {"policy": "noop"}},
            "[evaluation] policy: must be one of local, vllm, which act with the weights",
        ),
        ({"model": "nowhere"}, "nowhere: "),
        ({"data": {"logs": ["nowhere"]}}, "nowhere: there is no log"),
        ({"optimizer": {"learning_rate": 1}}, "optimizer"),
    ],
)
def test_bad_settings(
    rehearse: Rehearse, config: Made, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """Settings that cannot be trained are refused before anything is run; no folder is left."""
    out = tmp_path / "run"
    status, text, err = rehearse("train", config(**changes), "-o", out)
    assert (status, text) == (2, "")
    assert err.startswith("error: ") and sentence in err, err
    assert len(err.strip().splitlines()) == 1
    assert not out.exists()
    out.mkdir()
    assert rehearse("train", config(**changes), "-o", out)[0] == 2
    assert list(out.iterdir()) == []


@pytest.mark.slow
def test_logs_of_other_windows(
    rehearse: Rehearse, config: Made, trained: Callable[[int], Path], tmp_path: Path
) -> None:
    """Episodes that were run under another history window are refused, naming both; --misaligned
    trains them under the run's own."""
    first = trained(1)
    logs = {"logs": [str(first / "rollouts")]}
    other = config(steps=1, data=logs, rollouts={"history": "last:2"})
    status, _, err = rehearse("train", other, "-o", tmp_path / "second")
    assert status == 2
    assert (
        "was run under the history window last:1" in err and "the training run uses last:2" in err
    )
    assert not (tmp_path / "second").exists()
    report = json_of(rehearse, "train", other, "-o", tmp_path / "second", "--misaligned")
    assert report["groups"] == 2


def test_logs_without_tokens(rehearse: Rehearse, config: Made, tmp_path: Path) -> None:
    """Episodes whose replies have no token ids are refused, naming log, episode, turn and field."""
    world = msgspec.toml.decode(config().read_bytes())["rollouts"]["scenarios"][0]
    first = tmp_path / "first"
    flags = ("-p", "oracle", "--dialect", "hermes", "--history", "last:1")
    assert rehearse("run", world, *flags, "-o", first)[0] == 0
    status, _, err = rehearse(
        "train", config(data={"logs": [str(first)]}), "-o", tmp_path / "second"
    )
    assert status == 2
    assert f"{first}: episode 'e000000' (policy oracle), turn 0: token_ids: " in err
    assert not (tmp_path / "second").exists()


@pytest.mark.slow
def test_a_checkpoint_of_another_model(
    rehearse: Rehearse, config: Made, tmp_path: Path, start: Path
) -> None:
    """Resuming with another model than the checkpoint's is refused, and the checkpoint stays."""
    out, model = tmp_path / "run", tmp_path / "model"
    shutil.copytree(start, model)
    assert rehearse("train", config(model=str(model)), "-o", out)[0] == 0
    before = sorted(path.name for path in (out / "checkpoints").iterdir())
    shutil.rmtree(model)
    write_model(model, hidden=32, layers=1)
    status, _, err = rehearse("train", config(model=str(model), steps=3), "-o", out, "--resume")
    assert status == 2
    assert "this is a checkpoint of the model" in err
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == before
    assert json.loads((out / "report.json").read_text())["steps"] == 2


def test_broken_numbers(rehearse: Rehearse, config: Made, tmp_path: Path, start: Path) -> None:
    """Weights without a finite loss are an error with the batch's number; nothing is published."""
    model = tmp_path / "model"
    shutil.copytree(start, model)
    weights = weights_in(model)
    weights["model.norm.weight"][:] = np.nan
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    world = msgspec.toml.decode(config().read_bytes())["rollouts"]["scenarios"][0]
    first = tmp_path / "first"
    flags = ("-p", "oracle", "--dialect", "hermes", "--history", "last:1", "--tokens", start)
    assert rehearse("run", world, *flags, "-o", first)[0] == 0
    broken = config(
        model=str(model),
        data={"logs": [str(first)]},
        loss={"policy": "likelihood", "advantage": "reward", "entropy": 0.0},
    )
    status, _, err = rehearse("train", broken, "-o", tmp_path / "second")
    assert status == 2
    assert "batch 1 cannot be trained on: the loss is nan" in err
    assert not (tmp_path / "second").exists()


@pytest.mark.slow
def test_a_full_disk(
    rehearse: Rehearse,
    config: Made,
    trained: Callable[[int], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a checkpoint cannot be written the run ends with a sentence that names it; the previous
    one stays, and the run can be resumed from it."""
    out = trained(1)
    kept = sorted(path.name for path in (out / "checkpoints").iterdir())

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rehearsal_room.learner.trainer.checkpoints.state_dict_saver.save", full)
        status, _, err = rehearse("train", config(steps=2), "-o", out, "--resume")
    assert status == 2
    assert "checkpoint-000002: cannot be written: No space left on device" in err
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == kept
    report = json_of(rehearse, "train", config(steps=2), "-o", out, "--resume")
    assert (report["steps"], report["groups"]) == (2, 4)
    assert [one["step"] for one in read_metrics(out)] == [0, 1, 2]


@pytest.mark.slow
def test_another_model_than_is_trained_plays(
    rehearse: Rehearse,
    config: Made,
    tmp_path: Path,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the sampler's log-probabilities are far from the trainer's, the first batch reports it
    and nothing is published or saved."""
    other = write_model_for(world, tmp_path / "other", hidden=16, layers=1, seed=9)
    weights = weights_in(other)
    for value in weights.values():
        value *= 3
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})

    async def take(self: Any, version: str, folder: Path) -> None:
        await real(self, version, other)

    real = LocalPolicy.take
    monkeypatch.setattr(LocalPolicy, "take", take)
    out = tmp_path / "run"
    status, _, err = rehearse("train", config(), "-o", out)
    assert status == 2
    assert "the log-probabilities of sampler and trainer differ" in err
    assert not (out / "versions").exists() and not (out / "checkpoints").exists()


@pytest.mark.slow  # two trainings
def test_a_training_run_with_adapters(rehearse: Rehearse, config: Made, tmp_path: Path) -> None:
    """The command trains adapters: it says what memory that takes, sampler and trainer agree, a
    published version has merged weights and the adapter, and a run that is resumed ends with the
    weights of an undisturbed one. Another rank and a rank without adapters are refused."""
    pytest.importorskip("peft", reason="the extra lora")
    made = partial(config, loop={"staleness": 0})
    lora = {"rank": 2, "targets": ["q_proj", "down_proj"]}
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    code, _, log = rehearse("train", made(lora=lora), "-o", whole)
    assert code == 0
    assert "memory for training" in log and "gradients and optimizer" in log
    assert all(row["mismatch_max"] < 1e-4 for row in read_metrics(whole)[1:])
    assert (whole / "versions" / "v2" / "adapter" / "adapter_model.safetensors").exists()
    assert rehearse("train", made(lora=lora, steps=1), "-o", halves)[0] == 0
    code, _, error = rehearse("train", made(lora=lora | {"rank": 3}), "-o", halves, "--resume")
    assert code == 2
    assert "lora.rank: the run was started with 2, not 3" in error
    code, _, error = rehearse("train", made(lora=lora | {"rank": 0}), "-o", halves, "--resume")
    assert code == 2
    assert "lora.rank: is 0, so no adapters are trained" in error
    assert rehearse("train", made(lora=lora), "-o", halves, "--resume")[0] == 0
    one, other = (weights_in(folder / "versions" / "v2") for folder in (whole, halves))
    assert one.keys() == other.keys()
    assert all(np.allclose(one[name], other[name], atol=1e-4) for name in one)


@pytest.mark.slow  # three trainings
def test_tasks_that_are_never_solved_are_played_less(
    rehearse: Rehearse, config: Made, tmp_path: Path
) -> None:
    """With `revisit_never` a random model's tasks, none of which it solves, are played at every
    second turn. The pools are counted in the metrics; a run that is cut and resumed plays the same
    groups and ends with the same weights."""
    data = {"fill": True, "revisit_never": 2, "groups": 3}
    made = partial(config, data=data, loop={"staleness": 0})
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    code, _, error = rehearse("train", made(steps=6), "-o", whole)
    assert code == 0, error
    assert rehearse("train", made(steps=4), "-o", halves)[0] == 0  # skips turns in the last batch
    assert rehearse("train", made(steps=6), "-o", halves, "--resume")[0] == 0

    def groups_of(folder: Path) -> list[tuple[str, str]]:
        with open_reader(folder / "rollouts") as reader:
            return sorted({(row.group, row.task) for row in reader.episodes()})

    played = groups_of(whole)
    assert played == groups_of(halves)
    names = [name for name, _ in played]
    assert len(names) == 18 and names != [f"g{number:06d}" for number in range(18)]
    rows = read_metrics(whole)[1:]
    assert rows[3]["groups_skipped"] > 0
    assert rows[0]["tasks/never"] == 3
    assert all(
        sum(row[f"tasks/{pool}"] for pool in ("solved", "mixed", "never", "unseen"))
        == rows[0]["tasks/never"] + rows[0]["tasks/unseen"]
        for row in rows
    )
    one, other = (weights_in(folder / "versions" / "v6") for folder in (whole, halves))
    assert all(np.allclose(one[name], other[name], atol=1e-4) for name in one)


@pytest.mark.slow  # a training
def test_conversations_of_an_outside_data_set_are_imitated(
    rehearse: Rehearse, config: Made, start: Path, tmp_path: Path
) -> None:
    """With `data.messages` a model learns the assistant's words of a data set: their likelihood
    rises from batch to batch. Another loss is refused, and so is an empty conversation."""
    data = tmp_path / "data.jsonl"
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number}?"},
                {"role": "assistant", "content": "A number."},
            ]
        }
        for number in range(24)
    ]
    data.write_text("\n".join(map(json.dumps, rows)))
    table = {
        "model": str(start),
        "steps": 12,
        "data": {"messages": [str(data)], "keep_equal": True, "groups": 8, "epochs": 4},
        "loss": {"policy": "likelihood", "advantage": "reward"},
        "optimizer": {"lr": 0.01},
        "metrics": {"tensorboard": False},
    }
    path = tmp_path / "sft.toml"
    path.write_text(tomli_w.dumps(table))
    report = json_of(rehearse, "train", path, "-o", tmp_path / "run")
    assert (report["steps"], report["groups"]) == (12, 96)
    losses = [row["loss"] for row in read_metrics(tmp_path / "run")[1:]]
    assert losses[-1] < 0.5 * losses[0]
    assert (tmp_path / "run" / "versions" / "v1" / "model.safetensors").exists()
    path.write_text(tomli_w.dumps(table | {"loss": {}}))
    code, _, error = rehearse("train", path, "-o", tmp_path / "other")
    assert code == 2 and "data.messages needs 'likelihood'" in error
    path.write_text(tomli_w.dumps(table))
    data.write_text('{"messages": []}')
    code, _, error = rehearse("train", path, "-o", tmp_path / "other")
    assert code == 2 and "data.jsonl, line 1: messages: none is of the assistant" in error
    assert not (tmp_path / "other").exists()

"""Samples as a Parquet file: what training took of the run, read back to the same batches."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tomli_w

from rehearsal_room.interop.exports.samples import read_samples
from rehearsal_room.learner.core.samples import Group, GroupSize
from rehearsal_room.learner.loop.learner import ModelLearner
from rehearsal_room.learner.loop.metrics import read_metrics
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.scenarios.microworlds.writing import write_microworlds
from tests.support.cli import Rehearse, json_of
from tests.support.tiny_model import write_model_for

Trained = tuple[Path, list[Sequence[Group]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("samples")


@pytest.fixture
def trained(rehearse: Rehearse, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    """A training run of two batches, and the groups that its learner was given."""
    [world] = write_microworlds(folder, seed=3, count=1, split="train")
    model = write_model_for(world, folder / "start", hidden=16, layers=1)
    rollouts = {
        "scenarios": [str(world)],
        "group_size": 2,
        "history": "last:1",
        "dialect": "hermes",
        "max_steps": 2,
        "max_tokens": 4,
        "format_stop": False,
    }
    table = {
        "model": str(model),
        "steps": 2,
        "rollouts": rollouts,
        "data": {"groups": 2, "keep_equal": True},
        "loss": {"aggregate": "step", "advantage": "mean"},
        "loop": {"staleness": 0},
        "metrics": {"tensorboard": False},
    }
    config = folder / "train.toml"
    config.write_text(tomli_w.dumps(table))
    given: list[Sequence[Group]] = []
    step: Callable[..., Any] = ModelLearner.step

    def recorded(self: ModelLearner, groups: Sequence[Group], also: GroupSize) -> Any:
        given.append(groups)
        return step(self, groups, also)

    monkeypatch.setattr(ModelLearner, "step", recorded)
    shutil.rmtree(folder / "run", ignore_errors=True)
    json_of(rehearse, "train", config, "-o", folder / "run")
    return folder / "run", given


def test_samples_are_what_training_took(rehearse: Rehearse, trained: Trained, folder: Path) -> None:
    """The file has the replies of the trained groups, in the batches of the training run, and reads
    back to rows, advantages and weights that are equal bit by bit. pyarrow and numpy read it."""
    run, given = trained
    status, out, err = rehearse("export", run / "rollouts", "--to", "samples", "-o", folder / "x")
    assert (status, out) == (0, f"8 episodes in {folder / 'x'}\n"), err
    table = pq.read_table(folder / "x").to_pylist()
    assert [one["step"] for one in read_metrics(run) if "loss" in one] == [1, 2]
    assert sum(len(row["token_ids"]) for row in table) == sum(
        rollout.num_tokens for groups in given for group in groups for rollout in group.rollouts
    )
    for number in (0, 1):
        rows = [row for row in table if row["batch"] == number]
        # `step`: each sample has the same share of the loss; their shares are the whole.
        shares = [row["weight"] * len(row["token_ids"]) for row in rows]
        np.testing.assert_allclose(shares, [1 / len(rows)] * len(rows))
        assert all(len(row["token_ids"]) == len(row["logprobs"]) for row in rows)
    found = list(read_samples(folder / "x"))
    older = pq.read_table(folder / "x").drop_columns(["branch_of", "branch_turn"])
    pq.write_table(older, folder / "older")  # as it was written before groups branched
    for again, one in zip(read_samples(folder / "older"), found, strict=True):
        assert [group.group for group in again.groups] == [group.group for group in one.groups]
        assert again.advantages == one.advantages
    expected = [sorted(groups, key=lambda one: one.group) for groups in given]
    for one, groups in zip(found, expected, strict=True):
        assert sorted(group.group for group in one.groups) == [group.group for group in groups]
        order = sorted(range(len(one.groups)), key=lambda index: one.groups[index].group)
        chosen = [one.groups[index] for index in order]
        values = [[part[index] for index in order] for part in (one.advantages, one.weights)]
        read, logged = batch_of(chosen, *values), batch_of(groups, *values)
        assert read.num_row_tokens == logged.num_row_tokens
        for left, right in zip(read.prefix_groups, logged.prefix_groups, strict=True):
            np.testing.assert_array_equal(left.prefix, right.prefix)
            for suffix, other in zip(left.suffixes, right.suffixes, strict=True):
                np.testing.assert_array_equal(suffix.tokens, other.tokens)
                np.testing.assert_array_equal(suffix.sampler, other.sampler)
                np.testing.assert_array_equal(suffix.weights, other.weights)


def test_only_written_episodes_are_counted(
    rehearse: Rehearse, trained: Trained, folder: Path
) -> None:
    """A group with an episode that has no verdict is left out, and its other episode as well."""
    run, _ = trained
    with sqlite3.connect(run / "rollouts" / "episodes.sqlite") as log:
        log.execute("DELETE FROM events WHERE kind = 'judged' AND episode = 'e000000'")
    status, out, err = rehearse("export", run / "rollouts", "--to", "samples", "-o", folder / "y")
    assert (status, out) == (0, f"6 episodes in {folder / 'y'}\n"), err
    assert len(set(pq.read_table(folder / "y")["episode"].to_pylist())) == 6


def test_what_cannot_be_written_is_said(rehearse: Rehearse, tmp_path: Path) -> None:
    """Parts of groups, runs without tokens, and another file that is read as samples."""
    run = tmp_path / "run"
    assert rehearse("run", "shop_support", "-p", "mutant", "-n", 4, "-g", 2, "-o", run)[0] == 0
    status, _, err = rehearse("export", run, "--to", "samples", "--label", "completed")
    assert (status, "leave out --label and --ending" in err) == (2, True)
    status, _, err = rehearse("export", run, "--to", "samples")
    assert (status, "the reply has no token ids" in err) == (2, True)
    assert not (run / "samples.parquet").exists()
    status, _, err = rehearse("export", run, "--to", "jsonl", "--train", run / "train.toml")
    assert (status, "--train: is for samples" in err) == (2, True)
    assert rehearse("export", run, "--to", "parquet")[0] == 0
    with pytest.raises(
        ValueError, match="the file has no samples: it lacks the columns advantage, batch"
    ):
        next(read_samples(run / "episodes.parquet"))

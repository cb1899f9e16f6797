"""Batches as prime-rl's files, and its weights back."""

import json
import os
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import numpy as np
import pytest
import torch

from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.learner.config.engine import PrimeRlConfig
from rehearsal_room.learner.config.settings import LossSettings
from rehearsal_room.learner.core.errors import CheckpointError, TrainingError
from rehearsal_room.learner.core.samples import Group, Rollout, Sample
from rehearsal_room.learner.loop.prime_rl_learner import stop_when_cancelled
from rehearsal_room.learner.losses.aggregation import Aggregate, weights_of
from rehearsal_room.learner.losses.base import TokenBatch
from rehearsal_room.learner.losses.registry import loss_of
from rehearsal_room.learner.model.pretrained import open_plain
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.packing.prefix_groups import batch_of
from rehearsal_room.learner.prime_rl.batches import MicroBatch, grid_of, write
from rehearsal_room.learner.prime_rl.weights import publish, require_same, wait_for
from tests.support import prime_rl_trainer
from tests.support.fake_learner import CARD
from tests.support.paths import ROOT
from tests.support.prime_rl_trainer import FIELDS, made_up, scales_of, tensors_of
from tests.support.tiny_model import write_model

# A checkout of prime-rl at `batches.COMMIT`, and an interpreter that has torch, msgspec, pydantic,
# transformers, pyzmq, loguru, jaxtyping, beartype, wandb and prime-pydantic-config.
_NAMES = ("REHEARSE_PRIME_RL", "REHEARSE_PRIME_RL_PYTHON")
UPSTREAM = [os.environ[one] for one in _NAMES if all(map(os.environ.get, _NAMES))]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sample(prompt: list[int], tokens: list[int], turn: int, logprob: float = -1.0) -> Sample:
    logprobs = np.linspace(logprob, logprob - 0.5, len(tokens), dtype=np.float32)
    arrays = np.array(prompt, np.int32), np.array(tokens, np.int32)
    return Sample(*arrays, logprobs, 0.0, turn, "v0")


def groups() -> list[Group]:
    """Two groups: in one episode a prompt continues the reply before, in the others none does."""
    grown = sample([1, 2, 3], [4, 5], 0), sample([1, 2, 3, 4, 5, 6], [7], 1, -2.0)
    cut = sample([1, 2, 3], [8, 9, 10], 0, -0.2), sample([1, 2, 11], [12], 1)
    return [
        Group(
            "g0",
            "shop",
            "t",
            (Rollout("e0", 0, 1.0, grown, "answered", ""), Rollout("e1", 1, 0.0, cut, "", "")),
        ),
        Group("g1", "desk", "t", (Rollout("e2", 0, 1.0, (sample([13], [14], 0),), "", ""),)),
    ]


def batch_with(aggregate: Aggregate, advantages: list[list[list[float]]]) -> Batch:
    found = groups()
    return batch_of(found, advantages, weights_of(found, aggregate), share=False)


ADVANTAGES = [[[1.0, 1.0], [-0.5, -0.5]], [[2.0]]]
NAMES = ["shop", "desk"]


def grid(
    aggregate: Aggregate = "token", *, clones: bool = False, seq_len: int = 8, ranks: int = 1
) -> list[list[MicroBatch]]:
    batch = batch_with(aggregate, ADVANTAGES)
    return grid_of(batch, NAMES, clones=clones, seq_len=seq_len, ranks=ranks)


def test_a_batch_by_hand() -> None:
    """A prompt that continues the reply before is one sequence with it; sequences stand side by
    side while there is room; all that is not sampled is masked."""
    [[first, second, third]] = grid()
    assert first == MicroBatch(
        input_ids=[1, 2, 3, 4, 5, 6, 7],
        loss_mask=[False, False, False, True, True, False, True],
        advantages=[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0],
        inference_logprobs=[0.0, 0.0, 0.0, -1.0, -1.5, 0.0, -2.0],
        position_ids=[0, 1, 2, 3, 4, 5, 6],
        sequence_lengths=[7],
        temperatures=[1.0] * 7,
        env_names=["shop"] * 7,
        seq_lens=[7],
    )
    assert second.input_ids == [1, 2, 3, 8, 9, 10, 13, 14]
    assert (second.position_ids, second.sequence_lengths) == ([0, 1, 2, 3, 4, 5, 0, 1], [6, 2])
    assert third.input_ids == [1, 2, 11, 12]
    assert second.env_names == ["shop"] * 6 + ["desk"] * 2


def test_each_sampled_token_is_trained_once() -> None:
    """Whatever the room and the ranks: as many trained tokens as were sampled, with their
    log-probabilities; ranks get equally many micro-batches."""
    sampled = sorted(
        (int(token), float(logprob))
        for group in groups()
        for rollout in group.rollouts
        for one in rollout.samples
        for token, logprob in zip(one.tokens, one.logprobs, strict=True)
    )
    for seq_len, ranks in ((7, 1), (8, 3), (100, 1), (100, 4)):
        found = grid(seq_len=seq_len, ranks=ranks)
        assert len({len(one) for one in found}) == 1 and len(found) == ranks
        flat = [one for each in found for one in each]
        assert all(len(one.input_ids) <= seq_len for one in flat)
        trained = sorted(
            (token, logprob)
            for one in flat
            for token, logprob, mask in zip(
                one.input_ids, one.inference_logprobs, one.loss_mask, strict=True
            )
            if mask
        )
        assert trained == sampled


def ours(
    aggregate: Aggregate, policy: Any, found: list[MicroBatch]
) -> tuple[float, dict[int, Any]]:
    """Our own loss of the batch, ratios from the sampler, for the log-probabilities that are made
    up; and its gradient by token, since here no sampled token occurs twice."""
    batch = batch_with(aggregate, ADVANTAGES)
    loss = loss_of(LossSettings(policy=policy, mismatch="off"))
    total, gradients = 0.0, {}
    for prefix_group in batch.prefix_groups:
        for suffix in prefix_group.suffixes:
            ids = torch.from_numpy(suffix.tokens[suffix.trained])[None]
            sampler = torch.from_numpy(suffix.sampler)[None]
            logprobs = made_up({"input_ids": ids, "inference_logprobs": sampler})
            tokens = TokenBatch(
                logprobs,
                sampler[0].double(),
                sampler[0].double(),
                torch.from_numpy(suffix.advantages).double(),
                torch.from_numpy(suffix.weights).double(),
                torch.from_numpy(suffix.steps),
                torch.from_numpy(suffix.episodes),
                torch.zeros(len(logprobs)),
            )
            losses, _ = loss(tokens)
            (losses * tokens.weights).sum().backward()
            total += (losses * tokens.weights).sum().item()
            gradients |= dict(zip(ids[0].tolist(), logprobs.grad.tolist(), strict=True))
    return total, gradients


@pytest.mark.parametrize("aggregate", ["token", "step", "episode"])
@pytest.mark.parametrize("policy", ["tv", "likelihood"])
def test_the_loss_is_ours(tmp_path: Path, aggregate: Aggregate, policy: str) -> None:
    """The loss that the files define, divided as prime-rl divides, is our own with ratios from the
    sampler, and so is its gradient of every token."""
    made = grid(aggregate, clones=policy == "likelihood", seq_len=100)
    write(tmp_path, 1, made)
    [one] = tensors_of(tmp_path, 1)
    logprobs = made_up(one)
    loss = prime_rl_trainer.loss_of(one, logprobs, scales_of([one]))
    loss.backward()
    expected, gradients = ours(aggregate, policy, made[0])
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    found = dict(zip(one["input_ids"][0].tolist(), logprobs.grad.tolist(), strict=True))
    assert {token: found[token] for token in gradients} == pytest.approx(gradients, rel=1e-6)
    assert sum(map(bool, found.values())) <= len(gradients)  # nothing else is trained


@pytest.mark.skipif(not UPSTREAM, reason="needs a checkout of prime-rl: " + ", ".join(_NAMES))
@pytest.mark.slow  # it imports torch and pydantic in another interpreter
@pytest.mark.parametrize(("aggregate", "policy"), [("token", "tv"), ("episode", "likelihood")])
def test_prime_rl_reads_the_files(tmp_path: Path, aggregate: Aggregate, policy: str) -> None:
    """prime-rl's own struct has our fields in our order and decodes every value; its own loader and
    loss give our loss and gradient; its defaults are those that we assume."""
    checkout, python = UPSTREAM
    made = grid(aggregate, clones=policy == "likelihood", seq_len=100, ranks=2)
    write(tmp_path, 1, made)
    paths = (f"{checkout}/src", f"{checkout}/packages/prime-rl-configs/src", str(ROOT))
    program = [python, "-m", "tests.support.prime_rl_trainer", "read", str(tmp_path), "2"]
    done = subprocess.run(
        program,
        env={"PYTHONPATH": ":".join(paths), "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert tuple(found["fields"]) == MicroBatch.__struct_fields__ == FIELDS
    assert found["ranks"] == [[msgspec.structs.asdict(one) for one in each] for each in made]
    expected, gradients = ours(aggregate, policy, made[0])
    assert found["loss"] == pytest.approx(expected, rel=1e-6)
    of_tokens = dict(zip(made[0][0].input_ids, found["gradients"][0], strict=True))
    assert {token: of_tokens[token] for token in gradients} == pytest.approx(gradients, rel=1e-6)
    ours_read = msgspec.convert(found["defaults"], PrimeRlConfig)
    assert ours_read == PrimeRlConfig()


def test_a_batch_is_written_once(tmp_path: Path) -> None:
    """The same batch again changes nothing; another one in its place is refused; a file appears
    whole."""
    write(tmp_path, 1, grid(ranks=2))
    files = sorted((tmp_path / "rollouts" / "step_1").iterdir())
    assert [one.name for one in files] == ["rank_0.bin", "rank_1.bin"]
    before = [one.read_bytes() for one in files]
    write(tmp_path, 1, grid(ranks=2))
    with pytest.raises(TrainingError, match="there is another batch already"):
        write(tmp_path, 1, grid("step", ranks=2))
    assert [one.read_bytes() for one in files] == before
    (tmp_path / "broadcasts" / "step_2").mkdir(parents=True)
    (tmp_path / "broadcasts" / "step_2" / "STABLE").touch()
    with pytest.raises(TrainingError, match="step_2 are there, and its batch is not"):
        write(tmp_path, 2, grid())
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="cannot be written: Not a directory"):
        write(tmp_path / "file", 1, grid())


def test_a_long_sequence_is_refused() -> None:
    """prime-rl would cut it; we say what to raise."""
    with pytest.raises(TrainingError, match=r"has 7 tokens, and prime-rl computes 6 at once"):
        grid(seq_len=6)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "start", hidden=16, layers=1)


def published(start: Path, folder: Path, *, scale: float = 1.0, step: int = 1) -> Path:
    model = open_plain(start, torch.float32, torch.device("cpu"))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    prime_rl_trainer.publish(model, folder, step)
    return folder / "broadcasts" / f"step_{step}"


def test_weights_are_taken_back(start: Path, tmp_path: Path) -> None:
    """A step's weights become a folder that any of our policies opens, with tokenizer and card;
    those of the start are recognised, and others are not taken for them."""
    require_same(published(start, tmp_path, step=0), start)
    source = published(start, tmp_path, scale=1.5)
    publish(source, tmp_path / "versions" / "v1", CARD, start=start)
    version = tmp_path / "versions" / "v1"
    assert read_card(version) is not None and (version / "tokenizer.json").exists()
    opened = open_plain(version, torch.float32, torch.device("cpu"))
    before = open_plain(start, torch.float32, torch.device("cpu"))
    for one, other in zip(opened.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, (other * 1.5).bfloat16().float())
    with pytest.raises(TrainingError, match="prime-rl starts with other weights than"):
        require_same(source, start)


@pytest.mark.parametrize("fault", ["cut", "none", "shape", "nan", "adapter"])
def test_bad_weights_are_refused(start: Path, tmp_path: Path, fault: str) -> None:
    """Weights that are cut short, missing, of another model, not finite, or adapters: one sentence
    that names prime-rl's folder, and no version."""
    source = published(start, tmp_path, scale=float("nan") if fault == "nan" else 1.0)
    weights = source / "model.safetensors"
    if fault == "cut":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif fault == "none":
        weights.unlink()
    elif fault == "shape":
        other = write_model(tmp_path / "other", hidden=32, layers=1)
        published(other, tmp_path)
    elif fault == "adapter":
        (source / "adapter_config.json").write_text("{}")
    with pytest.raises(CheckpointError) as caught:
        publish(source, tmp_path / "versions" / "v1", CARD, start=start)
    assert str(caught.value).startswith(f"{source}: ") and "\n" not in str(caught.value)
    assert ".partial" not in str(caught.value)
    assert list((tmp_path / "versions").iterdir()) == []


def test_the_waiting_ends(tmp_path: Path) -> None:
    """Without STABLE weights are not complete, and after the time an error names their folder. What
    `check` raises ends the waiting."""
    (tmp_path / "broadcasts" / "step_1").mkdir(parents=True)
    with pytest.raises(TrainingError, match="step_1: has no file STABLE after 0 s"):
        wait_for(tmp_path, 1, timeout=0, check=lambda: None)
    with pytest.raises(TrainingError, match="step_2: does not exist after 0 s"):
        wait_for(tmp_path, 2, timeout=0, check=lambda: None)

    def called_off() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wait_for(tmp_path, 1, timeout=60, check=called_off)


async def test_a_cancelled_task_stops_waiting(tmp_path: Path) -> None:
    """Ctrl-C cancels the task that waits for the thread; the thread then stops looking."""
    looks = threading.Event()

    def check() -> None:
        looks.set()
        stop_when_cancelled()

    async with anyio.create_task_group() as tasks:
        waiting = partial(wait_for, tmp_path, 1, timeout=600, check=check)
        tasks.start_soon(anyio.to_thread.run_sync, waiting)
        assert await anyio.to_thread.run_sync(looks.wait, 20)
        tasks.cancel_scope.cancel()
    stop_when_cancelled()  # outside of a task there is nothing to stop

"""The trainer: its updates equal the same updates written out in plain torch."""

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.optim import AdamW

from rehearsal_room.learner.config.settings import OptimizerSettings
from rehearsal_room.learner.core.errors import ModelError, TrainingError
from rehearsal_room.learner.model.optimizer import adamw, learning_rate
from rehearsal_room.learner.model.pretrained import open_model
from rehearsal_room.learner.packing.batch import Batch
from rehearsal_room.learner.packing.minibatches import (
    balanced_shares,
    merge_small_groups,
    minibatches,
)
from rehearsal_room.learner.trainer.trainer import StepReport, open_trainer
from tests.support.budgets import IS_LONG, repeats
from tests.support.tiny_model import write_model
from tests.support.trainer_runs import (
    changed,
    flat,
    in_parts,
    largest_difference,
    logprobs_by_row,
    random_batch,
    settings_of,
    weights_after,
)

STEPS = repeats(short=2, long=3)
LONG_STEPS = repeats(short=1, long=3)  # of batches that are slow to compute
# AdamW divides a gradient by its own size, so for a gradient near zero rounding becomes visible: up
# to lr in the worst case. float32 gradients are equal within 1e-6 of the largest one.
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), hidden=16, head_dim=8)


def clip_loss(new: Tensor, old: Tensor, suffix: object) -> Tensor:
    """PPO's clipped loss by its formula, weighted and summed."""
    advantages, weights = torch.from_numpy(suffix.advantages), torch.from_numpy(suffix.weights)
    ratios = (new - old).exp()
    clipped = ratios.clamp(0.8, 1.28)
    return -(weights * torch.minimum(ratios * advantages, clipped * advantages)).sum()


@cache
def reference_run(
    folder: Path, *, minibatches: int, prefix: int
) -> tuple[dict[str, Tensor], list[float]]:
    """The weights after some batches and each batch's mean gradient norm, computed directly: row by
    row, with autograd and torch's AdamW."""
    norms = []
    model = open_model(folder, settings_of(folder).compute)
    named = dict(model.named_parameters())
    decayed = [w for name, w in named.items() if w.ndim == 2 and "embed" not in name]
    undecayed = [w for name, w in named.items() if w.ndim == 1 or "embed" in name]
    groups = [{"params": decayed}, {"params": undecayed, "weight_decay": 0.0}]
    optimizer = AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
    for step in range(STEPS):
        prefix_groups = random_batch(step, prefix=prefix).prefix_groups
        with torch.no_grad():
            old = [logprobs_by_row(model, prefix_group) for prefix_group in prefix_groups]
        size = len(prefix_groups) // minibatches
        for first in range(0, len(prefix_groups), size):
            optimizer.zero_grad()
            for prefix_group, before in list(zip(prefix_groups, old, strict=True))[
                first : first + size
            ]:
                now = logprobs_by_row(model, prefix_group)
                for new, was, suffix in zip(now, before, prefix_group.suffixes, strict=True):
                    # The weights of each update's tokens add up to 1.
                    (minibatches * clip_loss(new, was, suffix)).backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
    return weights_after(model), np.reshape(norms, (STEPS, minibatches)).mean(1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "minibatches", "prefix"),
    list(product(("naive", "packed", "twopass"), (1, 2), (9, 180)))
    if IS_LONG
    else [("naive", 2, 9), ("packed", 1, 180), ("twopass", 1, 180), ("twopass", 2, 9)],
)
def test_updates_are_those_of_the_formulas(
    folder: Path, backend: str, minibatches: int, prefix: int
) -> None:
    """Clipped loss, old log-probabilities, gradient clipping and AdamW give the same weights as the
    written-out updates, for each backend and number of updates, whether prefix groups share much or
    little. (`just test` takes four of the twelve combinations, `just test-long` all of them.)"""
    settings = settings_of(
        folder,
        optimizer={"minibatches": minibatches, "max_grad_norm": 0.1},
        compute={"backend": backend, "max_tokens": 20},
    )
    trainer = open_trainer(settings)
    reports = [trainer.step(random_batch(step, prefix=prefix)) for step in range(STEPS)]
    weights, norms = reference_run(folder, minibatches=minibatches, prefix=prefix)
    assert largest_difference(weights_after(trainer.model), weights) < TOLERANCE
    assert [report.grad_norm for report in reports] == pytest.approx(norms, rel=1e-4)
    assert min(norms) > 0.1  # so all gradients were clipped
    assert [report.updates for report in reports] == [minibatches] * STEPS
    assert (reports[0].measures["drift_k3"] > 0) == (minibatches > 1)


def test_the_report_of_a_step(folder: Path) -> None:
    """The report has the batch's tokens, loss and learning rate, and it counts batches."""
    batch = random_batch(0)
    trainer = open_trainer(settings_of(folder, optimizer={"warmup_steps": 4}))
    model = open_model(folder, settings_of(folder).compute)
    now = flat(
        [flat(logprobs_by_row(model, prefix_group)) for prefix_group in batch.prefix_groups]
    ).detach()
    report = trainer.step(batch)
    computed = sum(
        180 + sum(len(suffix.tokens) for suffix in prefix_group.suffixes)
        for prefix_group in batch.prefix_groups
    )
    rows = computed + 3 * 180 * 4
    advantages = np.concatenate(
        [
            suffix.advantages
            for prefix_group in batch.prefix_groups
            for suffix in prefix_group.suffixes
        ]
    )
    expected = StepReport(
        step=1,
        loss=pytest.approx(-advantages.mean(), abs=1e-6),  # all ratios are 1
        grad_norm=report.grad_norm,
        lr=1e-3 / 4,
        updates=1,
        measures=report.measures,
        num_trained=64,
        num_tokens=computed,
        num_row_tokens=rows,
        seconds=report.seconds,
    )
    assert report == expected
    assert report.shared == 1 - computed / rows
    assert report.tokens_per_second == rows / report.seconds
    assert report.measures["logprob"] == pytest.approx(now.mean().item(), abs=1e-5)
    assert report.measures["ratio"] == 1.0
    assert trainer.step(random_batch(1)).step == 2
    small = random_batch(2, prefix=9)  # too small for sharing to pay off
    assert trainer.step(small).num_tokens == small.num_row_tokens > small.num_tokens


@pytest.mark.slow
def test_micro_batches_change_nothing(folder: Path) -> None:
    """For any size of micro-batches the weights are the same, also for GSPO over episodes, whose
    suffixes are then in several micro-batches."""
    found = []
    for max_tokens in (1, 20, 1000):
        settings = settings_of(
            folder,
            loss={"policy": "gspo", "scope": "episode", "gspo_low": 1e-4, "gspo_high": 1e-4},
            optimizer={"minibatches": 2},
            compute={"max_tokens": max_tokens},
        )
        trainer = open_trainer(settings)
        reports = [trainer.step(random_batch(step)) for step in range(LONG_STEPS)]
        found.append((weights_after(trainer.model), reports[-1].measures))
    assert largest_difference(found[0][0], found[1][0]) < TOLERANCE
    assert largest_difference(found[0][0], found[2][0]) < TOLERANCE
    # The second update's ratios are those of whole episodes, and some are clipped.
    for name in ("clipped_low", "clipped_high"):
        assert found[0][1][name] == found[1][1][name] == found[2][1][name]
    assert found[0][1]["clipped_low"] + found[0][1]["clipped_high"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [9, 520] if IS_LONG else [520])
def test_an_episode_may_be_in_several_prefix_groups(folder: Path, prefix: int) -> None:
    """GSPO over episodes gives the same weights whether the suffixes of an episode are in one
    prefix group or in two (which are not merged if they share 520 tokens; `just test-long` also has
    merged ones), and other weights if they are treated as different episodes."""
    settings = settings_of(
        folder,
        loss={"policy": "gspo", "scope": "episode", "gspo_low": 1e-4, "gspo_high": 1e-4},
        optimizer={"minibatches": 2, "lr": 1e-2},
    )

    def weights(change: Callable[[Batch], Batch]) -> dict[str, Tensor]:
        trainer = open_trainer(settings)
        for step in range(LONG_STEPS):
            trainer.step(change(random_batch(step, prefix=prefix)))
        return weights_after(trainer.model)

    def as_separate_episodes(batch: Batch) -> Batch:
        for prefix_group, number in product(range(4), range(4)):
            suffix = batch.prefix_groups[prefix_group].suffixes[number]
            batch = changed(batch, prefix_group, number, episodes=suffix.steps)
        return batch

    together = weights(lambda batch: batch)
    assert largest_difference(weights(in_parts), together) < 10 * TOLERANCE
    assert largest_difference(weights(as_separate_episodes), together) > 100 * TOLERANCE


@pytest.mark.slow
def test_the_mismatch_of_an_episode_is_that_of_all_its_tokens(folder: Path) -> None:
    """With mismatch "episode" the weights after the updates do not depend on micro-batches, nor on
    the prefix groups that an episode is in; they differ from those with mismatch "step"."""

    def weights(change: Callable[[Batch], Batch], **changes: Any) -> dict[str, Tensor]:
        settings = settings_of(
            folder,
            loss={"mismatch": changes.get("mismatch", "episode"), "mismatch_cap": 1e6},
            optimizer={"minibatches": changes.get("minibatches", 1)},
            compute={"max_tokens": changes.get("max_tokens", 1000)},
        )
        trainer = open_trainer(settings)
        for step in range(LONG_STEPS):
            trainer.step(change(random_batch(step, prefix=520)))
        return weights_after(trainer.model)

    for updates in (2, 1)[: repeats(short=1, long=2)]:
        together = weights(lambda batch: batch, minibatches=updates)
        apart = weights(in_parts, minibatches=updates, max_tokens=1)
        assert largest_difference(apart, together) < 10 * TOLERANCE
        by_step = weights(lambda batch: batch, minibatches=updates, mismatch="step")
        assert largest_difference(by_step, together) > 10 * TOLERANCE


@pytest.mark.slow
def test_the_reference_is_another_model(folder: Path, tmp_path: Path) -> None:
    """The divergence uses the reference's log-probabilities: before the first update it is 0 from
    the start model, and k3 by its formula from another model."""
    batch = random_batch(0)
    first = open_trainer(settings_of(folder, loss={"kl": 0.1})).step(batch)
    assert first.measures["kl"] == pytest.approx(0.0, abs=1e-6)

    other = write_model(tmp_path / "other", hidden=16, head_dim=8, seed=1)
    report = open_trainer(settings_of(folder, loss={"kl": 0.1, "reference": str(other)})).step(
        batch
    )
    compute = settings_of(folder).compute
    new, reference = (
        flat(
            [
                flat(logprobs_by_row(open_model(path, compute), prefix_group))
                for prefix_group in batch.prefix_groups
            ]
        )
        for path in (folder, other)
    )
    k3 = ((reference - new).expm1() - (reference - new)).mean().item()
    assert report.measures["kl"] == pytest.approx(k3, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_broken_numbers_change_nothing(folder: Path, broken: str) -> None:
    """A batch whose loss or gradient is not finite is an error with its number; weights, optimiser
    and count are unchanged, so that training continues as if the batch had not existed."""
    trainer, other = open_trainer(settings_of(folder)), open_trainer(settings_of(folder))
    trainer.step(random_batch(0))
    other.step(random_batch(0))
    if broken == "loss":
        bad = changed(random_batch(1), 2, 1, advantages=np.full(4, np.nan, np.float32))
        message = "batch 2 cannot be trained on: the loss is nan"
        with pytest.raises(TrainingError, match=message):
            trainer.step(bad)
    else:
        norm = next(weight for weight in trainer.model.parameters() if weight.ndim == 1)
        hook = norm.register_hook(lambda grad: grad * math.inf)
        with pytest.raises(TrainingError, match=r"the norm of its gradient (inf|nan)"):
            trainer.step(random_batch(1))
        hook.remove()
    report, expected = trainer.step(random_batch(2)), other.step(random_batch(2))
    assert (report.step, report.loss, report.grad_norm) == (2, expected.loss, expected.grad_norm)
    assert largest_difference(weights_after(trainer.model), weights_after(other.model)) == 0


def test_nothing_to_train_is_refused(folder: Path) -> None:
    """A batch without trained tokens is the caller's error."""
    empty = np.zeros(0, np.int64)
    none = np.zeros(0, np.float32)
    batch = random_batch(0, num_groups=1, num_suffixes=1)
    nothing = changed(
        batch,
        0,
        0,
        trained=empty,
        sampler=none,
        advantages=none,
        weights=none,
        steps=empty,
        episodes=empty,
    )
    with pytest.raises(ValueError, match="without trained tokens"):
        open_trainer(settings_of(folder)).step(nothing)


def test_bfloat16_is_used_for_computing_only(folder: Path) -> None:
    """Under bfloat16 the decoder's products are in bfloat16, weights and gradients in float32, and
    log-probabilities are close to those of float32."""
    exact = open_trainer(settings_of(folder)).step(random_batch(0))
    trainer = open_trainer(settings_of(folder, compute={"dtype": "bfloat16"}))
    types = set()
    layer = trainer.model.get_decoder().layers[0].mlp.up_proj
    layer.register_forward_hook(lambda module, inputs, output: types.add(output.dtype))
    layer.weight.register_hook(lambda grad: types.add(grad.dtype))
    head = trainer.model.get_output_embeddings()
    head.register_forward_hook(lambda module, given, made: types.add((made.dtype, "head")))
    report = trainer.step(random_batch(0))
    assert types == {torch.bfloat16, torch.float32, (torch.float32, "head")}
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    logprob = exact.measures["logprob"]
    assert report.measures["logprob"] == pytest.approx(logprob, abs=0.02)
    assert report.measures["logprob"] != logprob
    assert report.grad_norm == pytest.approx(exact.grad_norm, rel=0.02)


def test_gradient_checkpointing_changes_nothing(folder: Path) -> None:
    """With checkpointing layers are computed twice, and the weights are the same."""
    found = []
    for checkpointing in (False, True):
        compute = {"gradient_checkpointing": checkpointing}
        trainer = open_trainer(settings_of(folder, compute=compute))
        calls = []
        layer = trainer.model.get_decoder().layers[0].input_layernorm
        layer.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        trainer.step(random_batch(0))
        found.append((weights_after(trainer.model), len(calls)))
    assert largest_difference(found[0][0], found[1][0]) == 0
    assert found[1][1] == 2 * found[0][1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.05)])
def test_a_device_trains_what_the_cpu_does(folder: Path, dtype: str, tolerance: float) -> None:
    """On a GPU the same batches give the same reports, within its precision."""
    reports = []
    for device in ("cpu", "cuda"):
        trainer = open_trainer(settings_of(folder, compute={"device": device, "dtype": dtype}))
        reports.append([trainer.step(random_batch(step)) for step in range(STEPS)])
    for on_cpu, on_gpu in zip(*reports, strict=True):
        assert on_gpu.grad_norm == pytest.approx(on_cpu.grad_norm, rel=tolerance)
        expected = on_cpu.measures["logprob"]
        assert on_gpu.measures["logprob"] == pytest.approx(expected, rel=tolerance)


def test_which_parameters_are_decayed(folder: Path, tmp_path: Path) -> None:
    """Matrices are decayed, including an untied head; norms and embeddings are not."""

    def decayed(path: Path) -> set[str]:
        model = open_model(path, settings_of(path).compute)
        names = {weight: name.removeprefix("model.") for name, weight in model.named_parameters()}
        groups = adamw(model, OptimizerSettings(weight_decay=0.5)).param_groups
        assert {weight for group in groups for weight in group["params"]} == names.keys()
        found = [group for group in groups if group["weight_decay"] == 0.5]
        return {names[weight] for group in found for weight in group["params"]}

    of_layer = {
        f"layers.{number}.{name}.weight"
        for number in range(2)
        for name in (
            *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
            *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
        )
    }
    assert decayed(folder) == of_layer
    untied = write_model(tmp_path / "untied", hidden=16, head_dim=8, tied=False)
    assert decayed(untied) == of_layer | {"lm_head.weight"}


def test_the_learning_rate_over_a_run() -> None:
    """The rate warms up, then stays constant or falls linearly or as a cosine; it never reaches
    zero before the last batch."""

    def rates(schedule: str, warmup: int, steps: int) -> list[float]:
        settings = OptimizerSettings(lr=1.0, warmup_steps=warmup, schedule=schedule)
        return [learning_rate(step, settings, steps=steps) for step in range(steps)]

    assert rates("constant", 0, 3) == [1.0, 1.0, 1.0]
    assert rates("constant", 4, 5) == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates("linear", 2, 6) == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert rates("cosine", 0, 4) == pytest.approx(
        [1.0, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]
    )
    settings = OptimizerSettings(lr=1.0, warmup_steps=2, schedule="linear")
    assert learning_rate(9, settings, steps=2) == 0.0  # after the end


def test_how_a_batch_is_split() -> None:
    """Updates get whole groups in order, with about the same number of trained tokens. Processes
    get about the same work, and every item goes to exactly one process."""
    prefix_groups = [
        msgspec.structs.replace(
            random_batch(n, num_groups=1, trained=trained).prefix_groups[0], group=n
        )
        for n, trained in enumerate([1, 1, 2, 3])
    ]
    sizes = [
        [prefix_group.num_trained for prefix_group in part]
        for part in minibatches(prefix_groups, 2)
    ]
    assert sizes == [[4, 4, 8], [12]]
    assert [len(part) for part in minibatches(prefix_groups, 1)] == [4]
    assert [len(part) for part in minibatches(prefix_groups[:2], 4)] == [1, 1]
    together = [
        prefix_groups[0],
        *(msgspec.structs.replace(prefix_group, group=1) for prefix_group in prefix_groups[1:]),
    ]
    assert minibatches(together, 2) == [together[:1], together[1:]]
    assert balanced_shares([5, 9, 4, 2], 2) == [[1, 3], [0, 2]]
    assert balanced_shares([7], 3) == [[0], [], []]


def test_small_prefix_groups_are_merged() -> None:
    """Prefix groups that share little become rows of a single one. Those that share much stay, and
    so does a small one without a partner."""
    large, small, other = (
        random_batch(n, num_groups=1, prefix=p).prefix_groups[0] for n, p in enumerate((180, 9, 9))
    )
    assert merge_small_groups([large, small]) == [large, small]
    unchanged, rows = merge_small_groups([small, large, other])
    assert unchanged is large
    assert len(rows.prefix) == 0
    expected = [
        [*prefix_group.prefix, *suffix.tokens]
        for prefix_group in (small, other)
        for suffix in prefix_group.suffixes
    ]
    assert [suffix.tokens.tolist() for suffix in rows.suffixes] == expected
    trained = [
        (suffix.trained + 9).tolist()
        for prefix_group in (small, other)
        for suffix in prefix_group.suffixes
    ]
    assert [suffix.trained.tolist() for suffix in rows.suffixes] == trained


def test_a_student_comes_nearer_to_its_teacher(folder: Path, tmp_path: Path) -> None:
    """With loss `distill` the model's divergence from the teacher falls, batch by batch, on tokens
    of equal rewards; a teacher with another tokenizer is refused, and so is none."""
    teacher = write_model(tmp_path / "teacher", hidden=16, head_dim=8, seed=7)
    loss = {"policy": "distill", "reference": str(teacher), "mismatch": "off"}
    trainer = open_trainer(settings_of(folder, loss=loss, optimizer={"lr": 3e-3}))
    batch = sampled_from(trainer.model, random_batch(0, num_groups=6, num_suffixes=6, prefix=9))
    apart = [trainer.step(batch).measures["teacher_kl"] for _ in range(6)]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < apart[0] - 0.05
    table = (teacher / "tokenizer.json").read_text().replace('"void"', '"Void"')
    (teacher / "tokenizer.json").write_text(table.replace('"a":', '"€":', 1))
    with pytest.raises(ModelError, match=r"the tokenizer of .*teacher is not that of"):
        open_trainer(settings_of(folder, loss=loss))


def sampled_from(model: Any, batch: Batch) -> Batch:
    """The batch with trained tokens that the model itself finds most likely, and no advantages."""
    groups = []
    for group in batch.prefix_groups:
        suffixes = []
        for suffix in group.suffixes:
            row = np.concatenate([group.prefix, suffix.tokens])
            for place in suffix.trained + len(group.prefix):
                with torch.no_grad():
                    logits = model(input_ids=torch.tensor(row[None, :place]).long()).logits[0, -1]
                row[place] = int(logits.argmax())
            zeros = np.zeros_like(suffix.advantages)
            tokens = row[len(group.prefix) :].astype(np.int32)
            suffixes.append(msgspec.structs.replace(suffix, tokens=tokens, advantages=zeros))
        groups.append(msgspec.structs.replace(group, suffixes=tuple(suffixes)))
    return msgspec.structs.replace(batch, prefix_groups=tuple(groups))

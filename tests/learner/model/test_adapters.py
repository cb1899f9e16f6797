"""Adapters: trained by every back end as the merged weights would have it, published so that peft
opens them, saved alone, and refused where they cannot be."""

import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    PreTrainedConfig,
    Qwen3Config,
)

from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.learner.backends.registry import backend_of
from rehearsal_room.learner.config.settings import ComputeSettings, LoraSettings, TrainSettings
from rehearsal_room.learner.core.checksums import check_checksums
from rehearsal_room.learner.core.errors import (
    CheckpointError,
    ConfigError,
    DamagedError,
    ModelError,
)
from rehearsal_room.learner.model.adapters import add_adapters, has_adapters, merged
from rehearsal_room.learner.model.memory import memory_need
from rehearsal_room.learner.model.optimizer import trainable
from rehearsal_room.learner.model.pretrained import open_model, without_noise
from rehearsal_room.learner.selftest import probe
from rehearsal_room.learner.selftest.comparison import difference, relative_difference
from rehearsal_room.learner.selftest.copies import copy_of
from rehearsal_room.learner.trainer.trainer import Trainer, open_trainer
from tests.support.tiny_model import write_model
from tests.support.trainer_runs import random_batch, settings_of, weights_after

peft = pytest.importorskip("peft", reason="the extra lora")

CARD = PolicyCard("v1", "full", "", "native")
CLOSE = 1e-5  # float32, relative
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
FAMILIES = {
    "qwen3": Qwen3Config(**SMALL),
    "gemma2": Gemma2Config(**SMALL),  # sliding windows and soft caps
    "gpt2": GPT2Config(n_embd=64, n_head=4, n_layer=2),  # matrices the other way round
}


@pytest.fixture
def start(tmp_path: Path) -> Path:
    return write_model(tmp_path / "start", hidden=16, head_dim=8)


def lora_settings(model: Path, **lora: Any) -> TrainSettings:
    return msgspec.structs.replace(
        settings_of(model, steps=6), lora=LoraSettings(**{"rank": 4, **lora})
    )


def trained(model: Path, *, batches: int = 2) -> Trainer:
    trainer = open_trainer(lora_settings(model))
    for number in range(batches):
        trainer.step(random_batch(number, num_groups=2, num_suffixes=2, prefix=9))
    return trainer


def logits_of(model: Any) -> Tensor:
    tokens = torch.arange(3, 40)[None]
    with torch.no_grad():
        found: Tensor = model(input_ids=tokens).logits
    return found


def with_adapters(config: PreTrainedConfig, *targets: str) -> Any:
    """A small model whose adapters are not zero."""
    model = copy_of(without_noise(config))
    add_adapters(model, LoraSettings(rank=4, targets=targets), base=Path("start"))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05, generator=generator)
    return model


def computed(model: nn.Module, backend: str) -> probe.Computed:
    compute = ComputeSettings(
        backend=backend,  # type: ignore[arg-type]
        max_tokens=probe.max_tokens_of(backend),
        device="cpu",
    )
    return probe.by_backend(backend_of(compute), model, probe.probe_group())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", ["naive", "packed", "twopass"])
def test_gradients_are_the_projections_of_the_merged_weights(family: str, backend: str) -> None:
    """With W' = W + s B A and the gradient G of W', computed by the model's own forward of the
    merged weights, the adapter's gradients are s G A' and s B' G, for each back end and layer."""
    model = with_adapters(FAMILIES[family])
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    plain = deepcopy(copy_of(without_noise(FAMILIES[family])))
    found = plain.load_state_dict(merged(model, weights), strict=False)
    assert (found.unexpected_keys, set(found.missing_keys) <= {"lm_head.weight"}) == ([], True)
    expected = probe.by_plain_rows(plain, probe.probe_group())
    done = computed(model, backend)
    assert relative_difference(done.logprobs, expected.logprobs) < CLOSE
    scale, layers = 32 / 4, 0
    for name, of_a in done.gradient.items():
        layer, is_a, rest = name.partition(".lora_A.")
        if not is_a:
            continue
        whole = expected.gradient[f"{layer}.weight"]
        whole = whole.T if family == "gpt2" else whole
        a, b = weights[name], weights[f"{layer}.lora_B.{rest}"]
        of_b = done.gradient[f"{layer}.lora_B.{rest}"]
        assert relative_difference(of_a, scale * b.T @ whole) < CLOSE
        assert relative_difference(of_b, scale * whole @ a.T) < CLOSE
        layers += 1
    assert layers == len(trainable(model)) / 2 > 7


@pytest.mark.parametrize("target", ["q_proj", "v_proj", "down_proj"])
def test_below_the_first_adapter_nothing_is_trained(target: str) -> None:
    """Where the keys and values of a prefix depend on no adapter, `twopass` gives the gradients of
    plain rows as well."""
    model = with_adapters(FAMILIES["qwen3"], target)
    assert difference(computed(model, "twopass"), computed(model, "naive")).is_within(CLOSE)


def test_flex_scores_with_adapters() -> None:
    """The block mask gives the log-probabilities of plain rows."""
    model, group = with_adapters(FAMILIES["qwen3"]), probe.probe_group()
    flex = backend_of(ComputeSettings(backend="flex", device="cpu"))
    expected = backend_of(ComputeSettings(backend="naive", device="cpu")).score(model, group)
    assert relative_difference(flex.score(model, group), expected) < CLOSE


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
def test_peft_opens_what_is_published(start: Path, tmp_path: Path) -> None:
    """peft itself puts the published adapter on the base model, and its logits are the trainer's;
    so are those of the merged weights, which transformers opens. The base model's are others."""
    trainer = trained(start)
    trainer.publish(tmp_path / "v1", CARD)
    expected = logits_of(trainer.model)
    base = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    assert float((logits_of(base) - expected).abs().max()) > 1e-3
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "v1" / "adapter")
    assert torch.equal(logits_of(theirs), expected)
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "v1", dtype=torch.float32)
    assert relative_difference(logits_of(whole), expected) < CLOSE
    assert not has_adapters(whole)


def test_only_adapters_change_and_are_saved(start: Path, tmp_path: Path) -> None:
    """Training leaves the base weights as they are, and a checkpoint has the adapters and their
    optimiser's state only."""
    before = weights_after(open_model(start, settings_of(start).compute))
    trainer = trained(start)
    after = {
        name.replace(".base_layer", ""): weight
        for name, weight in weights_after(trainer.model).items()
        if "lora_" not in name
    }
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    trainer.save(tmp_path / "checkpoints", b"", keep=1)
    reader = torch.distributed.checkpoint.FileSystemReader(
        tmp_path / "checkpoints" / "checkpoint-000001"
    )
    names = [name for name in reader.read_metadata().state_dict_metadata if "layers" in name]
    assert names
    assert all("lora_" in name for name in names)


def test_a_resumed_run_gets_the_same_numbers(start: Path, tmp_path: Path) -> None:
    """A run that resumes from its adapters makes the same updates, bit by bit."""
    trainer = trained(start)
    trainer.save(tmp_path / "checkpoints", b"progress", keep=1)
    resumed = open_trainer(lora_settings(start))
    assert resumed.resume(tmp_path / "checkpoints") == b"progress"
    for number in (7, 8):
        batch = random_batch(number, num_groups=2, num_suffixes=2, prefix=9)
        one, other = trainer.step(batch), resumed.step(batch)
        assert (one.loss, one.grad_norm) == (other.loss, other.grad_norm)
    one_weights, others = weights_after(trainer.model), weights_after(resumed.model)
    assert all(torch.equal(one_weights[name], others[name]) for name in one_weights)


def test_adapters_of_other_weights_are_refused(start: Path, tmp_path: Path) -> None:
    """A checkpoint of adapters does not resume on a base model of the same shape with other
    weights, nor with adapters of another rank, nor as a model without adapters."""
    trained(start).save(tmp_path / "checkpoints", b"", keep=1)
    other = write_model(tmp_path / "other", hidden=16, head_dim=8, seed=1)
    with pytest.raises(CheckpointError, match="its adapters belong to other weights"):
        open_trainer(lora_settings(other)).resume(tmp_path / "checkpoints")
    for settings in (lora_settings(start, rank=8), settings_of(start)):
        with pytest.raises(CheckpointError, match="this is a checkpoint of the model"):
            open_trainer(settings).resume(tmp_path / "checkpoints")


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens", "q_projection", "norm"])
def test_targets_without_a_linear_layer_are_refused(start: Path, target: str) -> None:
    """A target that is the head, the embeddings, a norm or nothing is named, and so are those that
    exist; also where another target exists."""
    with pytest.raises(
        ConfigError, match=f"no linear layer '{target}' in its decoder; it has"
    ) as e:
        open_trainer(lora_settings(start, targets=("q_proj", target)))
    assert "down_proj, gate_proj, k_proj" in str(e.value)


def test_without_peft_the_extra_is_named(start: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where peft is not installed, the sentence says what installs it."""
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match=r"lora.rank needs the package peft: pip install .*lora"):
        open_trainer(lora_settings(start))


def test_a_flipped_byte_of_an_adapter_is_found(start: Path, tmp_path: Path) -> None:
    """The checksums of a version cover the files in its folders."""
    trained(start).publish(tmp_path / "v1", CARD)
    check_checksums(tmp_path / "v1")
    path = tmp_path / "v1" / "adapter" / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=r"adapter_model.safetensors: the file is damaged"):
        check_checksums(tmp_path / "v1")


def test_the_memory_that_is_said(start: Path) -> None:
    """Weights and trained weights are counted exactly, and what a long row keeps for its backward
    is foretold from two short ones."""
    settings = lora_settings(start)
    model = open_model(start, settings.compute)
    all_weights = sum(weight.numel() for weight in model.parameters())
    whole = memory_need(model, settings_of(start))
    add_adapters(model, settings.lora, base=start)
    adapters = sum(weight.numel() for weight in trainable(model))
    need = memory_need(model, settings)
    assert (whole.weights, whole.trained) == (4 * all_weights, 12 * all_weights)
    assert (need.weights, need.trained) == (4 * (all_weights + adapters), 12 * adapters)
    assert 0 < adapters < all_weights / 2
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        done = model(input_ids=torch.zeros((1, 700), dtype=torch.int64), logits_to_keep=1)
    weights = sum(weight.nbytes for weight in model.parameters())
    foretold = need.row_fixed + 700 * need.row_per_token
    assert abs(sum(kept.values()) - foretold) < 0.05 * foretold + weights
    assert foretold > 10 * weights
    del done


def test_an_adapters_folder_is_not_a_model(start: Path, tmp_path: Path) -> None:
    """The message says which folder to name in its place."""
    trained(start).publish(tmp_path / "v1", CARD)
    with pytest.raises(ModelError, match="this is an adapter: name the folder that it lies in"):
        open_model(tmp_path / "v1" / "adapter", settings_of(start).compute)


def test_checkpointed_layers_give_the_same_updates(start: Path) -> None:
    """With gradient checkpointing the updates of adapters are those without, in both precisions."""
    batch = random_batch(0, num_groups=2, num_suffixes=2, prefix=9)
    for dtype in ("float32", "bfloat16"):
        reports = []
        for checkpointed in (False, True):
            compute = {"dtype": dtype, "gradient_checkpointing": checkpointed, "device": "cpu"}
            settings = msgspec.structs.replace(
                lora_settings(start),
                compute=ComputeSettings(**compute),  # type: ignore[arg-type]
            )
            reports.append(open_trainer(settings).step(batch))
        assert reports[0].grad_norm == reports[1].grad_norm > 0

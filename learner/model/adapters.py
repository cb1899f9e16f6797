"""Low-rank adapters (LoRA, arXiv:2106.09685): the model's weights stay, and beside each chosen
linear layer two small matrices are trained.

    y = W x + (alpha / rank) B A x        A [rank, in], B [out, rank], which starts at zero

The layers are peft's, put into the model in place, so every backend computes them in its ordinary
calls of the model. There is no dropout, because log-probabilities must equal those of the sampler.

A published version has merged weights, and in a folder the adapter alone, which peft, transformers
and vLLM open:

    adapter/
        adapter_config.json          rank, alpha, layers, folder of the base model
        adapter_model.safetensors    A and B of each layer, float32
"""

import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D  # a linear layer of GPT-2

from rehearsal_room.learner.backends.forward import layer_list
from rehearsal_room.learner.config.settings import LoraSettings
from rehearsal_room.learner.core.errors import ConfigError
from rehearsal_room.scenarios.distribution import missing_package

_NAME = "default"  # peft's name of the one adapter
_BASE, _A, _B = ".base_layer.", f".lora_A.{_NAME}.", f".lora_B.{_NAME}."
_PEFT_PREFIX = "base_model.model."  # of the names in peft's files


def add_adapters(model: PreTrainedModel, settings: LoraSettings, *, base: Path) -> None:
    """Put adapters beside the model's linear layers, in place. From then on they alone are
    trainable.

    `base` is the folder that the model was opened from. Raises ConfigError for a target that the
    decoder does not have as a linear layer, and where peft is not installed.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ModuleNotFoundError as exc:
        raise ConfigError(missing_package("lora.rank", exc, "lora")) from exc
    targets = _targets(model, settings.targets)
    config: Any = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=targets,
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        base_model_name_or_path=str(base),
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set")  # GPT-2's layers
        inject_adapter_in_model(config, model)


def has_adapters(model: nn.Module) -> bool:
    """Whether adapters are trained in a model, and not all of its weights."""
    return hasattr(model, "peft_config")


def base_digest(model: nn.Module) -> str:
    """A checksum of the weights that are not trained, which an adapter belongs to; empty: all are
    trained."""
    if not has_adapters(model):
        return ""
    checksum = 0
    for name, weight in sorted(model.named_parameters()):
        if not weight.requires_grad:
            data = weight.detach().cpu().contiguous().view(torch.uint8).numpy()
            checksum = zlib.crc32(data.data, zlib.crc32(name.encode(), checksum))
    return f"{checksum:08x}"


def merged(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights (full tensors by name) with each adapter added to its layer, under the names that
    they have in a model without adapters."""
    config: Any = _config(model)
    scale = config.lora_alpha / config.r
    whole: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if _A in name or _B in name:
            continue
        start, is_adapted, end = name.partition(_BASE)
        whole[f"{start}.{end}" if is_adapted else name] = weight
        if is_adapted and end == "weight":
            a, b = (weights[f"{start}{part}weight"] for part in (_A, _B))
            change = (b @ a) * scale
            # GPT-2 stores its matrices the other way round.
            whole[f"{start}.{end}"] = weight + (change.T if config.fan_in_fan_out else change)
    return whole


def write_adapter(folder: Path, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write the adapter among the weights (full tensors by name) as a folder in peft's format.
    Raises OSError and SafetensorError."""
    folder.mkdir()
    _config(model).save_pretrained(str(folder))
    save_file(
        {
            _PEFT_PREFIX + name.replace(f".{_NAME}.", "."): weight.detach().cpu().contiguous()
            for name, weight in weights.items()
            if _A in name or _B in name
        },
        folder / "adapter_model.safetensors",
        metadata={"format": "pt"},
    )


def _config(model: nn.Module) -> Any:
    configs: Any = model.peft_config
    return configs[_NAME]


def _targets(model: PreTrainedModel, wanted: Sequence[str]) -> list[str]:
    """The names of the linear layers that get adapters: those wanted, or all of the decoder's
    layers. Raises ConfigError."""
    found = Counter(name.rpartition(".")[2] for name in _linear_layers(model))
    if not found:
        raise ConfigError(
            f"lora.rank: {type(model).__name__} has no linear layers that could get adapters: leave"
            " out [lora]"
        )
    for target in wanted:
        if target not in found:
            raise ConfigError(
                f"lora.targets: {type(model).__name__} has no linear layer {target!r} in its"
                f" decoder; it has {', '.join(sorted(found))}"
            )
    return sorted(wanted or found)


def _linear_layers(model: PreTrainedModel) -> Iterator[str]:
    """The names of the linear layers in the decoder's layers. The head and the embeddings are not
    among them: where they share their weights, a merged adapter of one would change the other."""
    for name, module in layer_list(model).named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            yield name

"""Models: Hugging Face directories in, Hugging Face directories out.

A model is opened in float32 whatever its file has, because an update is often smaller than what
bfloat16 can tell apart from nothing. With `dtype = "bfloat16"` its decoder computes under autocast:
matrix products in bfloat16, sums, norms and the residual stream in float32; the head and the loss
are in float32 always. Dropout is off: log-probabilities must be those of the sampler.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from harness.core.policy_card import PolicyCard, write_card
from learner.config.settings import ComputeSettings
from learner.core.atomic_dirs import reason, written_whole
from learner.core.errors import ConfigError, ModelError

# What a published folder takes over from the one at the start: everything but weights, and what is
# written anew.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def open_model(folder: Path, compute: ComputeSettings) -> PreTrainedModel:
    """The model in a Hugging Face directory, in float32 and on its device, ready to be trained.

    Raises ModelError for a folder that holds none, or one that cannot be trained here; ConfigError
    for a device that is not there.
    """
    device = device_of(compute)
    _check_files(folder)
    try:
        with _quiet():
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            if getattr(config, "attention_dropout", 0):
                config.attention_dropout = 0.0
            opened: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, RuntimeError, SafetensorError, StrictDataclassError) as exc:
        raise ModelError(f"{folder}: its model cannot be opened: {reason(exc)}") from exc
    model, info = opened
    _check_weights(folder, **info)
    return _ready(model, folder, compute, device)


def device_of(compute: ComputeSettings) -> torch.device:
    """Where a model is computed. Raises ConfigError for a device that is not there."""
    has_gpu = torch.cuda.is_available()
    name = compute.device or ("cuda" if has_gpu else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as exc:
        raise ConfigError(f"compute.device: {name!r} is no device that torch knows") from exc
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"compute.device: {name!r} is neither cpu nor cuda")
    if device.type == "cuda" and not has_gpu:
        raise ConfigError(f"compute.device: {name!r} is wanted, and torch finds no GPU")
    return device


def publish(
    folder: Path,
    model: PreTrainedModel,
    weights: Mapping[str, Tensor],
    *,
    card: PolicyCard,
    start: Path,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a Hugging Face directory: the weights, whole tensors, as `dtype`; the model's config;
    tokenizer, chat template and whatever else the directory at the start has; the card.

    Readers see all of it or none. Raises CheckpointError, also for a folder that is there already.
    """
    with written_whole(folder) as partial:
        with _quiet():
            model.save_pretrained(partial, state_dict=_stored(model, weights, dtype))
        _set_dtype(partial / "config.json", dtype)
        for path in start.iterdir():
            taken_over = path.is_file() and not path.name.endswith(_WEIGHTS)
            if taken_over and not (partial / path.name).exists():
                shutil.copyfile(path, partial / path.name)
        write_card(partial, card)


def layers_of(model: PreTrainedModel) -> nn.ModuleList:
    """The decoder's layers. Raises ModelError for an architecture that has no list of them."""
    layers = getattr(decoder_of(model), "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise ModelError(f"{type(model).__name__} has no decoder layers, so it cannot be trained")
    return layers


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """The model without its head."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
    return decoder


def _ready(
    model: Any, folder: Path, compute: ComputeSettings, device: torch.device
) -> PreTrainedModel:
    opened: PreTrainedModel = model
    layers_of(opened)
    opened.to(device)  # type: ignore[arg-type]
    if compute.gradient_checkpointing:
        if not opened.supports_gradient_checkpointing:
            raise ModelError(f"{folder}: {type(opened).__name__} has no gradient checkpointing")
        opened.activation_checkpointing_enable({"use_reentrant": False})
    opened.train()  # or layers would not be checkpointed
    if compute.dtype == "bfloat16":
        _autocast(opened)
    return opened


def _autocast(model: PreTrainedModel) -> None:
    """Let the decoder's forward compute in bfloat16; the backward follows the forward's types."""
    decoder = decoder_of(model)
    decoder.forward = torch.autocast(model.device.type, torch.bfloat16)(decoder.forward)


def _stored(
    model: nn.Module, weights: Mapping[str, Tensor], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights as they are stored, each once: a tied head is not stored beside embeddings."""
    everywhere = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    tied = everywhere - {name for name, _ in model.named_parameters()}
    return {name: weight.to(dtype) for name, weight in weights.items() if name not in tied}


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelError(f"{folder}: there is no such folder, so there is no model to train")
    for name in ("config.json", *_TOKENIZER):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: it has no {name}, so it is no Hugging Face directory")


def _check_weights(
    folder: Path, missing_keys: set[str], mismatched_keys: set[tuple[str, Any, Any]], **_: Any
) -> None:
    """transformers fills what is missing or of another shape with random numbers, and warns."""
    for name in sorted(missing_keys):
        raise ModelError(f"{folder}: its weights lack {name} (and {len(missing_keys) - 1} more)")
    for name, found, wanted in sorted(mismatched_keys):
        shapes = f"the shape {list(found)}, by config.json it would have {list(wanted)}"
        raise ModelError(f"{folder}: its weight {name} has {shapes}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it transformers neither draws progress bars nor warns of what is checked here."""
    before = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _set_dtype(path: Path, dtype: torch.dtype) -> None:
    """transformers writes the type of the model that it is given, not that of the weights."""
    config = msgspec.json.decode(path.read_bytes())
    config["dtype"] = str(dtype).removeprefix("torch.")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")

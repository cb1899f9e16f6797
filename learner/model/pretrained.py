"""Open models from Hugging Face directories and publish them as such.

A model is always opened in float32, whatever its file has, because many updates are too small for
bfloat16 to represent. With dtype = "bfloat16" its decoder computes under autocast: matrix products
in bfloat16; sums, norms and the residual stream in float32; head and loss always in float32.
Dropout is off, because log-probabilities must equal those of the sampler.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import msgspec
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from rehearsal_room.harness.core.policy_card import ADAPTER, PolicyCard, write_card
from rehearsal_room.learner.backends.forward import layer_list
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.atomic_dirs import reason, write_atomic_folder
from rehearsal_room.learner.core.errors import ConfigError, ModelError
from rehearsal_room.learner.model.adapters import has_adapters, merged, write_adapter

# A published folder gets copies of all files of the start folder, except weights and files that
# publishing writes itself.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json")
# Raised for a file of weights that was cut short.
_DAMAGED = (SafetensorError, EOFError, UnpicklingError)
_NOISE = re.compile("dropout|pdrop|layerdrop|jitter_noise")  # in the names of config.json
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def open_model(folder: Path, compute: ComputeSettings) -> PreTrainedModel:
    """Open the model in a Hugging Face directory, in float32 and on its device, ready for training.

    Raises ModelError for a folder without a model or with one that cannot be trained, ConfigError
    for a device that does not exist here.
    """
    device = device_of(compute)
    model = _open(folder, torch.float32)
    layer_list(model)
    return prepare(model, compute, device)


def open_plain(folder: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Open the model in a Hugging Face directory for plain forwards. Raises ModelError."""
    model = _open(folder, dtype)
    model.to(device)  # type: ignore[arg-type]
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _open(folder: Path, dtype: torch.dtype) -> PreTrainedModel:
    config = open_config(folder)
    try:
        with quiet():
            opened: Any = AutoModelForCausalLM.from_pretrained(  # nosec B615 # no hub
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                trust_remote_code=False,  # else it asks, and runs code of the folder
                ignore_mismatched_sizes=True,
                output_loading_info=True,
            )
    except (*_DAMAGED, OSError, ValueError, RuntimeError, StrictDataclassError) as exc:
        raise ModelError(f"{folder}: the model cannot be opened: {reason(exc)}") from exc
    model: PreTrainedModel
    model, info = opened
    _check_weights(folder, **info)
    return model


def open_config(folder: Path) -> PreTrainedConfig:
    """The config of the model in a Hugging Face directory, without noise. Raises ModelError."""
    _check_files(folder)
    try:
        with quiet():
            config = AutoConfig.from_pretrained(  # nosec B615 # no hub
                folder, local_files_only=True, trust_remote_code=False
            )
    except (OSError, ValueError, RuntimeError, StrictDataclassError) as exc:
        raise ModelError(f"{folder}: the model cannot be opened: {reason(exc)}") from exc
    return without_noise(config)


def without_noise(config: PreTrainedConfig) -> PreTrainedConfig:
    """The config with every dropout and every noise of a router set to 0, in place: the
    probabilities that are trained must equal those of the sampler, and each pass those of the next.

    Example: attention_dropout 0.1, resid_pdrop 0.1, router_jitter_noise 0.01 -> 0.0, 0.0, 0.0
    """
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            without_noise(value)
        elif _NOISE.search(name) and isinstance(value, int | float) and value:
            setattr(config, name, 0.0)
    return config


def device_of(compute: ComputeSettings) -> torch.device:
    """The device of the computation. Raises ConfigError for a device that does not exist here."""
    has_gpu = torch.cuda.is_available()
    name = compute.device or ("cuda" if has_gpu else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as exc:
        raise ConfigError(f"compute.device: {name!r} is not a device that torch knows") from exc
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"compute.device: {name!r} is neither a cpu nor a cuda device")
    if device.type == "cuda" and not has_gpu:
        raise ConfigError(f"compute.device: {name!r} needs a GPU, but torch finds none")
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
    """Write a Hugging Face directory: the weights (full tensors) as `dtype`, the model's config,
    the tokenizer, chat template and all other files of the start directory, and the card. Adapters
    are merged into the weights, and written by themselves, too (learner.model.adapters).

    The folder appears complete or not at all. Raises CheckpointError, also for a folder that exists
    already.
    """
    with write_atomic_folder(folder) as partial:
        if has_adapters(model):
            write_adapter(partial / ADAPTER, model, weights)
            weights = merged(model, weights)
        stored = _weights_to_store(model, weights, dtype)
        with quiet():
            model.save_pretrained(partial, state_dict=stored)
        _set_dtype(partial / "config.json", dtype)
        copy_other_files(start, partial)
        write_card(partial, card)


def copy_other_files(start: Path, folder: Path) -> None:
    """Copy all files of a model's directory that are not weights, and that the folder lacks."""
    for path in start.iterdir():
        is_copied = path.is_file() and not path.name.endswith(_WEIGHTS)
        if is_copied and not (folder / path.name).exists():
            shutil.copyfile(path, folder / path.name)


def decoder_of(model: PreTrainedModel) -> nn.Module:
    """The model without its head."""
    decoder: nn.Module = model.get_decoder()  # type: ignore[no-untyped-call]
    return decoder


def prepare(
    model: PreTrainedModel, compute: ComputeSettings, device: torch.device
) -> PreTrainedModel:
    """The float32 model on its device, ready for training. Raises ModelError for a model without
    the gradient checkpointing that the settings want."""
    model.to(device)  # type: ignore[arg-type]
    if compute.gradient_checkpointing:
        if not model.supports_gradient_checkpointing:
            raise ModelError(f"{type(model).__name__} has no gradient checkpointing")
        model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()  # in evaluation mode layers are not checkpointed
    if compute.dtype == "bfloat16":
        _autocast(model)
    return model


def _autocast(model: PreTrainedModel) -> None:
    """Make the decoder's forward compute in bfloat16; the backward uses the forward's types."""
    decoder = decoder_of(model)
    decoder.forward = torch.autocast(model.device.type, torch.bfloat16)(decoder.forward)


def _weights_to_store(
    model: nn.Module, weights: Mapping[str, Tensor], dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights to store, each once: a tied head is not stored in addition to the embeddings."""
    everywhere = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    tied = everywhere - {name for name, _ in model.named_parameters()}
    return {name: weight.to(dtype) for name, weight in weights.items() if name not in tied}


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise ModelError(f"{folder}: the model folder does not exist")
    if (folder / "adapter_config.json").is_file():
        raise ModelError(
            f"{folder}: this is an adapter: name the folder that it lies in, which has the merged"
            " weights, or merge it into its base model with peft"
        )
    for name in ("config.json", *_TOKENIZER):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: not a Hugging Face model directory: {name} is missing")


def _check_weights(
    folder: Path, missing_keys: set[str], mismatched_keys: set[tuple[str, Any, Any]], **_: Any
) -> None:
    """Raise ModelError for missing or misshapen weights: transformers only warns and fills them
    with random numbers."""
    for name in sorted(missing_keys):
        raise ModelError(f"{folder}: the weights lack {name} (and {len(missing_keys) - 1} more)")
    for name, found, expected in sorted(mismatched_keys):
        shapes = f"has the shape {list(found)}, but config.json requires {list(expected)}"
        raise ModelError(f"{folder}: the weight {name} {shapes}")


@contextmanager
def quiet() -> Iterator[None]:
    """In this block transformers draws no progress bars and prints no warnings; this module makes
    the same checks itself."""
    before = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _set_dtype(path: Path, dtype: torch.dtype) -> None:
    """Correct the dtype in a config.json: transformers writes the type of the model object, not
    that of the stored weights."""
    config = msgspec.json.decode(path.read_bytes())
    config["dtype"] = str(dtype).removeprefix("torch.")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")

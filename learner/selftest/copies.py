"""A small copy of a model, made from its config: the same code and shapes of attention with random
weights, two layers of each kind, and limits so small that a short row reaches them.

A window of 4,096 tokens and a soft cap of 50 change nothing in a row of forty tokens with small
scores. The copy's window is 7 tokens, its soft caps are 2, its matrices keep the variance of their
inputs, and no bias or scale is exactly 0 or 1.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from rehearsal_room.learner.model.pretrained import quiet

VOCAB = 128
FIRST_TOKEN = 8  # tokens below may be special, such as padding
WINDOW = 7
_SOFTCAP = 2.0
_WIDTH = 256  # of the layers between hidden states
_EXPERTS = 8
_LAYERS_OF_A_KIND = 2
_NOISE = 0.1

_WINDOWS = re.compile(r"(^|_)(sliding_window|window_size|attention_chunk_size)(_size)?$")
_SOFTCAPS = re.compile(r"soft_?cap")
_WIDTHS = re.compile(r"^(moe_|shared_expert_|dense_|ffn_)?(intermediate|hidden)_size(_mlp)?$")
_EXPERT_COUNTS = re.compile(
    r"^(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)$"
)
_TOP_K = re.compile(
    r"^(num_experts_per_tok|num_experts_per_token|experts_per_token|moe_k|moe_topk)$"
)
# Layers of one kind recur with this distance, or end at this number.
_PERIODS = re.compile(r"(_interval|_period|_freq|_step|_every.*|_pattern|^first_k_dense_replace)$")
_Fields = dict[str, Any]


def copy_of(config: PreTrainedConfig, *, seed: int = 0) -> PreTrainedModel:
    """The small copy, in float32 on the CPU. It is the same in every process.

    Raises what transformers raises for a config that it cannot make a model of.
    """
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        try:
            model = _model(_reduced(config, is_narrow=True))
        except Exception:  # widths that depend on each other
            model = _model(_reduced(config, is_narrow=False))
        _draw_weights(model)
    return model


def _model(config: PreTrainedConfig) -> PreTrainedModel:
    make: Any = AutoModelForCausalLM.from_config
    model: PreTrainedModel = make(config, dtype=torch.float32)
    return model


def _reduced(config: PreTrainedConfig, *, is_narrow: bool) -> PreTrainedConfig:
    fields = deepcopy(config.to_dict())
    for name in config.sub_configs:
        part = getattr(config, name)
        if isinstance(part, PreTrainedConfig):
            _reduce(fields[name], part.attribute_map, is_narrow=is_narrow)
    _reduce(fields, config.attribute_map, is_narrow=is_narrow)
    return type(config).from_dict(fields)


def _reduce(fields: _Fields, aliases: Mapping[str, str], *, is_narrow: bool) -> None:
    """Reduce the fields of a config in place; `aliases` has the family's names, such as `n_layer`
    for num_hidden_layers."""
    _take_layers(fields, aliases.get("num_hidden_layers", "num_hidden_layers"))
    for name, value in fields.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            continue
        if name == "vocab_size":
            fields[name] = min(value, VOCAB)
        elif name.endswith("_token_id") and value >= VOCAB:
            fields[name] = 0
        elif _WINDOWS.search(name):
            fields[name] = min(value, WINDOW)
        elif _SOFTCAPS.search(name):
            fields[name] = min(float(value), _SOFTCAP)
        elif _EXPERT_COUNTS.search(name):
            fields[name] = min(value, _EXPERTS)
        elif _TOP_K.search(name) or name in ("n_group", "topk_group"):
            fields[name] = min(value, 2)
        elif is_narrow and name != "hidden_size" and _WIDTHS.search(name):
            fields[name] = min(value, _WIDTH)
    for name in ("eos_token_id", "bos_token_id"):  # some are lists
        if isinstance(fields.get(name), list):
            fields[name] = 0


def _take_layers(fields: _Fields, count: str) -> None:
    """Take two layers of each kind; what the config says layer by layer is shortened alike.

    Example: layer_types [window, window, window, full] * 6 -> [window, window, full, full]
        and moe_layers [0, 1, 2, 23] -> [0, 1, 3], where 23 was the second full layer
    """
    num = fields.get(count)
    if not isinstance(num, int) or num < 2:
        return
    lists = {name: value for name, value in fields.items() if isinstance(value, list)}
    by_layer = {name: value for name, value in lists.items() if len(value) == num}
    by_index = {name: value for name, value in lists.items() if _has_indices(value, num)}
    for name in by_index:
        by_layer[name] = [index in lists[name] for index in range(num)]
    by_number = {name: value for name, value in fields.items() if _has_numbers(value, num)}
    for name, value in by_number.items():
        of_layer = {int(key): one for key, one in value.items()}
        by_layer[name] = [of_layer.get(index) for index in range(num)]
    periods = [v for k, v in fields.items() if _PERIODS.search(k) and isinstance(v, int) and v > 1]
    if by_layer:
        chosen = list(_two_of_each([str(kind) for kind in zip(*by_layer.values(), strict=True)]))
    else:
        chosen = list(range(min(num, _LAYERS_OF_A_KIND * max(periods, default=1))))
    fields[count] = len(chosen)
    for name, values in by_layer.items():
        taken = [values[index] for index in chosen]
        if name in by_index:
            fields[name] = [number for number, has in enumerate(taken) if has]
        elif name in by_number:
            fields[name] = {n: one for n, one in enumerate(taken) if one is not None}
        else:
            fields[name] = taken


def _has_indices(values: list[Any], num: int) -> bool:
    """Whether a list has the numbers of some layers, as in [1, 3, 5]."""
    if not values or not all(type(value) is int and 0 <= value < num for value in values):
        return False
    return sorted(set(values)) == values


def _two_of_each(kinds: list[str]) -> Iterator[int]:
    for index, kind in enumerate(kinds):
        if kinds[:index].count(kind) < _LAYERS_OF_A_KIND:
            yield index


def _has_numbers(values: Any, num: int) -> bool:
    """Whether a table is by the number of some layers, as in {"5": {...}, "11": {...}}."""
    if not isinstance(values, dict) or not values:
        return False
    keys = [str(key) for key in values]
    is_table = all(isinstance(value, dict) for value in values.values())
    return is_table and all(key.isdigit() and int(key) < num for key in keys)


@torch.no_grad()
def _draw_weights(model: PreTrainedModel) -> None:
    """Matrices keep the variance of their inputs; vectors get noise, so that none is without
    effect."""
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
        else:
            weight.add_(torch.randn_like(weight), alpha=_NOISE)

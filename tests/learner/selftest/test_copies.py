"""The copies of the self-test are small, and have every kind of layer."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig

from rehearsal_room.learner.model.pretrained import quiet
from rehearsal_room.learner.selftest.copies import copy_of
from tests.support.families import config_of

# The fields of a copy of the family's default config, of which the first has 32 layers of one kind.
KINDS: dict[str, dict[str, Any]] = {
    "llama": {"num_hidden_layers": 2},
    "gemma2": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 7,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 2.0,
    },
    "gemma3_text": {"layer_types": ["sliding_attention"] * 2 + ["full_attention"] * 2},
    "gpt_oss": {"num_hidden_layers": 4, "num_local_experts": 8, "sliding_window": 7},
    "gemma4_text": {"layer_types": ["sliding_attention"] * 2 + ["full_attention"] * 2},
    "qwen3_next": {"layer_types": ["linear_attention"] * 2 + ["full_attention"] * 2},
    "deepseek_v3": {"num_hidden_layers": 6, "n_routed_experts": 8},
    "llama4_text": {"num_hidden_layers": 4, "moe_layers": [0, 1, 2, 3]},
    "lfm2": {"num_hidden_layers": 2},
    "gpt2": {"n_layer": 2, "n_embd": 768},
}


@pytest.mark.parametrize("model_type", KINDS)
def test_a_copy_has_two_layers_of_each_kind(model_type: str) -> None:
    """The copy of a large model has two layers of each kind and small limits, and keeps the hidden
    size; nothing of its size is allocated here."""
    with quiet():
        config = AutoConfig.for_model(model_type)
    with torch.device("meta"):
        copy = copy_of(config)
    found = copy.config.to_dict()
    expected = KINDS[model_type]
    assert {name: found[name] for name in expected} == expected
    assert copy.config.hidden_size == config.hidden_size
    assert sum(weight.numel() for weight in copy.parameters()) < 1.5e9


def test_no_vector_is_without_effect() -> None:
    """Scales and biases, which start at one and zero, have noise in a copy; matrices keep the
    variance of their inputs. Two copies are the same."""
    config = config_of("GPT-2")
    weights = dict(copy_of(config).named_parameters())
    again = dict(copy_of(config).named_parameters())
    for name, weight in weights.items():
        assert weight.std() > 0.005, name
        assert torch.equal(weight, again[name]), name

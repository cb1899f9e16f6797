"""Tiny configurations of families of causal language models, with the features that set a family
apart: sliding windows, soft caps, sinks, scaled heads, experts, recurrent layers.

A configuration is made of transformers' default for the family, `_TINY`, and its own changes.
"""

from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from rehearsal_room.learner.model.pretrained import quiet, without_noise

_TINY: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}
_MLA = {  # multi-head latent attention
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "qk_head_dim": 12,
    "v_head_dim": 8,
    "head_dim": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_LINEAR = {
    "layer_types": ["linear_attention", "full_attention"] * 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
_MULTIPLIERS = {  # far from 1, so that a forgotten one shows
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.5,
    "residual_multiplier": 0.7,
    "logits_scaling": 8.0,
}
_MAMBA = {
    "mamba_chunk_size": 8,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_ssm": 64,
    "mamba_d_state": 8,
}
_WINDOWS = {
    "use_sliding_window": True,
    "sliding_window": 12,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0, 1.2, 1.5, 2.0],
    "long_factor": [1.0, 2.0, 4.0, 8.0],
    "original_max_position_embeddings": 64,
}

# Name in the table: the family's `model_type`, and its changes.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Apertus": ("apertus", {}),
    "Arcee": ("arcee", {}),
    "BLOOM": ("bloom", {}),
    "Cohere": ("cohere", {}),
    "Cohere 2": ("cohere2", {"sliding_window": 12}),
    "CWM": ("cwm", {}),
    "DeepSeek V2": ("deepseek_v2", _MLA),
    "DeepSeek V3": ("deepseek_v3", {**_MLA, "first_k_dense_replace": 1}),
    "DiffLlama": ("diffllama", {}),
    "Doge": ("doge", {}),
    "Ernie 4.5": ("ernie4_5", {}),
    "Exaone 4": ("exaone4", {"sliding_window": 12}),
    "Falcon": ("falcon", {}),
    "Falcon-H1": ("falcon_h1", _MAMBA),
    "Falcon-Mamba": ("falcon_mamba", {}),
    "Gemma": ("gemma", {}),
    "Gemma 2": ("gemma2", {"sliding_window": 12, "query_pre_attn_scalar": 16}),
    "Gemma 3": ("gemma3_text", {"sliding_window": 12, "query_pre_attn_scalar": 16}),
    "GLM": ("glm", {}),
    "GLM 4": ("glm4", {}),
    "GLM 4 MoE": ("glm4_moe", {"n_routed_experts": 4, "num_experts_per_tok": 2}),
    "GPT-2": ("gpt2", {}),
    "GPT-BigCode": ("gpt_bigcode", {}),
    "GPT-J": ("gptj", {"rotary_dim": 4}),
    "GPT-NeoX": ("gpt_neox", {}),
    "gpt-oss": ("gpt_oss", {**_LOCAL_EXPERTS, "sliding_window": 12}),
    "Granite": ("granite", _MULTIPLIERS),
    "GraniteMoE": ("granitemoe", {**_MULTIPLIERS, **_LOCAL_EXPERTS}),
    "Helium": ("helium", {}),
    "Jamba": ("jamba", {"attn_layer_period": 2, "attn_layer_offset": 1, **_EXPERTS}),
    "LFM2": ("lfm2", {"layer_types": ["conv", "full_attention"] * 2}),
    "Llama": ("llama", {}),
    "Llama 4": ("llama4_text", _LOCAL_EXPERTS),
    "Mamba": ("mamba", {}),
    "MiniMax": ("minimax", _LOCAL_EXPERTS),
    "MiniMax M2": ("minimax_m2", _LOCAL_EXPERTS),
    "Mistral": ("mistral", {"sliding_window": 12}),
    "Mixtral": ("mixtral", {**_LOCAL_EXPERTS, "router_jitter_noise": 0.1}),
    "MPT": ("mpt", {}),
    "Nemotron": ("nemotron", {}),
    "OLMo": ("olmo", {}),
    "OLMo 2": ("olmo2", {}),
    "OLMo 3": ("olmo3", {"sliding_window": 12}),
    "OLMoE": ("olmoe", _EXPERTS),
    "OPT": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "Phi": ("phi", {}),
    "Phi-3": ("phi3", {}),
    "Phi-3 (longrope)": (
        "phi3",
        {"rope_parameters": _LONGROPE, "original_max_position_embeddings": 64},
    ),
    "PhiMoE": ("phimoe", {**_LOCAL_EXPERTS, "router_jitter_noise": 0.1}),
    "Qwen2": ("qwen2", {}),
    "Qwen2-MoE": ("qwen2_moe", _EXPERTS),
    "Qwen3": ("qwen3", {}),
    "Qwen3 (windows)": ("qwen3", _WINDOWS),
    "Qwen3-MoE": ("qwen3_moe", _EXPERTS),
    "Qwen3-Next": ("qwen3_next", {**_LINEAR, **_EXPERTS}),
    "Qwen3.5": ("qwen3_5_text", _LINEAR),
    "RecurrentGemma": ("recurrent_gemma", {}),
    "Seed-OSS": ("seed_oss", {}),
    "SmolLM3": ("smollm3", {}),
    "StableLM": ("stablelm", {}),
    "StarCoder2": ("starcoder2", {"sliding_window": 12}),
}


def config_of(name: str) -> PreTrainedConfig:
    """The tiny configuration of a family in the table."""
    model_type, changes = FAMILIES[name]
    with quiet():
        config = AutoConfig.for_model(model_type)
        fields = config.to_dict()
        layers = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
        num = fields[layers]
        for key, value in _TINY.items():
            key = config.attribute_map.get(key, key)
            if fields.get(key) is not None:
                fields[key] = value
        for key, value in fields.items():
            if isinstance(value, list) and len(value) == num:
                fields[key] = value[: _TINY["num_hidden_layers"]]
        fields |= {"num_key_value_heads": 2} if "num_key_value_heads" in fields else {}
        fields |= {config.attribute_map.get(key, key): value for key, value in changes.items()}
        return without_noise(type(config).from_dict(fields))

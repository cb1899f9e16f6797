"""A small Qwen3 with random weights, initialized so that it can copy.

An agent with tools copies: names of tools, ids, values. Models learn to copy with two attention
heads in sequence: one attends to the previous token, and one finds an earlier position of the
current token (induction heads, arXiv:2209.11895). From random weights this pair appears after about
ten million tokens, which two cores cannot compute in the available time. Therefore a few heads
start as what they would become; everything else starts at random, and everything is trained.

    layer 1, head 1    attends to the previous position and stores its token
    layer 1, last      attends to the position two before and stores its token
    layer 2, head 1    attends after an earlier position with the current token: `ord` -> `er`
    layer 2, last      attends two after an earlier position with the token before the current one:
                       in `{"order":` for the token that followed in `order 52`
    layer 3, head 1    attends two after an earlier position with the token that layer 2 found:
                       `oslo` of `rome/oslo` where that is `rome`; only in a model that `follows`

The residual stream of H numbers starts as these parts:

    token    the rest    the token itself: random numbers
    before   head_dim    the same for the previous token
    second   head_dim    the same for the token two before
    next     head_dim    the result of the heads of layer 2, read by the output layer
    after    head_dim    the result of the head of layer 3, read by the output layer
    constant 1           the same for every token, so that a head can attend by position alone
"""

import math
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

from rehearsal_room.demo.tokenizer import END, PAD, save

_CONSTANT = 4.0  # value of the constant part; the token's part has variance 1
_CERTAINTY = 0.4  # weight of the output layer for what the heads of layer 2 found
_SHARPNESS = 2.0  # the weights of the query and key norms of all heads
_NEAR = 3  # rotation planes that distinguish a position from its neighbours
_SLOW = 0.004  # radians per token; planes that turn slower hardly depend on the distance


class ModelSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size of the model."""

    hidden: int = 160
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32  # vLLM's minimum
    context: int = 2048
    follows: bool = False  # a head starts as one that finds what follows in a list


def write_start(folder: Path, tokenizer: Tokenizer, size: ModelSize, *, seed: int) -> int:
    """Write model and tokenizer as a Hugging Face directory; returns the number of weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(_config(tokenizer, size))
        start_copying(model, follows=size.follows)
    save(tokenizer, folder)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return num_weights(folder)


def num_weights(folder: Path) -> int:
    """The number of weights in a Hugging Face directory with one weights file."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        names = list(weights.keys())
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in names)


def _config(tokenizer: Tokenizer, size: ModelSize) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=size.hidden,
        intermediate_size=3 * size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_dim,
        max_position_embeddings=size.context,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=False,
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id(PAD),
        bos_token_id=None,
    )


@torch.no_grad()
def start_copying(model: Qwen3ForCausalLM, *, follows: bool = False) -> None:
    """Initialize heads so that the model can copy (see the module's docstring)."""
    config = model.config
    parts = _ResidualParts(config.hidden_size, config.head_dim, follows=follows)
    embedding = model.model.embed_tokens.weight
    embedding.zero_()
    embedding[:, : parts.token] = torch.randn(len(embedding), parts.token)
    embedding[:, parts.constant] = _CONSTANT
    # Projects a token's part to the width of one head.
    code = torch.randn(config.head_dim, parts.token) / math.sqrt(parts.token)
    for layer in model.model.layers:
        layer.self_attn.q_norm.weight.fill_(_SHARPNESS)
        layer.self_attn.k_norm.weight.fill_(_SHARPNESS)
    frequencies: Tensor = model.model.rotary_emb.inv_freq  # [head_dim / 2], radians a token
    first, second = (layer.self_attn for layer in model.model.layers[:2])
    one = _Heads(first, frequencies, code)
    one.look_back(0, 1, constant=parts.constant, to=parts.before)
    one.look_back(-1, 2, constant=parts.constant, to=parts.second)
    two = _Heads(second, frequencies, code)
    two.look_for(0, 0, code, among=parts.before, to=parts.next)
    own = torch.eye(config.head_dim)
    two.look_for(-1, parts.before, own, among=parts.second, to=parts.next)
    pattern = embedding[:, : parts.token] @ code.T
    if follows:
        three = _Heads(model.model.layers[2].self_attn, frequencies, code)
        three.look_for(0, parts.next, own, among=parts.second, to=parts.after)
        model.lm_head.weight[:, parts.after : parts.before] += _CERTAINTY * pattern
    model.lm_head.weight[:, parts.next : parts.constant] += _CERTAINTY * pattern


class _ResidualParts:
    """The offsets of the parts of the residual stream."""

    def __init__(self, hidden: int, head: int, *, follows: bool) -> None:
        self.constant = hidden - 1
        self.next = self.constant - head
        self.second = self.next - head
        self.before = self.second - head
        self.after = self.before - head if follows else self.before
        self.token = self.after  # the token's part starts at 0; this is its width


class _Heads:
    """Writes the weights of the attention heads of one layer."""

    def __init__(self, attention: nn.Module, frequencies: Tensor, code: Tensor) -> None:
        self._attention: Any = attention
        self._frequencies = frequencies
        self._code = code  # [head_dim, width of the token's part]

    def look_back(self, head: int, distance: int, *, constant: int, to: int) -> None:
        """Make the head attend to the position `distance` before: its keys are its queries, rotated
        by that distance. It stores what it finds in the part at `to`."""
        half = len(self._frequencies)
        near = torch.arange(_NEAR)
        turns = distance * self._frequencies[near]
        query, key = torch.zeros(2 * half, 1), torch.zeros(2 * half, 1)
        query[near] = 1.0
        key[near, 0] = turns.cos()
        key[near + half, 0] = turns.sin()
        self._write(head, "q_proj", query, at=constant)
        self._write(head, "k_proj", key, at=constant)
        self._carry(head, to)

    def look_for(self, head: int, own: int, pattern: Tensor, *, among: int, to: int) -> None:
        """Make the head attend to positions whose part `among` equals the current position's part
        at `own`, projected by `pattern`. It stores what it finds in the part at `to`."""
        half = len(self._frequencies)
        slow = (self._frequencies < _SLOW).nonzero()[:, 0]
        planes = torch.cat([slow, slow + half])
        query, key = torch.zeros_like(pattern), torch.zeros(2 * half, 2 * half)
        query[planes] = pattern[: len(planes)]
        key[planes, torch.arange(len(planes))] = 1.0
        self._write(head, "q_proj", query, at=own)
        self._write(head, "k_proj", key, at=among)
        self._carry(head, to)

    def _carry(self, head: int, to: int) -> None:
        """Make the head copy the token's part of the attended position to the part at `to`."""
        self._write(head, "v_proj", self._code, at=0)
        width = len(self._code)
        output = self._attention.o_proj.weight
        begin = head % (output.shape[1] // width) * width
        output[:, begin : begin + width].zero_()
        output[to : to + width, begin : begin + width] = torch.eye(width)

    def _write(self, head: int, name: str, matrix: Tensor, *, at: int) -> None:
        """Make the head's queries, keys or values read the part at `at`. There are fewer heads of
        keys and values: the first or last head uses the first or last of them."""
        weight = getattr(self._attention, name).weight
        width = len(matrix)
        begin = head % (len(weight) // width) * width
        weight[begin : begin + width].zero_()
        weight[begin : begin + width, at : at + matrix.shape[1]] = matrix

"""A small Qwen3 from scratch, with a start that can copy.

An agent of tools copies: names of tools, ids, values. Models learn to by way of two attention heads
in a row, one that looks at the token before and one that finds where the present token stood before
(induction heads, arXiv:2209.11895). Out of random weights this pair appears after some ten million
tokens, which is more than two cores compute in the time that we have. So a few heads start as what
they would become; everything else starts at random, and everything is trained.

    layer 1, head 1    looks at the place before and notes its token
    layer 1, last      looks at the place two before and notes its token
    layer 2, head 1    looks behind an earlier place with the present token: `ord` -> `er`
    layer 2, last      looks two behind an earlier place with the token before the present one:
                       in `{"order":` for what stood in `order 52`

The residual stream of H numbers starts as five parts:

    token    the rest    what the token is: random numbers
    before   head_dim    the same of the token before
    second   head_dim    the same of the token two before
    next     head_dim    what the heads of layer 2 found, read by the output layer
    constant 1           the same for every token, so that a head can attend by place alone
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

from learner.demo.tokenizer import END, PAD, save

_CONSTANT = 4.0  # of the constant part; the token's part has variance 1
_CERTAINTY = 0.4  # of the output layer in what the second head found
_SHARPNESS = 2.0  # of all heads: the weights of their query and key norms
_NEAR = 3  # planes of rotation that tell a place from its neighbours
_SLOW = 0.004  # radians a token: planes that turn slower than this hardly see the distance


class ModelSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How large the model is."""

    hidden: int = 160
    layers: int = 3
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32  # the least that vLLM takes
    context: int = 2048


def write_start(folder: Path, tokenizer: Tokenizer, size: ModelSize, *, seed: int) -> int:
    """Write model and tokenizer as a Hugging Face directory; gives the number of weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(_config(tokenizer, size))
        start_copying(model)
    save(tokenizer, folder)
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return num_weights(folder)


def num_weights(folder: Path) -> int:
    """How many weights a Hugging Face directory of one file has."""
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
def start_copying(model: Qwen3ForCausalLM) -> None:
    """Give four heads their start (see above)."""
    config = model.config
    parts = _RunParts(config.hidden_size, config.head_dim)
    embedding = model.model.embed_tokens.weight
    embedding.zero_()
    embedding[:, : parts.token] = torch.randn(len(embedding), parts.token)
    embedding[:, parts.constant] = _CONSTANT
    # A token's part, said in one head's width.
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
    said = embedding[:, : parts.token] @ code.T
    model.lm_head.weight[:, parts.next : parts.constant] += _CERTAINTY * said


class _RunParts:
    """Where the parts of the residual stream begin."""

    def __init__(self, hidden: int, head: int) -> None:
        self.constant = hidden - 1
        self.next = self.constant - head
        self.second = self.next - head
        self.before = self.second - head
        self.token = self.before  # it begins at 0, and is so wide


class _Heads:
    """The attention heads of one layer, whose weights are written."""

    def __init__(self, attention: nn.Module, frequencies: Tensor, code: Tensor) -> None:
        self._attention: Any = attention
        self._frequencies = frequencies
        self._code = code  # [head_dim, width of the token's part]

    def look_back(self, head: int, distance: int, *, constant: int, to: int) -> None:
        """The head attends to the place so many before: its keys are its queries, turned as far.
        What it finds is noted in another part."""
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

    def look_for(self, head: int, own: int, said: Tensor, *, among: int, to: int) -> None:
        """The head attends to places whose part `among` says what the part at `own` says of the
        present place, in the words of `said`. What it finds is noted in another part."""
        half = len(self._frequencies)
        slow = (self._frequencies < _SLOW).nonzero()[:, 0]
        places = torch.cat([slow, slow + half])
        query, key = torch.zeros_like(said), torch.zeros(2 * half, 2 * half)
        query[places] = said[: len(places)]
        key[places, torch.arange(len(places))] = 1.0
        self._write(head, "q_proj", query, at=own)
        self._write(head, "k_proj", key, at=among)
        self._carry(head, to)

    def _carry(self, head: int, to: int) -> None:
        """The head takes the token's part of what it attends to, to another part."""
        self._write(head, "v_proj", self._code, at=0)
        width = len(self._code)
        output = self._attention.o_proj.weight
        begin = head % (output.shape[1] // width) * width
        output[:, begin : begin + width].zero_()
        output[to : to + width, begin : begin + width] = torch.eye(width)

    def _write(self, head: int, name: str, matrix: Tensor, *, at: int) -> None:
        """Have the head's queries, keys or values be read from the part at `at`. A first or last
        head reads by the first or last of keys and values, which fewer heads share."""
        weight = getattr(self._attention, name).weight
        width = len(matrix)
        begin = head % (len(weight) // width) * width
        weight[begin : begin + width].zero_()
        weight[begin : begin + width, at : at + matrix.shape[1]] = matrix

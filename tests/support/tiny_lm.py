"""A small language model with the architecture of Qwen3, in any precision.

transformers' own RMSNorm and rotary embedding compute in float32 for every model type, which hides
errors below 1e-7. This model always computes in the type of its weights. It has the attributes of a
transformers model that the learner uses.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

ATTENTIONS = AttentionInterface()


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotated(x_1HND: Tensor, positions_N: Tensor) -> Tensor:
    """Rotary position embedding, base 10,000."""
    half = x_1HND.shape[-1] // 2
    steps = torch.arange(half, dtype=x_1HND.dtype) / half
    angles_ND = positions_N[:, None].to(x_1HND.dtype) * 10_000.0**-steps
    first, second = x_1HND[..., :half], x_1HND[..., half:]
    cos, sin = angles_ND.cos(), angles_ND.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def stock(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: None, **kwargs: Any) -> Any:
    """Causal attention, written out."""
    k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
    scores = q @ k.transpose(2, 3) * kwargs["scaling"]
    later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    return (scores.masked_fill(later, -torch.inf).softmax(-1) @ v).transpose(1, 2), None


class Attention(nn.Module):
    """Attention of H heads over G heads of keys and values, queries and keys normalised."""

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__()
        self.config, self.layer_idx, self.size = config, layer_idx, config.head_dim
        self.q = nn.Linear(config.hidden, config.heads * self.size, bias=False)
        self.k = nn.Linear(config.hidden, config.kv_heads * self.size, bias=False)
        self.v = nn.Linear(config.hidden, config.kv_heads * self.size, bias=False)
        self.o = nn.Linear(config.heads * self.size, config.hidden, bias=False)
        self.q_norm, self.k_norm = Norm(self.size), Norm(self.size)

    def forward(self, x: Tensor, positions_N: Tensor, **kwargs: Any) -> Tensor:
        q, k, v = (
            linear(x).view(1, x.shape[1], -1, self.size).transpose(1, 2)
            for linear in (self.q, self.k, self.v)
        )
        q, k = rotated(self.q_norm(q), positions_N), rotated(self.k_norm(k), positions_N)
        attend = ATTENTIONS.get(self.config._attn_implementation, stock)
        out, _ = attend(self, q, k, v, None, scaling=self.size**-0.5, **kwargs)
        return self.o(out.reshape(1, x.shape[1], -1))


class Layer(nn.Module):
    """Attention and a gated MLP."""

    def __init__(self, config: Any, number: int) -> None:
        super().__init__()
        self.attention = Attention(config, number)
        self.before, self.between = Norm(config.hidden), Norm(config.hidden)
        self.gate = nn.Linear(config.hidden, config.inner, bias=False)
        self.up = nn.Linear(config.hidden, config.inner, bias=False)
        self.down = nn.Linear(config.inner, config.hidden, bias=False)

    def forward(self, x: Tensor, positions_N: Tensor, **kwargs: Any) -> Tensor:
        x = x + self.attention(self.before(x), positions_N, **kwargs)
        y = self.between(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """From tokens to the last hidden states."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab, config.hidden)
        self.layers = nn.ModuleList(Layer(config, number) for number in range(config.layers))
        self.norm = Norm(config.hidden)
        self.checkpointing = False

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, use_cache: bool, **kwargs: Any
    ) -> SimpleNamespace:
        x = self.embed(input_ids)
        for layer in self.layers:
            if self.checkpointing:
                x = checkpoint(layer, x, position_ids[0], use_reentrant=False, **kwargs)
            else:
                x = layer(x, position_ids[0], **kwargs)
        return SimpleNamespace(last_hidden_state=self.norm(x))


class TinyLM(nn.Module):
    """The model: decoder and head."""

    def __init__(
        self,
        *,
        vocab: int = 23,
        hidden: int = 16,
        layers: int = 2,
        heads: int = 4,
        kv_heads: int = 2,
        head_dim: int = 8,
        inner: int = 24,
        seed: int = 0,
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.config = SimpleNamespace(
            vocab=vocab,
            hidden=hidden,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            inner=inner,
            _attn_implementation="stock",
        )
        self.decoder = Decoder(self.config)
        self.head = nn.Linear(hidden, vocab, bias=False)

    def get_decoder(self) -> nn.Module:
        return self.decoder

    def get_output_embeddings(self) -> nn.Module:
        return self.head

    def forward(
        self,
        input_ids: Tensor | None,
        logits_to_keep: Tensor | slice = slice(None),
        **kwargs: Any,
    ) -> SimpleNamespace:
        positions = None if input_ids is None else torch.arange(input_ids.shape[1])[None]
        hidden = self.decoder(input_ids, positions, **kwargs).last_hidden_state
        return SimpleNamespace(logits=self.head(hidden[:, logits_to_keep]))

"""Up to which length the rotation of a position is the same in every row.

`longrope` (arXiv:2402.13753) and dynamic NTK scaling rotate all positions of a row by its length:
when a row grows beyond a limit, its first tokens get other keys. Such a row shares no prefix with a
shorter one, and its reply, sampled token by token, is not what the whole row gives.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

from rehearsal_room.learner.core.errors import ModelError


def check_length(model: nn.Module, num_tokens: int) -> None:
    """Raises ModelError for a row of that many tokens if the model rotates it in another way than
    its beginning."""
    for kind, limit in _limits(model.config):
        if num_tokens > limit:
            raise ModelError(
                f"{type(model).__name__}: a row has {num_tokens:,} tokens, but beyond {limit:,}"
                f" rope {kind!r} changes all positions of a row: keep windows and replies shorter"
                " (history, max_tokens), or train rows one by one (compute.backend = 'naive') on"
                " what policy 'vllm' sampled"
            )


def _limits(config: Any) -> Iterator[tuple[str, int]]:
    """The kinds of rotation that depend on the row's length, and the length up to which they do
    not."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    rotations = getattr(text, "rope_parameters", None) or {}
    by_layer_type = [part for part in rotations.values() if isinstance(part, dict)]
    for rotation in by_layer_type or [rotations]:
        kind = rotation.get("rope_type", "default")
        if kind == "longrope" or "dynamic" in kind:
            longest = text.max_position_embeddings
            yield kind, rotation.get("original_max_position_embeddings", longest)

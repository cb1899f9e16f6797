"""What the trained model can take: its token ids, and samples as long as its context."""

from collections.abc import Collection, Iterable
from typing import Any, Literal

import msgspec
import numpy as np
from torch import nn

from rehearsal_room.learner.core.samples import Rollout, Sample


class TokenLimits(msgspec.Struct, frozen=True):
    """The limits of a model, and its special tokens; None: not known, and not checked."""

    vocab: int | None = None  # number of its token ids
    context: int | None = None  # tokens of prompt and reply together
    control: frozenset[int] = frozenset()  # ids of special tokens

    @classmethod
    def of(cls, model: nn.Module, control: Iterable[int] = ()) -> "TokenLimits":
        """The limits of a transformers model, with the ids of its special tokens."""
        return cls.of_config(model.config, control)

    @classmethod
    def of_config(cls, config: Any, control: Iterable[int] = ()) -> "TokenLimits":
        """The same from the model's configuration."""
        config = config.get_text_config()
        context = getattr(config, "max_position_embeddings", None)
        is_known = isinstance(context, int) and context > 0
        return cls(config.vocab_size, context if is_known else None, frozenset(control))


def within(rollout: Rollout, context: int | None, too_long: Literal["leave_out", "cut"]) -> Rollout:
    """The episode without what lies beyond the context; `too_long` counts its replies that do.

    Example: prompt [1 2 3], tokens [4 5], context 4 -> "cut": tokens [4]; "leave_out": no sample
    """
    if context is None or all(length_of(sample) <= context for sample in rollout.samples):
        return rollout
    kept = []
    for sample in rollout.samples:
        room = len(sample.tokens) - max(0, length_of(sample) - context)
        if room == len(sample.tokens):
            kept.append(sample)
        elif too_long == "cut" and room > 0:
            tokens, logprobs = sample.tokens[:room], sample.logprobs[:room]
            kept.append(msgspec.structs.replace(sample, tokens=tokens, logprobs=logprobs))
    count = sum(length_of(sample) > context for sample in rollout.samples)
    return msgspec.structs.replace(rollout, samples=tuple(kept), too_long=count)


def control_tokens(rollout: Rollout, control: Collection[int]) -> int:
    """The special tokens inside of an episode's replies: all that were sampled but the last of each
    reply, which ends it."""
    if not control:
        return 0
    ids = np.fromiter(control, np.int32)
    return sum(int(np.isin(sample.tokens[:-1], ids).sum()) for sample in rollout.samples)


def length_of(sample: Sample) -> int:
    """The tokens of a sample's prompt and reply."""
    return len(sample.head) + len(sample.tail) + len(sample.tokens)

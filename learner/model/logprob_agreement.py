"""Whether sampler and trainer agree: the same log-probabilities for the same tokens.

A policy gradient weighs sampled tokens by the trainer's probability of them. If sampler and trainer
compute different things (another template, stale weights, a wrong mask), learning goes wrong
without any error.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from rehearsal_room.learner.core.samples import Sample

MAX_DIFFERENCE = 1e-4  # nats; in float32 they agree ten times better than this


def logprob_difference(model: PreTrainedModel, samples: Iterable[Sample]) -> float:
    """The largest absolute difference, over all sampled tokens, between the sampler's
    log-probability and the one that the model computes for the whole row at once, in nats.

    The samples must have been sampled at temperature 1 (or 0) and top_p 1. Without samples it is 0.
    """
    return max((_difference(model, sample) for sample in samples), default=0.0)


@torch.inference_mode()
def _difference(model: PreTrainedModel, sample: Sample) -> float:
    computed = teacher_forced(model, sample)
    sampled = torch.from_numpy(np.array(sample.logprobs, np.float32)).to(computed.device)
    return float((computed - sampled).abs().max())


def teacher_forced(model: PreTrainedModel, sample: Sample) -> Tensor:
    """The log-probabilities of a sample's tokens `[T]`, with the model's stock attention."""
    row = np.concatenate((sample.prompt, sample.tokens)).astype(np.int64)
    row_1L = torch.from_numpy(row)[None].to(model.device)
    num = len(sample.tokens)
    logits_TV: Tensor = model(row_1L, use_cache=False, logits_to_keep=num + 1).logits[0, :-1]
    logprobs_TV = torch.log_softmax(logits_TV.float(), -1)
    return logprobs_TV.gather(1, row_1L[0, -num:, None])[:, 0]

"""Whether sampler and trainer agree: the same tokens, the same log-probabilities.

A policy gradient weighs what was sampled by how likely the trainer finds it. Where both compute
something else (another template, stale weights, a wrong mask), learning goes wrong without a sound.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from learner.core.samples import Sample

BOUND = 1e-4  # nats; in float32 agreement is better than this by a factor of ten


def agreement(model: PreTrainedModel, samples: Iterable[Sample]) -> float:
    """The largest difference, over all sampled tokens, between the log-probability that the sampler
    gave and the one that the model computes over the whole row at once, in nats.

    The samples must be sampled at temperature 1 (or 0) and top_p 1. Without any it is 0.
    """
    return max((_difference(model, sample) for sample in samples), default=0.0)


@torch.inference_mode()
def _difference(model: PreTrainedModel, sample: Sample) -> float:
    computed = teacher_forced(model, sample)
    given = torch.from_numpy(np.array(sample.logprobs, np.float32)).to(computed.device)
    return float((computed - given).abs().max())


def teacher_forced(model: PreTrainedModel, sample: Sample) -> Tensor:
    """The log-probabilities of a sample's tokens `[T]`, by the model's stock attention."""
    row = np.concatenate((sample.prompt, sample.tokens)).astype(np.int64)
    row_1L = torch.from_numpy(row)[None].to(model.device)
    num = len(sample.tokens)
    logits_TV: Tensor = model(row_1L, use_cache=False, logits_to_keep=num + 1).logits[0, :-1]
    logprobs_TV = torch.log_softmax(logits_TV.float(), -1)
    return logprobs_TV.gather(1, row_1L[0, -num:, None])[:, 0]

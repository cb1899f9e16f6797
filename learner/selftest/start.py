"""The self-tests of a training run, at its start and at every resume."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import anyio.to_thread
import numpy as np
import structlog
import torch

from rehearsal_room.harness.policies.token_agent import TokenBackend
from rehearsal_room.learner.config.runs import TrainingRunSettings
from rehearsal_room.learner.config.settings import ComputeSettings, TrainSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.model.plain_rows import PromptAndReply, plain_logprobs
from rehearsal_room.learner.model.pretrained import device_of, open_config, open_plain
from rehearsal_room.learner.selftest.comparison import relative_difference
from rehearsal_room.learner.selftest.copies import FIRST_TOKEN
from rehearsal_room.learner.selftest.family_test import (
    BOUND,
    NOISE_FACTOR,
    FamilyReport,
    check_family,
)

_PREFIX = 24  # tokens that all prompts share
_PROMPTS = 4
_REPLY = 16  # tokens


class SamplesTokens(Protocol):
    """A policy that samples after prompts that the caller made."""

    def backend(self) -> TokenBackend:
        """The sampler."""


_log = structlog.get_logger(__name__)


def check_start(settings: TrainSettings, runs: TrainingRunSettings) -> FamilyReport:
    """Test the family of the run's model with the run's back end, and with the sampling engine if a
    policy of the run is `local`. Raises ModelError, and ConfigError for a missing device."""
    policies = {runs.evaluation.policy.name} if runs.evaluation is not None else set()
    if settings.data.is_live:
        policies.add(runs.rollouts.policy.name)
    config = open_config(Path(settings.model))
    report = check_family(config, settings.compute, sampler="local" in policies)
    _log.info(
        "self_test",
        family=report.family,
        backend=settings.compute.backend,
        difference=report.backend.largest,
        sampler=report.sampler,
        bfloat16=None if report.low is None else report.low.largest,
        seconds=round(report.seconds, 2),
    )
    return report


async def check_server(policy: SamplesTokens, folder: Path, compute: ComputeSettings) -> float:
    """Compare the log-probabilities of a model server with the plain forward of its weights, which
    the folder has. Raises ModelError and PolicyError."""
    config = open_config(folder).get_text_config()
    replies, logprobs = await sampled_replies(policy.backend(), config.vocab_size)
    return await anyio.to_thread.run_sync(check_logprobs, folder, compute, replies, logprobs)


async def sampled_replies(
    backend: TokenBackend, vocab: int
) -> tuple[list[PromptAndReply], torch.Tensor]:
    """A few short replies of a sampler to random prompts, and its log-probabilities `[N]` of them.
    Raises PolicyError."""
    chance = np.random.default_rng(0)
    prefix = chance.integers(FIRST_TOKEN, vocab, _PREFIX).tolist()
    replies: list[PromptAndReply] = []
    logprobs: list[float] = []
    for number in range(_PROMPTS):
        prompt = [*prefix, *chance.integers(FIRST_TOKEN, vocab, 2 + 3 * number).tolist()]
        reply = await backend.generate(
            prompt, max_tokens=_REPLY, temperature=1.0, top_p=1.0, seed=number
        )
        replies.append((prompt, list(reply.token_ids)))
        logprobs += reply.logprobs
    return replies, torch.tensor(logprobs)


def check_logprobs(
    folder: Path,
    compute: ComputeSettings,
    replies: Sequence[PromptAndReply],
    logprobs: torch.Tensor,
) -> float:
    """Compare a model server's log-probabilities of its replies with the plain forward of the
    weights that it has, those in the folder. Returns the relative difference.

    The server has other kernels and may compute in bfloat16. It may differ by `NOISE_FACTOR` times
    what plain forwards differ by: row by row, as one batch, and in bfloat16. Raises ModelError.
    """
    device = device_of(compute)
    model = open_plain(folder, torch.float32, device)
    alone, together = (plain_logprobs(model, replies, together=one) for one in (False, True))
    del model
    low = plain_logprobs(open_plain(folder, torch.bfloat16, device), replies, together=True)
    noise = max(relative_difference(other, alone) for other in (together, low))
    bound = max(BOUND, NOISE_FACTOR * noise)
    apart = relative_difference(logprobs, alone)
    _log.info("self_test_of_the_server", difference=apart, bound=bound, tokens=len(logprobs))
    if not apart <= bound:
        raise ModelError(
            f"{folder}: policy 'vllm' does not give the log-probabilities of these weights: they"
            f" differ by {apart:.2g}, the bound is {bound:.2g}. Does the server have other weights,"
            " an adapter, a quantization, or a processor of logits? Policy 'local' needs no server"
        )
    return apart

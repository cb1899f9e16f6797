"""Policies that play with the weights that are trained."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.config import Settings
from harness.policies.base import OpenPolicy
from harness.policies.token_agent import Sampling
from harness.policies.vllm import VllmPolicy
from harness.policies.vllm_client import VLLM_URL, VllmSettings
from learner.local_policy import local_policy
from learner.publishing import TakesWeights
from learner.settings import TrainSettings


class Player(OpenPolicy, TakesWeights, Protocol):
    """A policy that plays with the weights that are trained."""


def player_of(train: TrainSettings) -> Callable[[Settings], Player]:
    """Makes the policies of a training run's rollouts and evaluations: `local`, or `vllm`, whose
    server runs already and was started with the same model."""

    def made(settings: Settings) -> Player:
        switch = train.loop.switch
        if settings.policy == "local":
            return local_policy(settings, switch=switch, compute=train.compute)
        server = VllmSettings(
            folder=str(Path(train.model)),
            base_url=settings.base_url or VLLM_URL,
            timeout_s=settings.request_timeout,
            max_attempts=settings.max_attempts,
            concurrency=settings.concurrency,
        )
        sampling = Sampling(
            1.0 if settings.temperature is None else settings.temperature,
            1.0 if settings.top_p is None else settings.top_p,
            settings.max_tokens,
            settings.seed,
        )
        return VllmPolicy(server, sampling, switch=switch)

    return made

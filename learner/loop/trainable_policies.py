"""Policies that sample with the weights that are trained."""

from collections.abc import Callable
from typing import Protocol

from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.token_policies import vllm
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.inference.local_policy import local_policy
from rehearsal_room.learner.trainer.weight_publisher import TakesWeights


class TrainablePolicy(OpenPolicy, TakesWeights, Protocol):
    """A policy whose weights can be replaced by the trained ones."""


def policy_of(train: TrainSettings) -> Callable[[Settings], TrainablePolicy]:
    """A function that makes the policies of a training run's rollouts and evaluations: `local`, or
    `vllm`, whose server is already running with the model that the run starts with."""

    def make(settings: Settings) -> TrainablePolicy:
        switch = train.loop.switch
        if settings.policy.name == "vllm":
            return vllm(settings, switch=switch, adapters=train.lora.rank > 0)
        return local_policy(settings, switch=switch, compute=train.compute)

    return make

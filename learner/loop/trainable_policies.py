"""Policies that play with the weights that are trained."""

from collections.abc import Callable
from typing import Protocol

from harness.policies.base import OpenPolicy
from harness.rollout.token_policies import vllm
from harness.settings.run import Settings
from learner.config.settings import TrainSettings
from learner.inference.local_policy import local_policy
from learner.trainer.weight_publisher import TakesWeights


class Player(OpenPolicy, TakesWeights, Protocol):
    """A policy that plays with the weights that are trained."""


def player_of(train: TrainSettings) -> Callable[[Settings], Player]:
    """Makes the policies of a training run's rollouts and evaluations: `local`, or `vllm`, whose
    server runs already and was started with the model that the run begins with."""

    def made(settings: Settings) -> Player:
        switch = train.loop.switch
        if settings.policy.name == "vllm":
            return vllm(settings, switch=switch)
        return local_policy(settings, switch=switch, compute=train.compute)

    return made

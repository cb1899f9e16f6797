"""The policies of the settings that need a tokenizer (extra `tokens`)."""

from pathlib import Path
from typing import Literal

from harness.policies.base import Policy
from harness.policies.token_agent import Sampling
from harness.policies.tokenized import TokenisedPolicy
from harness.settings.run import Settings
from harness.tokenization.chat_tokenizer import ChatTokenizer
from harness.vllm.client import VLLM_URL, VllmSettings
from harness.vllm.policy import VllmPolicy


def sampling_of(settings: Settings) -> Sampling:
    """How tokens are drawn; where the settings name nothing, as the model has them."""
    return Sampling(
        1.0 if settings.temperature is None else settings.temperature,
        1.0 if settings.top_p is None else settings.top_p,
        settings.max_tokens,
        settings.seed,
    )


def vllm(settings: Settings, *, switch: Literal["episode", "step"] = "step") -> VllmPolicy:
    """Policy `vllm`; `switch` says when agents go over to new weights. Raises SettingsError."""
    server = VllmSettings(
        settings.model,
        settings.base_url or VLLM_URL,
        timeout_s=settings.request_timeout,
        max_attempts=settings.max_attempts,
        concurrency=settings.concurrency,
    )
    return VllmPolicy(server, sampling_of(settings), switch=switch)


def tokenised(policy: Policy, folder: Path) -> Policy:
    """The policy, its replies with the tokens of a model. Raises SettingsError."""
    return TokenisedPolicy(policy, ChatTokenizer.open(folder))

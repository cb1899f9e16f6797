"""Policies that need a tokenizer (extra `tokens`), made from the settings of a run."""

from pathlib import Path
from typing import Literal

from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.policies.token_agent import Sampling
from rehearsal_room.harness.policies.tokenized import TokenizedPolicy
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.harness.vllm.client import VLLM_URL, VllmSettings
from rehearsal_room.harness.vllm.policy import VllmPolicy


def sampling_of(settings: Settings) -> Sampling:
    """How tokens are drawn; what the settings leave open is the model's own distribution."""
    model = settings.model
    return Sampling(
        1.0 if model.temperature is None else model.temperature,
        1.0 if model.top_p is None else model.top_p,
        model.max_tokens,
        settings.seed,
    )


def vllm(
    settings: Settings, *, switch: Literal["episode", "step"] = "step", adapters: bool = False
) -> VllmPolicy:
    """Policy `vllm`; `switch` sets when agents take new weights, which are `adapters` of those that
    the server has, or whole models. Raises SettingsError."""
    server = VllmSettings(
        settings.model.name,
        settings.model.base_url or VLLM_URL,
        timeout_s=settings.model.request_timeout,
        max_attempts=settings.model.max_attempts,
        concurrency=settings.max_concurrency,
        max_connection_failures=settings.model.max_connection_failures,
        answers=settings.model.answers,
    )
    policy = VllmPolicy(server, sampling_of(settings), switch=switch, adapters=adapters)
    check_template(policy.chat, dialect_of(settings.dialect_name), model=settings.model.name)
    return policy


def tokenize(policy: Policy, folder: Path, dialect: Dialect) -> Policy:
    """The policy, with its replies encoded in the tokens of a model. Raises SettingsError."""
    chat = ChatTokenizer.open(folder)
    check_template(chat, dialect, model=str(folder))
    return TokenizedPolicy(policy, chat)

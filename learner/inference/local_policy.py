"""Policy `local`: a transformers model in process, for machines without a model server.

It takes new weights while episodes run. Each reply is marked with the version that sampled it, and
one version samples it from the first token to the last. With switch = "episode" an agent keeps the
weights with which it started; with "step" its next reply uses the newest weights.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import anyio
import anyio.to_thread
import msgspec

from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.token_agent import (
    GeneratedTokens,
    Sampling,
    TokenAgent,
    TokenBackend,
)
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.token_policies import sampling_of
from rehearsal_room.harness.tokenization.chat_template import read_config
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.tokenization.template_check import check_template
from rehearsal_room.learner.config.settings import ComputeSettings
from rehearsal_room.learner.core.errors import ModelError
from rehearsal_room.learner.inference.engine import Engine, SamplingRequest
from rehearsal_room.learner.inference.engine_thread import EngineThread
from rehearsal_room.learner.model.pretrained import open_model

FIRST_VERSION = "v0"  # the version of weights without a model card


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of policy `local`."""

    model: str  # a Hugging Face directory
    sampling: Sampling = Sampling()
    switch: Literal["episode", "step"] = "episode"  # when agents switch to new weights
    max_live: int = 128  # requests that are computed together
    cache_mb: int = 256  # for the keys and values of finished sequences, per version
    compute: ComputeSettings = ComputeSettings()  # device and dtype


class _Weights(NamedTuple):
    """One version of the weights, which lives as long as an agent or a request refers to it."""

    version: str
    folder: Path
    engine: Engine


class LocalPolicy(anyio.AsyncContextManagerMixin):
    """The policy. An async context manager that owns the model and the thread in which it runs.

    Raises SettingsError for a folder that cannot be used.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._folder = Path(settings.model)
        self.chat = ChatTokenizer.open(self._folder)
        self.context = _context(self._folder)  # the model's context length in tokens
        self._thread = EngineThread()
        self._newest: _Weights | None = None  # None: the block was not entered yet
        self._counts = dict.fromkeys(("requests", "prompt_tokens", "cached_tokens"), 0.0)
        self._counts |= {"completion_tokens": 0.0, "versions": 0.0}

    @property
    def name(self) -> str:
        """The policy and the name of the model's folder, as in `local:start`."""
        return f"local:{self._folder.resolve().name}"

    @property
    def version(self) -> str:
        """The version of the newest weights."""
        return self._newest_weights().version

    def agent(self, assignment: Assignment) -> TokenAgent:
        """An agent for one episode."""
        keeps_weights = self._settings.switch == "episode"
        return TokenAgent(
            _WeightsBackend(self, self._newest_weights() if keeps_weights else None),
            self.chat,
            self._settings.sampling,
            context=self.context,
            episode_seed=assignment.seed,
            kept=assignment.kept,
        )

    def backend(self) -> TokenBackend:
        """A backend that samples with the newest weights, for callers that render prompts
        themselves."""
        return _WeightsBackend(self, None)

    def statistics(self) -> dict[str, float]:
        """Counts since the start: requests, prompt_tokens, cached_tokens (among these),
        completion_tokens, versions (of weights that were loaded)."""
        return dict(self._counts)

    async def take(self, version: str, folder: Path) -> None:
        """Sample with these weights from now on, as `switch` defines.

        Raises ModelError when the folder's model cannot be opened; the policy then keeps its
        current weights.
        """
        newest = self._newest
        if newest is not None and newest.folder == folder:
            engine = newest.engine  # the same weights under another name
        else:
            engine = await anyio.to_thread.run_sync(self._open_engine, folder)
        self._newest = _Weights(version, folder, engine)
        self._counts["versions"] += 1

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        card = read_card(self._folder)
        try:
            await self.take(card.version if card else FIRST_VERSION, self._folder)
        except ModelError as exc:
            raise SettingsError(f"model: {exc}") from exc
        async with self._thread:
            yield self

    async def sample(self, weights: _Weights | None, request: SamplingRequest) -> GeneratedTokens:
        """Sample a request with these weights (None: the newest).

        Raises PolicyError for broken weights.
        """
        used = weights or self._newest_weights()
        try:
            await self._thread.sample(used.engine, request)
        except ModelError as exc:
            raise PolicyError(f"{used.folder}: {exc}") from exc
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += len(request.prompt)
        self._counts["cached_tokens"] += request.cached
        self._counts["completion_tokens"] += len(request.tokens)
        return request.generated(finish=used.engine.finish_of(request), weights=used.version)

    def _newest_weights(self) -> _Weights:
        assert self._newest is not None, "the policy is used outside of its async with block"
        return self._newest

    def _open_engine(self, folder: Path) -> Engine:
        settings = self._settings
        model = open_model(folder, settings.compute)
        table: Any = model.get_input_embeddings()
        if table.num_embeddings < self.chat.vocabulary_size:
            raise ModelError(
                f"{folder}: the model has {table.num_embeddings:,} tokens, but the tokenizer of"
                f" {self._folder} has {self.chat.vocabulary_size:,}"
            )
        return Engine(
            model,
            end_ids=self.chat.end_ids,
            max_live=settings.max_live,
            cache_bytes=settings.cache_mb * 2**20,
        )


class _WeightsBackend:
    """A backend that samples with one version. `weights` None: each request uses the newest."""

    __slots__ = ("_policy", "_weights")

    def __init__(self, policy: LocalPolicy, weights: _Weights | None) -> None:
        self._policy = policy
        self._weights = weights

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample after the prompt."""
        request = SamplingRequest(
            prompt_ids, max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed
        )
        return await self._policy.sample(self._weights, request)


def local_policy(
    settings: Settings,
    *,
    switch: Literal["episode", "step"] = "episode",
    compute: ComputeSettings | None = None,
) -> LocalPolicy:
    """The policy `local` of a run's settings. Without settings of sampling, tokens are drawn at
    temperature 1 and top_p 1. Raises SettingsError."""
    compute = compute or ComputeSettings()
    policy = LocalPolicy(
        LocalSettings(settings.model.name, sampling_of(settings), switch, compute=compute)
    )
    check_template(policy.chat, dialect_of(settings.dialect), model=settings.model.name)
    return policy


def _context(folder: Path) -> int:
    """The model's context length in tokens. Raises SettingsError."""
    length = read_config(folder / "config.json").get("max_position_embeddings")
    if not isinstance(length, int):
        raise SettingsError(f"{folder / 'config.json'}: max_position_embeddings is missing")
    return length

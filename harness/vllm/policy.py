"""The policy of a model on a vLLM server, by token ids; all episodes of a run share it.

Promises:
- A reply has the exact tokens of its prompt and of itself, its log-probabilities under the
  distribution that was sampled from, and the version of the weights that sampled it.
- The version is right as long as no other process loads new weights into the server: while they are
  loaded, no request of this process is in flight, or (pause `keep`) its reply has the version with
  which it began.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Self

import anyio

from rehearsal_room.harness.chat.request_metrics import RequestObserver
from rehearsal_room.harness.chat.transport import ModelTransport
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.policy_card import read_card
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.token_agent import (
    GeneratedTokens,
    Sampling,
    TokenAgent,
    TokenBackend,
)
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from rehearsal_room.harness.vllm.client import VllmClient, VllmSettings
from rehearsal_room.harness.vllm.weight_gate import AgentSlot, gate_of
from rehearsal_room.harness.vllm.weight_sync import PauseMode, VllmWeights

_NO_LABEL = "default"  # vLLM's label of the weights that it was started with
_FIRST = "v0"  # the version of those weights, where they have no model card


class VllmPolicy(anyio.AsyncContextManagerMixin):
    """The policy. An async context manager that owns its connections.

    `switch` determines when agents change to new weights. A server has only one set of weights, so
    `episode` waits until the live episodes have ended, while new ones wait to begin; `step` waits
    only for requests in flight, or with the pause `keep` not even for those. With `adapters` the
    versions are adapters of the server's own weights. Raises as VllmClient does.
    """

    def __init__(
        self,
        settings: VllmSettings,
        sampling: Sampling,
        *,
        switch: Literal["episode", "step"] = "step",
        pause: PauseMode = "wait",
        adapters: bool = False,
        transport: ModelTransport | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.folder = Path(settings.folder)
        self._sampling = sampling
        self._switch = switch
        self.chat = ChatTokenizer.open(self.folder)
        self._client = VllmClient(
            settings,
            list(self.chat.end_ids),
            weights=lambda: self.version,
            adapter=lambda: self.weights.adapter,
            transport=transport,
            environment=environment,
        )
        self._gate = gate_of(self._client.routes, pause, base=self.folder if adapters else None)

    @property
    def name(self) -> str:
        """The name in logs, as in `vllm:qwen3-4b`."""
        return f"vllm:{self.folder.absolute().name}"

    @property
    def version(self) -> str:
        """The version of the weights that the server has now."""
        return self._gate.version

    @property
    def weights(self) -> VllmWeights:
        """The server's weights; loading through them waits for no request."""
        return self._gate.weights

    def agent(self, assignment: Assignment) -> TokenAgent:
        """An agent for one episode."""
        return TokenAgent(
            _AgentBackend(self),
            self.chat,
            self._sampling,
            context=self._client.context,
            episode_seed=assignment.seed,
            kept=assignment.kept,
        )

    def backend(self) -> TokenBackend:
        """The server as a backend; its requests do not wait for new weights."""
        return self._client

    @property
    def base_url(self) -> str:
        """The URL of the server's API."""
        return self._client.base_url

    def observe(self, observer: RequestObserver) -> None:
        """Let an observer see every attempt from now on."""
        self._client.observe(observer)

    def wrap_transport(self, wrap: Callable[[ModelTransport], ModelTransport]) -> None:
        """Send all requests through what `wrap` makes of the transport; before it is open."""
        self._client.wrap_transport(wrap)

    def statistics(self) -> dict[str, float]:
        """Counts since the start, the same as those of policy `openai`."""
        return self._client.statistics()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            with self._gate.open(self.version or await self._label()):
                yield self

    async def take(self, version: str, folder: Path) -> None:
        """Load the weights of a directory for all later replies; requests wait meanwhile. Raises
        SettingsError and PolicyError, see VllmWeights.take."""
        await self._gate.take(version, folder)

    async def generate_for(
        self,
        slot: AgentSlot,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample for an agent, once the weights that it must use are loaded. Raises PolicyError."""
        async with self._gate.pass_through(slot, stays=self._switch == "episode"):
            generated = await self._client.generate(
                prompt_ids,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                seed=seed,
            )
            if generated.attempts > 1:  # the server may have been restarted
                await self._gate.require_same()
        return generated

    async def _label(self) -> str:
        """The version of the server's weights; without a label, that of the folder."""
        try:
            label = await self.weights.version()
        except SettingsError:  # it cannot load new weights, and reports no label
            label = _NO_LABEL
        if label != _NO_LABEL:
            return label
        card = read_card(self.folder)
        return _FIRST if card is None else card.version


class _AgentBackend(AgentSlot):
    """The backend of one agent, and its slot at the server."""

    def __init__(self, policy: VllmPolicy) -> None:
        self._policy = policy

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample a continuation of a prompt. Raises PolicyError."""
        return await self._policy.generate_for(
            self,
            prompt_ids,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
        )

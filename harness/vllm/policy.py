"""A model behind a vLLM server, asked in tokens, shared by all episodes of a run.

Promises:
- A reply bears the exact tokens that were shown and sampled, their log-probabilities under the
  distribution that they were drawn from, and the version of the weights that drew them.
- The version is right as long as no other process gives the server new weights: while it takes
  them, no request of ours is on the way, or (pause `keep`) it bears the version that it began with.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from harness.chat.transport import Transport
from harness.core.errors import SettingsError
from harness.core.policy_card import read_card
from harness.policies.base import Assignment
from harness.policies.token_agent import Generated, Sampling, TokenAgent, TokenBackend
from harness.tokenization.chat_tokenizer import ChatTokenizer
from harness.vllm.client import VllmClient, VllmSettings
from harness.vllm.weight_gate import Seat, gate_of
from harness.vllm.weight_sync import Pause, VllmWeights

_UNLABELLED = "default"  # vLLM's label of the weights that it was started with
_FIRST = "v0"  # ours of them, where they have no card


class VllmPolicy:
    """The policy. An async context manager that owns its connections.

    `switch` says when agents go over to new weights. A server has one set of them, so `episode`
    waits until the live episodes have ended, while new ones wait to begin; `step` waits only for
    requests in flight, or with the pause `keep` not even for those. Raises as VllmClient does.
    """

    def __init__(
        self,
        settings: VllmSettings,
        sampling: Sampling,
        *,
        switch: Literal["episode", "step"] = "step",
        pause: Pause = "wait",
        transport: Transport | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.folder = Path(settings.folder)
        self._sampling = sampling
        self._switch = switch
        self._chat = ChatTokenizer.open(self.folder)
        self._client = VllmClient(
            settings,
            list(self._chat.end_ids),
            weights=lambda: self.version,
            transport=transport,
            environment=environment,
        )
        self._gate = gate_of(self._client.routes, pause)

    @property
    def name(self) -> str:
        """As in `vllm:qwen3-4b`."""
        return f"vllm:{self.folder.absolute().name}"

    @property
    def version(self) -> str:
        """Of the weights that answer now."""
        return self._gate.version

    @property
    def weights(self) -> VllmWeights:
        """The server's, which no requests are waited for with."""
        return self._gate.weights

    def agent(self, assignment: Assignment) -> TokenAgent:
        """An agent for one episode."""
        return TokenAgent(
            _AgentSeat(self),
            self._chat,
            self._sampling,
            context=self._client.context,
            episode_seed=assignment.seed,
        )

    def backend(self) -> TokenBackend:
        """The server itself, which no new weights are waited for with."""
        return self._client

    def statistics(self) -> dict[str, float]:
        """Counts since the start, as those of policy `openai`."""
        return self._client.statistics()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        try:
            self._gate.opened(self.version or await self._label())
        except BaseException:
            await self._client.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate.closed()
        await self._client.__aexit__(kind, exc, trace)

    async def take(self, version: str, folder: Path) -> None:
        """Have all later replies come from the weights of a directory; their requests wait
        meanwhile. Raises SettingsError and PolicyError, see VllmWeights.take."""
        await self._gate.take(version, folder)

    async def generate_for(
        self,
        seat: Seat,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> Generated:
        """Sample for an agent, after the new weights are taken that it is to use, if any. Raises
        PolicyError."""
        async with self._gate.passed(seat, stays=self._switch == "episode"):
            generated = await self._client.generate(
                prompt_ids,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                seed=seed,
            )
            if generated.attempts > 1:  # it may have been away
                await self._gate.require_same()
        return generated

    async def _label(self) -> str:
        """The version of the server's weights; of those that do not say it, the first."""
        try:
            label = await self.weights.version()
        except SettingsError:  # it takes no new weights, and tells no label
            label = _UNLABELLED
        if label != _UNLABELLED:
            return label
        card = read_card(self.folder)
        return _FIRST if card is None else card.version


class _AgentSeat(Seat):
    """One agent's backend."""

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
    ) -> Generated:
        """Sample behind a prompt. Raises PolicyError."""
        return await self._policy.generate_for(
            self,
            prompt_ids,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
        )

"""Policy `local`: a transformers model in process, for machines without a model server.

New weights are taken while it plays. Replies are stamped with the version that sampled them, and
each is sampled by one version from its first token to its last. With `switch = "episode"` an agent
keeps the weights that it began with; with `"step"` its next reply is by the newest.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import anyio.to_thread
import msgspec

from harness.core.errors import PolicyError, SettingsError
from harness.core.policy_card import read_card
from harness.policies.base import Assignment
from harness.policies.token_agent import Generated, Sampling, TokenAgent, TokenBackend
from harness.rollout.token_policies import sampling_of
from harness.settings.run import Settings
from harness.tokenization.chat_template import read_config
from harness.tokenization.chat_tokenizer import ChatTokenizer
from learner.config.settings import ComputeSettings
from learner.core.errors import ModelError
from learner.inference.engine import Engine, Request
from learner.inference.engine_thread import EngineRoom
from learner.model.pretrained import open_model

FIRST = "v0"  # the version of weights that do not say which they are


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the model is run."""

    model: str  # a Hugging Face directory
    sampling: Sampling = Sampling()
    switch: Literal["episode", "step"] = "episode"  # when agents take new weights
    max_live: int = 128  # requests that are computed side by side
    cache_mb: int = 256  # for prompts that may come again, of each version
    compute: ComputeSettings = ComputeSettings()  # device and dtype


class _Weights(NamedTuple):
    """One version, which lives as long as an agent or a request has it."""

    version: str
    folder: Path
    engine: Engine


class LocalPolicy:
    """The policy. An async context manager that owns the model and the thread it runs in.

    Raises SettingsError for a folder that cannot be used.
    """

    def __init__(self, settings: LocalSettings) -> None:
        self._settings = settings
        self._folder = Path(settings.model)
        self.chat = ChatTokenizer.open(self._folder)
        self.context = _context(self._folder)  # tokens that the model takes
        self._room = EngineRoom()
        self._newest: _Weights | None = None  # None: not entered yet
        self._counts = dict.fromkeys(("requests", "prompt_tokens", "cached_tokens"), 0.0)
        self._counts |= {"completion_tokens": 0.0, "versions": 0.0}

    @property
    def name(self) -> str:
        """As in `local:start`: the name of the model's folder."""
        return f"local:{self._folder.resolve().name}"

    @property
    def version(self) -> str:
        """Of the newest weights."""
        return self._present().version

    def agent(self, assignment: Assignment) -> TokenAgent:
        """An agent for one episode."""
        player = _Player(self, self._present() if self._settings.switch == "episode" else None)
        return TokenAgent(
            player,
            self.chat,
            self._settings.sampling,
            context=self.context,
            episode_seed=assignment.seed,
        )

    def backend(self) -> TokenBackend:
        """Samples by the newest weights, for those who render windows themselves."""
        return _Player(self, None)

    def statistics(self) -> dict[str, float]:
        """Counts since the start: requests, prompt_tokens, cached_tokens (of the prompts'),
        completion_tokens, versions (of weights that were taken)."""
        return dict(self._counts)

    async def take(self, version: str, folder: Path) -> None:
        """Sample with these weights from now on, as `switch` says.

        Raises ModelError where the folder's model cannot be opened: the weights stay as they are.
        """
        newest = self._newest
        if newest is not None and newest.folder == folder:
            engine = newest.engine  # the same weights under another name
        else:
            engine = await anyio.to_thread.run_sync(self._opened, folder)
        self._newest = _Weights(version, folder, engine)
        self._counts["versions"] += 1

    async def __aenter__(self) -> Self:
        card = read_card(self._folder)
        try:
            await self.take(card.version if card else FIRST, self._folder)
        except ModelError as exc:
            raise SettingsError(f"model: {exc}") from exc
        await self._room.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._room.__aexit__(kind, exc, trace)

    async def sampled(self, weights: _Weights | None, request: Request) -> Generated:
        """What these weights (None: the newest) sample for a request.

        Raises PolicyError where the weights are broken.
        """
        used = weights or self._present()
        try:
            await self._room.sample(used.engine, request)
        except ModelError as exc:
            raise PolicyError(f"{used.folder}: {exc}") from exc
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += len(request.prompt)
        self._counts["cached_tokens"] += request.cached
        self._counts["completion_tokens"] += len(request.tokens)
        return request.generated(finish=used.engine.finish_of(request), weights=used.version)

    def _present(self) -> _Weights:
        assert self._newest is not None, "the policy is used outside of its block"
        return self._newest

    def _opened(self, folder: Path) -> Engine:
        settings = self._settings
        model = open_model(folder, settings.compute)
        table: Any = model.get_input_embeddings()
        if table.num_embeddings < self.chat.vocabulary_size:
            raise ModelError(
                f"{folder}: its model knows {table.num_embeddings:,} tokens and the tokenizer of"
                f" {self._folder} has {self.chat.vocabulary_size:,}"
            )
        return Engine(
            model,
            end_ids=self.chat.end_ids,
            max_live=settings.max_live,
            cache_bytes=settings.cache_mb * 2**20,
        )


class _Player:
    """The backend of one agent. `weights` None: with the newest at every request."""

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
    ) -> Generated:
        """Sample behind the prompt."""
        request = Request(
            prompt_ids, max_tokens=max_tokens, temperature=temperature, top_p=top_p, seed=seed
        )
        return await self._policy.sampled(self._weights, request)


def local_policy(
    settings: Settings,
    *,
    switch: Literal["episode", "step"] = "episode",
    compute: ComputeSettings | None = None,
) -> LocalPolicy:
    """The policy of a run's settings; where they name no sampling, tokens are drawn as the model
    has them. Raises SettingsError."""
    compute = compute or ComputeSettings()
    return LocalPolicy(
        LocalSettings(settings.model, sampling_of(settings), switch, compute=compute)
    )


def _context(folder: Path) -> int:
    """How many tokens the model takes. Raises SettingsError."""
    told = read_config(folder / "config.json").get("max_position_embeddings")
    if not isinstance(told, int):
        raise SettingsError(f"{folder / 'config.json'}: it has no max_position_embeddings")
    return told

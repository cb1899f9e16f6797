"""The client of one vLLM server: prompts and completions are token ids.

Failed requests are sent again, a rate limit delays its own request only, a server that is gone
raises ModelOutageError, and error messages have the form of those of policy `openai`.
"""

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Self

import anyio
import msgspec

from rehearsal_room.harness.chat.answer_limits import AnswerLimits
from rehearsal_room.harness.chat.client import ChatClient, transport_of
from rehearsal_room.harness.chat.request_metrics import RequestObserver
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff
from rehearsal_room.harness.chat.transport import Endpoint, ModelTransport
from rehearsal_room.harness.core.errors import PolicyError, SettingsError
from rehearsal_room.harness.core.messages import Usage
from rehearsal_room.harness.model_servers.descriptors import connections_at_most
from rehearsal_room.harness.policies.openai import check_url, header_value, policy_error
from rehearsal_room.harness.policies.token_agent import GeneratedTokens
from rehearsal_room.harness.vllm.routes import RequestRefusedError, ServedModel, VllmRoutes
from rehearsal_room.harness.vllm.wire import CompletionRequest, read_tokens, request_body

VLLM_URL = "http://127.0.0.1:8000/v1"


class VllmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server, and the limits of the requests to it."""

    folder: str  # the Hugging Face directory that the server was started with
    base_url: str = VLLM_URL
    api_key: str | None = None  # None: VLLM_API_KEY of the environment, else none
    timeout_s: float = 120.0  # of one attempt
    max_attempts: int = 8
    first_wait_s: float = 0.5  # longest wait before the second attempt; it doubles from there
    longest_wait_s: float = 60.0  # longest wait, unless the server asks for a longer one
    concurrency: int = 1024  # maximum of requests in flight
    max_connection_failures: int | None = None  # in a row, before ModelOutageError; None: no limit
    answers: AnswerLimits = AnswerLimits()


class VllmClient(anyio.AsyncContextManagerMixin):
    """The client, a TokenBackend. An async context manager that owns its connections.

    Raises SettingsError for settings, and on entry for servers, that cannot be used; PolicyError
    where the server cannot be reached. `end_ids` end a reply; `weights` is called when a request is
    sent and returns the version of the weights that is stamped on its reply; `adapter` returns the
    name of the server's adapter that computes it, or nothing.
    """

    def __init__(
        self,
        settings: VllmSettings,
        end_ids: Sequence[int],
        *,
        weights: Callable[[], str] = lambda: "",
        adapter: Callable[[], str] = lambda: "",
        transport: ModelTransport | None = None,
        environment: Mapping[str, str] = os.environ,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        check_url(settings.base_url)
        most = connections_at_most(settings.concurrency)
        settings = msgspec.structs.replace(settings, concurrency=most)
        self._settings = settings
        self._end_ids = sorted(end_ids)
        self._weights = weights
        self._adapter = adapter
        self._api_key = header_value("api_key", settings.api_key or environment.get("VLLM_API_KEY"))
        self._client = ChatClient(
            transport or transport_of("lean", _endpoint(settings, self._api_key)),
            Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
            rng=rng or Random(),
            now=now,
            concurrency=settings.concurrency,
            name=f"model {settings.folder!r} at {settings.base_url}",
            max_connection_failures=settings.max_connection_failures,
        )
        self.routes = VllmRoutes(settings.base_url, api_key=self._api_key)
        self._model = ServedModel("", 0)

    @property
    def context(self) -> int:
        """The limit of tokens in prompt and reply together; known once the client is open."""
        return self._model.max_tokens

    @property
    def base_url(self) -> str:
        """The URL of the server's API."""
        return self._settings.base_url

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
            self._model = choose_model(await self.routes.models(), self._settings)
            await self._require_not_paused()
            await self._require_whole_prompts()
            await self._require_processed_logprobs()
            yield self

    async def generate(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> GeneratedTokens:
        """Sample a continuation of a prompt. Raises PolicyError and ModelOutageError."""
        request = CompletionRequest(
            model=self._adapter() or self._model.name,
            prompt=prompt_ids,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            stop_token_ids=self._end_ids,
        )
        return await self._complete(request)

    async def _complete(self, request: CompletionRequest) -> GeneratedTokens:
        body = request_body(request)
        attempt = 1
        while True:
            outcome = await self._attempt(request, body, attempt)
            if isinstance(outcome, GeneratedTokens):
                self._client.count(Usage(len(request.prompt), len(outcome.token_ids)))
                return outcome
            if not await self._client.wait_to_retry(outcome, attempt):
                raise self._error(outcome, attempt)
            attempt += 1

    async def _attempt(
        self, request: CompletionRequest, body: bytes, attempt: int
    ) -> GeneratedTokens | AttemptFailure:
        weights = self._weights()
        content = await self._client.post(body, attempt)
        if isinstance(content, AttemptFailure):
            return content
        return read_tokens(content, len(request.prompt), attempts=attempt, weights=weights)

    def _error(self, failure: AttemptFailure, attempt: int) -> PolicyError:
        url, secret = self._settings.base_url, self._api_key
        return policy_error(failure, attempt, model=self._model.name, url=url, secret=secret)

    async def _require_not_paused(self) -> None:
        """Check that requests would not wait for ever. Raises SettingsError."""
        if await self.routes.is_paused():
            raise SettingsError(
                f"base_url: the vLLM server at {self._settings.base_url} is paused; a run that is"
                " killed while it loads new weights leaves it paused: restart the server, or try"
                " again if another run is loading weights now"
            )

    async def _require_whole_prompts(self) -> None:
        """Check that a seeded request does not crash the server, if the server reports how it
        computes. Raises SettingsError."""
        try:
            workers = await self.routes.workers()
        except RequestRefusedError:
            return
        if workers.device == "cpu" and workers.in_chunks:
            raise SettingsError(
                f"base_url: the vLLM server at {self._settings.base_url} runs on a CPU, where vLLM"
                " 0.32 crashes when the prompt of a seeded request is computed in chunks: start it"
                f" with --no-enable-chunked-prefill --max-num-batched-tokens {self.context}"
            )

    async def _require_processed_logprobs(self) -> None:
        """Check that log-probabilities are those of the distribution that is sampled from: for the
        only allowed token it is 0. Two tokens are tried, since a model may be certain of one.

        Raises SettingsError.
        """
        for token in (0, 1):
            sampled = await self._complete(
                CompletionRequest(self._model.name, [token], 1, 1.0, 1.0, 0, (), [token])
            )
            if abs(sampled.logprobs[0]) > 1e-3:
                raise SettingsError(
                    f"base_url: the vLLM server at {self._settings.base_url} reports raw"
                    " log-probabilities, not those of the distribution that it samples from: start"
                    " it with --logprobs-mode processed_logprobs"
                )


class _CompletionEndpoint(Endpoint, frozen=True):
    @property
    def url(self) -> str:
        return self.base_url + "/completions"


def _endpoint(settings: VllmSettings, api_key: str | None) -> Endpoint:
    base_url = settings.base_url.rstrip("/")
    return _CompletionEndpoint(
        base_url=base_url,
        api_key=api_key,
        organization=None,
        project=None,
        timeout_s=settings.timeout_s,
        concurrency=settings.concurrency,
        answers=settings.answers,
    )


def choose_model(models: Sequence[ServedModel], settings: VllmSettings) -> ServedModel:
    """The server's model; of several, the one with the name of the folder. Raises
    SettingsError."""
    folder = settings.folder
    named = [one for one in models if one.name in (folder, Path(folder).name)]
    if found := named or (models if len(models) == 1 else []):
        return found[0]
    names = ", ".join(one.name for one in models) or "nothing"
    raise SettingsError(f"base_url: {settings.base_url} serves {names}, not {folder}")

"""One vLLM server, asked for completions in tokens.

Failed requests are sent again, a rate limit pauses all askers at once, and errors are told as those
of policy `openai`.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import msgspec

from harness.chat.client import ChatClient, transport_of
from harness.chat.retry import Backoff, Failure
from harness.chat.transport import Endpoint, Transport
from harness.chat.wire import is_context_overflow
from harness.core.errors import ContextLengthError, PolicyError, SettingsError
from harness.core.messages import Usage
from harness.policies.openai import check_url, error_sentence
from harness.policies.token_agent import Generated
from harness.vllm.routes import Refused, Served, VllmRoutes
from harness.vllm.wire import CompletionRequest, read_tokens, request_body

VLLM_URL = "http://127.0.0.1:8000/v1"


class VllmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which server, and how patiently it is asked."""

    folder: str  # the Hugging Face directory that the server was started with
    base_url: str = VLLM_URL
    api_key: str | None = None  # None: VLLM_API_KEY, else none
    timeout_s: float = 120.0  # for one attempt
    max_attempts: int = 8
    first_wait_s: float = 0.5  # before the second attempt at most; it doubles from there
    longest_wait_s: float = 60.0  # where the server does not ask for a longer one
    concurrency: int = 1024  # requests in flight at once


class VllmClient:
    """The client, a TokenBackend. An async context manager that owns its connections.

    Raises SettingsError for settings, and on entry for servers, that cannot be used; PolicyError
    where the server cannot be reached. `end_ids` end a reply; `weights` says, when a request goes
    out, which version its reply bears.
    """

    def __init__(
        self,
        settings: VllmSettings,
        end_ids: Sequence[int],
        *,
        weights: Callable[[], str] = lambda: "",
        transport: Transport | None = None,
        environment: Mapping[str, str] = os.environ,
        rng: Random | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        check_url(settings.base_url)
        self._settings = settings
        self._end_ids = sorted(end_ids)
        self._weights = weights
        self._api_key = (settings.api_key or environment.get("VLLM_API_KEY", "")).strip() or None
        self._client = ChatClient(
            transport or transport_of("lean", _endpoint(settings, self._api_key)),
            Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
            rng=rng or Random(),
            now=now,
        )
        self.routes = VllmRoutes(settings.base_url, api_key=self._api_key)
        self._served = Served("", 0)

    @property
    def context(self) -> int:
        """Tokens that prompt and reply may have together; known once it is open."""
        return self._served.max_tokens

    def statistics(self) -> dict[str, float]:
        """Counts since the start, as those of policy `openai`."""
        return self._client.statistics()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        try:
            self._served = chosen(await self.routes.models(), self._settings)
            await self._require_running()
            await self._require_whole_prompts()
            await self._require_processed()
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
        await self._client.__aexit__(kind, exc, trace)

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
        request = CompletionRequest(
            model=self._served.name,
            prompt=prompt_ids,
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            stop_token_ids=self._end_ids,
        )
        return await self._answered(request)

    async def _answered(self, request: CompletionRequest) -> Generated:
        body = request_body(request)
        attempt = 1
        while True:
            outcome = await self._asked(request, body, attempt)
            if isinstance(outcome, Generated):
                self._client.count(Usage(len(request.prompt), len(outcome.token_ids)))
                return outcome
            if not await self._client.wait_to_retry(outcome, attempt):
                raise self._error(outcome, attempt)
            attempt += 1

    async def _asked(
        self, request: CompletionRequest, body: bytes, attempt: int
    ) -> Generated | Failure:
        weights = self._weights()
        answer = await self._client.post(body)
        if isinstance(answer, Failure):
            return answer
        return read_tokens(answer, len(request.prompt), attempts=attempt, weights=weights)

    def _error(self, failure: Failure, attempt: int) -> PolicyError:
        kind = ContextLengthError if is_context_overflow(failure) else PolicyError
        url, secret = self._settings.base_url, self._api_key
        return kind(
            error_sentence(failure, attempt, model=self._served.name, url=url, secret=secret)
        )

    async def _require_running(self) -> None:
        """See that requests would not wait for ever. Raises SettingsError."""
        if await self.routes.is_paused():
            raise SettingsError(
                f"base_url: the vLLM server at {self._settings.base_url} is paused, as a run leaves"
                " it that is killed while it gives it new weights: start it anew; where another run"
                " gives it weights now, try again"
            )

    async def _require_whole_prompts(self) -> None:
        """See that a seeded request does not end the server, as far as it tells what it is.

        Raises SettingsError.
        """
        try:
            workers = await self.routes.workers()
        except Refused:
            return
        if workers.device == "cpu" and workers.in_chunks:
            raise SettingsError(
                f"base_url: the vLLM server at {self._settings.base_url} runs on a CPU, where vLLM"
                " 0.32 ends when the prompt of a seeded request is computed in chunks: start it"
                f" with --no-enable-chunked-prefill --max-num-batched-tokens {self.context}"
            )

    async def _require_processed(self) -> None:
        """See that log-probabilities are those of what was sampled from: of a token that alone is
        allowed it is 0. Two are tried, since a model may be certain of one.

        Raises SettingsError.
        """
        for token in (0, 1):
            sampled = await self._answered(
                CompletionRequest(self._served.name, [token], 1, 1.0, 1.0, 0, (), [token])
            )
            if abs(sampled.logprobs[0]) > 1e-3:
                raise SettingsError(
                    f"base_url: the vLLM server at {self._settings.base_url} tells raw"
                    " log-probabilities, not those of what it samples from: start it with"
                    " --logprobs-mode processed_logprobs"
                )


class _CompletionEndpoint(Endpoint, frozen=True):
    @property
    def url(self) -> str:
        return self.base_url + "/completions"


def _endpoint(settings: VllmSettings, api_key: str | None) -> Endpoint:
    base_url = settings.base_url.rstrip("/")
    return _CompletionEndpoint(
        base_url, api_key, None, None, settings.timeout_s, settings.concurrency
    )


def chosen(models: Sequence[Served], settings: VllmSettings) -> Served:
    """The server's model: of several the one named as the folder is. Raises SettingsError."""
    folder = settings.folder
    named = [one for one in models if one.name in (folder, Path(folder).name)]
    if found := named or (models if len(models) == 1 else []):
        return found[0]
    names = ", ".join(one.name for one in models) or "nothing"
    raise SettingsError(f"base_url: {settings.base_url} serves {names}, not {folder}")

"""A model behind an OpenAI-compatible chat endpoint, shared by all episodes of a run.

Promises:
- Every request ends in a Reply or a PolicyError. The error names the model, the fault and the
  number of attempts, and never contains the API key.
- A rate limit delays the request that was refused, and no other (see harness.chat.client).
- A server that is gone raises ModelOutageError, which stops the run.
- A request that the server refuses for its form is sent in another one (see
  harness.chat.adaptive).
- A conversation that is too long for the model raises ContextLengthError, and a reply that the
  provider withholds ModelRefusedError.

Settings that are left out come from the environment, as in the openai package: OPENAI_API_KEY,
OPENAI_BASE_URL, OPENAI_ORG_ID, OPENAI_PROJECT_ID. OpenAI itself needs a key; other endpoints do
not.
"""

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.chat.adaptive import AdaptiveWriter
from rehearsal_room.harness.chat.answer_limits import AnswerLimits
from rehearsal_room.harness.chat.client import ChatClient, ClientName, transport_of
from rehearsal_room.harness.chat.preflight import (
    FoundServer,
    cause_of_answer,
    cause_of_rehearsal,
    find_server,
    listed_by,
    models_endpoint,
    require_model,
    shown_names,
)
from rehearsal_room.harness.chat.request_metrics import RequestObserver
from rehearsal_room.harness.chat.retry import (
    AttemptFailure,
    Backoff,
    is_context_overflow,
    is_retried,
    is_withheld,
)
from rehearsal_room.harness.chat.server_features import STREAMED, ServerFeatures
from rehearsal_room.harness.chat.transport import Endpoint, ModelTransport
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.errors import (
    ContextLengthError,
    ModelOutageError,
    ModelRefusedError,
    ModelServerError,
    PolicyError,
    SettingsError,
)
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.model_servers.descriptors import connections_at_most
from rehearsal_room.harness.model_servers.event_stream import StreamLimits
from rehearsal_room.harness.policies.base import Assignment
from rehearsal_room.harness.policies.rehearsal import Rehearsal

OPENAI_URL = "https://api.openai.com/v1"
LEARNED = "adapted "  # begins the statistics that are words of ServerFeatures
_HELLO = Window((Message("user", "Hello"),))
_SEEDS = 2**31  # the servers' seeds are 32-bit integers, some of them signed


class OpenAISettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model, its endpoint, and how it samples. Sampling fields that are None are not sent."""

    model: str
    base_url: str | None = None  # None: OPENAI_BASE_URL, else OpenAI itself
    api_key: str | None = None  # None: OPENAI_API_KEY, else no key
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None  # of one reply
    seed: int | None = None  # each episode's requests have a seed that follows from this one
    timeout_s: float = 120.0  # for one attempt
    max_attempts: int = 8
    first_wait_s: float = 0.5  # the longest wait before the second attempt; it doubles from there
    longest_wait_s: float = 60.0  # where the server does not ask for a longer one
    concurrency: int = 1024  # requests in flight at once
    client: ClientName = "lean"
    max_connection_failures: int | None = None  # in a row, before ModelOutageError; None: no limit
    answers: AnswerLimits = AnswerLimits()
    stream: bool = False  # whether replies are asked for as streams
    stall_s: float = 60.0  # of a streamed reply: the longest time in which nothing arrives
    adapt: tuple[str, ...] = ()  # what is known of the server, in the words of ServerFeatures
    extra: dict[str, Any] = {}  # more fields of the request's body; they override ours


class OpenAIPolicy(AsyncContextManagerMixin):
    """The policy of one model. An async context manager that owns its connections.

    Raises SettingsError for settings that cannot be used. `transport` replaces the one that
    `settings.client` names; `now` is the wall clock, for a server's `Retry-After` date.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        transport: ModelTransport | None = None,
        environment: Mapping[str, str] = os.environ,
        now: Callable[[], float] = time.time,
    ) -> None:
        _check(settings)
        most = connections_at_most(settings.concurrency)
        settings = msgspec.structs.replace(settings, concurrency=most)
        endpoint = endpoint_of(settings, environment)
        self._settings = settings
        self._endpoint = endpoint
        self._writer = writer_of(settings, endpoint.base_url, secret=endpoint.api_key)
        self._stream = StreamLimits(settings.stall_s, settings.max_tokens)
        self._found = FoundServer()
        self._rehearsal: Rehearsal | None = None  # None: no outcome waits for its episode
        self._client = ChatClient(
            transport or transport_of(settings.client, endpoint),
            Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
            rng=Random(settings.seed),
            now=now,
            concurrency=settings.concurrency,
            name=f"model {settings.model!r} at {endpoint.base_url}",
            max_connection_failures=settings.max_connection_failures,
        )

    @property
    def name(self) -> str:
        """The policy's name in the log, as in `openai:gpt-5`."""
        return f"openai:{self._settings.model}"

    def agent(self, assignment: Assignment) -> "OpenAIAgent":
        """An agent for one episode."""
        return OpenAIAgent(self, request_seed(self._settings, assignment.seed))

    @property
    def base_url(self) -> str:
        """The URL of the endpoint."""
        return self._endpoint.base_url

    def observe(self, observer: RequestObserver) -> None:
        """Let an observer see every attempt from now on."""
        self._client.observe(observer)

    def wrap_transport(self, wrap: Callable[[ModelTransport], ModelTransport]) -> None:
        """Send all requests through what `wrap` makes of the transport; before it is open."""
        self._client.wrap_transport(wrap)

    def statistics(self) -> dict[str, float]:
        """Counts since the start (see ChatClient.statistics), and 1 for what was learned of the
        server, in the words of ServerFeatures after `adapted `."""
        learned = {f"{LEARNED}{word}": 1.0 for word in self._writer.features.words}
        return self._client.statistics() | learned

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    async def preflight(self) -> None:
        """Check that the server answers, accepts the key and has the model, before a run. Raises
        ModelServerError. The policy need not be open."""
        await preflight_of(self._settings, self._endpoint)

    async def find_server(self) -> None:
        """Check that a server is there. Raises ModelServerError. The policy need not be open."""
        async with transport_of("lean", models_endpoint(self._endpoint)) as models:
            self._found = await find_server(self._settings.model, self.base_url, models)

    async def rehearse(self, first: Assignment, window: Window) -> None:
        """Send the request with which an episode begins, in the form that the server accepts. Its
        outcome is the first attempt of that episode. Raises ModelServerError where every episode of
        the run would end so."""
        writer, seed = self._writer, request_seed(self._settings, first.seed)
        features, body = writer.features, writer.body(window, seed)
        kept = self._rehearsal = Rehearsal(body)
        while True:
            try:
                content = await self._client.post(body, 1, self._stream if writer.streams else None)
            except ModelOutageError as exc:
                raise self._cannot_begin(f"no server answers ({exc})") from exc
            if isinstance(content, bytes):
                cause = cause_of_answer(content)
                outcome = self._client.read(content, 1)
            else:
                cause, outcome = cause_of_rehearsal(content, self._found), content
            if isinstance(outcome, Reply) or not writer.adapt(features, outcome, window, seed):
                break
            features, body = writer.features, writer.body(window, seed)
            kept.body = body
        if cause is not None:
            raise self._cannot_begin(cause)
        kept.settle(outcome)

    def _cannot_begin(self, cause: str) -> ModelServerError:
        sentence = f"model {self._settings.model!r} at {self.base_url}: {cause}"
        key = self._endpoint.api_key
        return ModelServerError(sentence.replace(key, "***") if key else sentence)

    async def reply_to(self, window: Window, seed: int | None) -> Reply:
        """The model's reply to a window. Raises PolicyError and ModelOutageError."""
        writer = self._writer
        features, body = writer.features, writer.body(window, seed)
        attempt, limited_s = 1, 0.0
        while True:
            kept = self._rehearsal
            if kept is not None and kept.body == body:
                self._rehearsal = None
                outcome = await kept.outcome()
            else:
                stream = self._stream if writer.streams else None
                outcome = await self._client.ask(body, attempt, stream)
            if isinstance(outcome, Reply):
                if limited_s:
                    outcome = msgspec.structs.replace(outcome, limited_s=limited_s)
                return writer.read(window, outcome)
            if writer.adapt(features, outcome, window, seed):
                features, body = writer.features, writer.body(window, seed)
                continue
            before = anyio.current_time()
            if not await self._client.wait_to_retry(outcome, attempt):
                raise self._error(outcome, attempt)
            if outcome.is_rate_limit:
                limited_s += anyio.current_time() - before
            attempt += 1

    def _error(self, failure: AttemptFailure, attempt: int) -> PolicyError:
        return policy_error(
            failure,
            attempt,
            model=self._settings.model,
            url=self._endpoint.base_url,
            secret=self._endpoint.api_key,
        )


class OpenAIAgent:
    """The model's agent for one episode. It has no state: the window is all it needs."""

    __slots__ = ("_policy", "_seed")

    def __init__(self, policy: OpenAIPolicy, seed: int | None) -> None:
        self._policy = policy
        self._seed = seed

    async def reply(self, window: Window) -> Reply:
        """Ask the model. Raises PolicyError and ModelOutageError."""
        return await self._policy.reply_to(window, self._seed)


def endpoint_of(settings: OpenAISettings, environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that the settings and the environment name. Raises SettingsError."""
    base_url = settings.base_url or environment.get("OPENAI_BASE_URL") or OPENAI_URL
    check_url(base_url)
    api_key = header_value("api_key", settings.api_key or environment.get("OPENAI_API_KEY"))
    if api_key is None and _is_openai(base_url):
        raise SettingsError(
            f"api_key: {OPENAI_URL} needs one: set OPENAI_API_KEY, or base_url for another endpoint"
        )
    return Endpoint(
        base_url=base_url.rstrip("/"),
        api_key=api_key,
        organization=header_value("OPENAI_ORG_ID", environment.get("OPENAI_ORG_ID")),
        project=header_value("OPENAI_PROJECT_ID", environment.get("OPENAI_PROJECT_ID")),
        timeout_s=settings.timeout_s,
        concurrency=settings.concurrency,
        answers=settings.answers,
    )


def header_value(name: str, text: str | None) -> str | None:
    """A value for an HTTP header, without space around it; None: there is none. Raises
    SettingsError for one with a line break or another character that a header cannot contain."""
    value = (text or "").strip() or None
    if value is not None and not (value.isascii() and value.isprintable()):
        raise SettingsError(f"{name}: contains characters that an HTTP header cannot contain")
    return value


async def preflight_of(settings: OpenAISettings, endpoint: Endpoint) -> None:
    """Check that a model can be asked, by one request or two (see harness.chat.preflight). Raises
    ModelServerError."""
    smallest = msgspec.structs.replace(settings, max_tokens=1)
    probe = RequestWriter(request_fields(smallest, endpoint.base_url)).body(_HELLO)
    async with (
        transport_of("lean", models_endpoint(endpoint)) as models,
        transport_of(settings.client, endpoint) as completions,
    ):
        try:
            await require_model(settings.model, endpoint.base_url, models, completions, probe)
        except ModelServerError as exc:
            if endpoint.api_key is None:
                raise
            raise ModelServerError(str(exc).replace(endpoint.api_key, "***")) from exc


async def only_model_of(base_url: str) -> str:
    """The name of the one model that a server lists. Raises SettingsError where it lists none or
    several, and for a URL that is none."""
    settings = OpenAISettings(model="any", base_url=base_url)
    endpoint = models_endpoint(endpoint_of(settings, os.environ))
    async with transport_of("lean", endpoint) as models:
        names, why = await listed_by(models)
    if len(names) == 1:
        return names[0]
    found = f"serves {shown_names(names)}" if names else f"names no model ({why})"
    raise SettingsError(f"model: {endpoint.base_url} {found}; name one: --model NAME")


def request_fields(settings: OpenAISettings, base_url: str) -> dict[str, Any]:
    """The fields of a request's body other than messages, tools and seed.

    OpenAI's newer models refuse `max_tokens`; most other servers know only that name.

    Example: model "m", max_tokens 100, extra {"stop": ["END"]} ->
        {"model": "m", "max_tokens": 100, "stop": ["END"]}
    """
    limit = "max_completion_tokens" if _is_openai(base_url) else "max_tokens"
    fields = {
        "model": settings.model,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        limit: settings.max_tokens,
    }
    sent = {name: value for name, value in fields.items() if value is not None}
    return sent | (STREAMED if settings.stream else {}) | settings.extra


def writer_of(
    settings: OpenAISettings, base_url: str, *, secret: str | None = None
) -> AdaptiveWriter:
    """What writes the bodies of the policy's requests to this URL."""
    fields = request_fields(settings, base_url)
    return AdaptiveWriter(fields, secret=secret, known=settings.adapt)


def request_seed(settings: OpenAISettings, episode_seed: int) -> int | None:
    """The seed in the requests of an episode, whose own seed is `Assignment.seed`; None: they have
    none."""
    return None if settings.seed is None else (settings.seed + episode_seed) % _SEEDS


def policy_error(
    failure: AttemptFailure, attempts: int, *, model: str, url: str, secret: str | None
) -> PolicyError:
    """The error for a request that failed: its kind decides how the episode ends."""
    kind = PolicyError
    if is_withheld(failure):
        kind = ModelRefusedError
    elif is_context_overflow(failure):
        kind = ContextLengthError
    error = kind(error_sentence(failure, attempts, model=model, url=url, secret=secret))
    if not is_retried(failure):  # else it was not the request that was wrong
        error.http_status = failure.status
    return error


def error_sentence(
    failure: AttemptFailure, attempts: int, *, model: str, url: str, secret: str | None
) -> str:
    """The sentence for a request that failed, as it is logged.

    Example: "model 'm' at http://127.0.0.1:8000/v1: status 503: overloaded (after 8 attempts)"
    """
    fault = f"status {failure.status}: " if failure.status else ""
    tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    sentence = f"model {model!r} at {url}: {fault}{failure.message} (after {tries})"
    return sentence.replace(secret, "***") if secret else sentence


def _check(settings: OpenAISettings) -> None:
    if not settings.model:
        raise SettingsError("model: must not be empty")
    for field in ("timeout_s", "max_attempts", "concurrency"):
        if not getattr(settings, field) > 0:
            raise SettingsError(f"{field}: must be above 0, found {getattr(settings, field)}")
    try:
        ServerFeatures.adapted(settings.adapt)
    except ValueError as exc:
        raise SettingsError(f"adapt: {exc}") from exc
    for field in ("messages", "tools", "stream", "n"):  # n: choices are read as one reply
        if field in settings.extra:
            raise SettingsError(f"extra_body: {field!r} cannot be set there")


def check_url(base_url: str) -> None:
    """Check a base URL. Raises SettingsError, which does not repeat a password in the URL."""
    try:
        parts = urlsplit(base_url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or not base_url.isascii() or not base_url.isprintable() or " " in base_url:
        raise SettingsError("base_url: expected a URL such as http://127.0.0.1:8000/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise SettingsError("base_url: must not hold a user, a query or a fragment")


def _is_openai(base_url: str) -> bool:
    return base_url.startswith("https://api.openai.com/")

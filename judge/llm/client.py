"""Models that give opinions, behind OpenAI-compatible chat endpoints.

Promises:
- An opinion has a label, or a fault in a sentence that never bears the API key. No server, answer
  or empty purse raises.
- Every request that was answered is counted with its tokens and its cost, those that nobody could
  read included. Where a server reports no tokens, they are estimated.
- Nothing is sent that could spend more than the purse has left (see harness.chat.budget).
- An answer that was cut off, is empty or cannot be read is asked for again, never guessed at.
"""

import os
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Self

import anyio
import msgspec
import structlog

from harness.chat.budget import Budget
from harness.chat.client import ChatClient, transport_of
from harness.chat.prices import Prices
from harness.chat.retry import Backoff, Failure
from harness.chat.server_features import ServerFeatures
from harness.chat.transport import Transport
from harness.chat.wire import RequestWriter
from harness.core.errors import BudgetExhausted, SettingsError
from harness.core.events import ModelJudgement
from harness.core.messages import Message, Reply, Usage, Window
from harness.history.token_budget import ByteCounter
from harness.policies.openai import OpenAISettings, endpoint_of, error_sentence, request_fields
from harness.settings.judge import JudgeSettings
from judge.core.case import Prompt
from judge.llm.response import SCHEMA, Said, read_opinion

_SEEDS = 2**31  # the servers' seeds are 32-bit integers, some of them signed
_WIDEST = 4  # times the settings' max_tokens, for answers that were cut off
_AGAIN = 0.5  # the least temperature when asking again: at 0 a new seed changes nothing
_log = structlog.get_logger(__name__)
_count = ByteCounter()
_ANSWER = {"name": "opinion", "schema": SCHEMA}


class ChatReasoner:
    """One model. An async context manager that owns its connections.

    `settings` are the model's as for a policy; `max_attempts` bounds the requests for one opinion,
    apart from those in which the server first refuses what it does not know (see
    harness.chat.server_features),
    which is remembered. Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        prices: Prices,
        purse: Budget,
        environment: Mapping[str, str] = os.environ,
        transport: Transport | None = None,
    ) -> None:
        endpoint = endpoint_of(settings, environment)
        self._settings = settings
        self._endpoint = endpoint
        self._prices = prices
        self._purse = purse
        self._terms = ServerFeatures()
        self._client = ChatClient(
            transport or transport_of(settings.client, endpoint),
            Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
            rng=Random(settings.seed),
        )

    @property
    def name(self) -> str:
        """The model's name."""
        return self._settings.model

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, exc, trace)

    def statistics(self) -> dict[str, float]:
        """Counts since the start (see ChatClient.statistics)."""
        return self._client.statistics()

    async def opinion(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        """What the model says, or in `fault` why nothing could be had; never an exception."""
        started = anyio.current_time()
        spent = _Spent(cost_usd=self._prices.cost(self.name, 0, 0, 0))
        try:
            said = await self._ask(prompt, seed, spent)
        except BudgetExhausted as exc:
            said = str(exc)
        known = {"fault": said} if isinstance(said, str) else msgspec.structs.asdict(said)
        return ModelJudgement(
            **({"model": self.name, "label": None} | known | msgspec.structs.asdict(spent)),
            seconds=anyio.current_time() - started,
        )

    async def _ask(self, prompt: Prompt, seed: int, spent: "_Spent") -> Said | str:
        """Ask until there is an answer that can be read. Raises BudgetExhausted."""
        window = Window(tuple([_whole(message) for message in prompt.messages]))
        attempt, num_unread, room = 1, 0, self._settings.max_tokens or 0
        while True:
            terms = self._terms
            body = self._body(window, terms, seed=seed, num_unread=num_unread, room=room)
            outcome = await self._request(body, attempt, room, prompt.num_tokens, spent)
            if isinstance(outcome, Reply):
                said = _read(outcome, prompt, room)
                if isinstance(said, Said):
                    return said
                failure = Failure("malformed", said)
                if attempt >= self._settings.max_attempts:
                    return self._fault(failure, attempt)
                num_unread += 1
                if outcome.finish == "length":
                    room = min(2 * room, _WIDEST * (self._settings.max_tokens or 0))
            elif (lowered := terms.lowered(outcome)) is not None:
                self._lower(terms, lowered, outcome)
                continue
            elif not await self._client.wait_to_retry(outcome, attempt):
                return self._fault(outcome, attempt)
            attempt += 1

    def _body(
        self, window: Window, terms: ServerFeatures, *, seed: int, num_unread: int, room: int
    ) -> bytes:
        settings = msgspec.structs.replace(self._settings, max_tokens=room or None)
        if num_unread and settings.temperature is not None:
            warmer = max(settings.temperature, _AGAIN)
            settings = msgspec.structs.replace(settings, temperature=warmer)
        fields = terms.applied(request_fields(settings, self._endpoint.base_url), _ANSWER)
        sent_seed = (seed + num_unread * 7919) % _SEEDS if terms.seed else None
        return RequestWriter(fields).body(window, seed=sent_seed)

    async def _request(
        self, body: bytes, attempt: int, room: int, num_tokens: int, spent: "_Spent"
    ) -> Reply | Failure:
        """One request, paid for. Raises BudgetExhausted."""
        # A token is at least a byte of what is sent.
        worst = self._prices.worst(self.name, len(body), room)
        async with self._purse.paying(worst) as bill:
            spent.requests += 1
            outcome = await self._client.ask(body, attempt)
            if isinstance(outcome, Reply):
                used = _usage(outcome, num_tokens)
                cost = self._prices.cost(
                    self.name, used.prompt_tokens, used.cached_tokens, used.completion_tokens
                )
                spent.add(used, cost)
                bill.usd = cost or 0.0
            elif outcome.kind == "status" or not outcome.was_sent:
                bill.usd = 0.0  # refusals are not billed; a lost answer may have been
        return outcome

    def _lower(self, asked: ServerFeatures, lowered: ServerFeatures, refusal: Failure) -> None:
        if self._terms == asked:  # else somebody who asked at the same time has lowered them
            self._terms = lowered
            _log.info("terms_lowered", model=self.name, refusal=refusal.message)

    def _fault(self, failure: Failure, attempts: int) -> str:
        told = error_sentence(
            failure,
            attempts,
            model=self.name,
            url=self._endpoint.base_url,
            secret=self._endpoint.api_key,
        )
        return f"no opinion of {told}"


class _Spent(msgspec.Struct):
    """What an opinion cost so far; `cost_usd` None: the model has no price."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def add(self, usage: Usage, cost: float | None) -> None:
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens
        self.completion_tokens += usage.completion_tokens
        if self.cost_usd is not None and cost is not None:
            self.cost_usd += cost


def reasoners_of(
    settings: JudgeSettings,
    prices: Prices | None,
    purse: Budget,
    *,
    environment: Mapping[str, str] = os.environ,
) -> list[ChatReasoner]:
    """A reasoner for each model of the settings; `prices` None: no cost is known.

    Raises SettingsError for models that cannot be asked and for a budget without prices, JudgeError
    for a model that the table of prices does not hold.
    """
    places = [_place(text) for text in settings.models]
    names = [name for name, _ in places]
    if not names and settings.mode != "code":
        raise SettingsError(f"models: mode {settings.mode!r} needs the name of a model")
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"models: {name!r} is named twice; verdicts go by the name")
    if prices is not None:
        prices.require(names)
    elif purse.limit is not None:
        raise SettingsError("budget: spending can be limited only where prices are given, too")
    return [
        ChatReasoner(
            OpenAISettings(
                name,
                base_url=url or settings.base_url or None,
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                seed=settings.seed,
                timeout_s=settings.timeout,
                max_attempts=settings.attempts,
                concurrency=settings.concurrency,
            ),
            prices=prices or Prices(),
            purse=purse,
            environment=environment,
        )
        for name, url in places
    ]


def _place(text: str) -> tuple[str, str]:
    """A model's name and its URL; empty: it has none of its own. Raises SettingsError.

    Example: "sonnet@20240620@http://127.0.0.1:8000/v1" ->
        ("sonnet@20240620", "http://127.0.0.1:8000/v1")
    """
    name, url = text, ""
    for scheme in ("@http://", "@https://"):
        if scheme in text:
            name, _, rest = text.partition(scheme)
            url = scheme[1:] + rest
    if not name.strip() or name != name.strip():
        raise SettingsError(f"models: expected MODEL or MODEL@URL, found {text!r}")
    return name, url


def _read(reply: Reply, prompt: Prompt, room: int) -> Said | str:
    """What was said, or what is wrong with the answer.

    One that was cut off is not looked into: a verdict in it may be one that it quotes.
    """
    if reply.finish == "length":
        return f"the answer was cut off after {room:,} tokens"
    return read_opinion(reply.text, prompt.exhibits)


def _usage(reply: Reply, num_tokens: int) -> Usage:
    """The tokens of an answered request, estimated where the server reports none."""
    if reply.usage.prompt_tokens or reply.usage.completion_tokens:
        return reply.usage
    return Usage(num_tokens, _count(reply.text))


def _whole(message: Message) -> Message:
    """The message without halves of surrogate pairs, which no request can hold."""
    content = message.content.encode("utf-8", "replace").decode()
    return msgspec.structs.replace(message, content=content)

"""The model that writes worlds, and the one that tries their tasks: a chat endpoint, paid for.

Promises:
- Every request that was answered is booked in the ledger with its tokens and its cost, one whose
  answer was lost with what it may have cost; nothing is sent that could spend more than is left.
- Rate limits, lost connections and servers that are busy are waited for, within bounds; after that
  a SynthesisError tells what was wrong, without the API key.
- An answer that was cut off or is empty is told as such, never guessed at.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import Self

import anyio
import msgspec

from harness.chat.budget import Budget
from harness.chat.client import ChatClient, transport_of
from harness.chat.prices import Prices
from harness.chat.retry import Backoff, Failure
from harness.chat.server_features import ServerFeatures
from harness.chat.transport import Endpoint, HttpResponse, TransportError
from harness.chat.wire import RequestWriter, is_context_overflow, read_error
from harness.core.errors import BudgetExhausted
from harness.core.messages import Message, Reply, Usage, Window
from harness.history.token_budget import ByteCounter
from harness.policies.openai import OpenAISettings, endpoint_of, error_sentence, request_fields
from scenarios.errors import OutOfBudget, SynthesisError
from scenarios.synth.core.protocols import ModelAnswer, PromptMessage, Purpose
from scenarios.synth.storage.spending import Ledger, LedgerEntry
from scenarios.text_similarity import embed

_SEEDS = 2**31  # the servers' seeds are 32-bit integers, some of them signed
_TEXTS = 64  # in one request for vectors
_FILTERED = frozenset({"content_filter", "content_policy_violation"})
_count = ByteCounter()


class Unanswerable(Exception):
    """The server answers, but not this: it is too long, or filtered. The message says which."""


class EmbeddingEndpoint(Endpoint, frozen=True):
    """Where vectors are asked for."""

    @property
    def url(self) -> str:
        """The address."""
        return self.base_url + "/embeddings"


class ModelAuthor:
    """One model. An async context manager that owns its connections. It implements
    scenarios.synth.core.protocols.AuthorModel.

    `embeddings` is the name of the model that gives vectors at the same place; empty: texts are
    compared here, by their wording. Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        prices: Prices,
        purse: Budget,
        ledger: Ledger,
        embeddings: str = "",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        endpoint = endpoint_of(settings, environment)
        backoff = Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s)
        self._settings = settings
        self._endpoint = endpoint
        self._prices = prices
        self._purse = purse
        self._ledger = ledger
        self._terms = ServerFeatures(format="text")
        rng = Random(settings.seed)
        self._client = ChatClient(transport_of(settings.client, endpoint), backoff, rng=rng)
        self._embeddings = embeddings
        fields = msgspec.structs.asdict(endpoint)
        self._vectors = transport_of(settings.client, EmbeddingEndpoint(**fields))

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        await self._vectors.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._vectors.__aexit__(kind, exc, trace)
        finally:
            await self._client.__aexit__(kind, exc, trace)

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: Purpose, *, seed: int
    ) -> ModelAnswer:
        """An answer. Raises OutOfBudget and SynthesisError."""
        window = Window(tuple(Message(turn.role, _whole(turn.text)) for turn in messages))
        try:
            reply = await self.reply(window, purpose, seed=seed)
        except Unanswerable as exc:
            return ModelAnswer("", str(exc))
        if reply.finish == "length":
            return ModelAnswer(reply.text, "the answer was cut off; it must be shorter")
        if not reply.text.strip():
            return ModelAnswer("", "the answer is empty")
        return ModelAnswer(reply.text)

    async def reply(self, window: Window, purpose: Purpose, *, seed: int) -> Reply:
        """A reply, with tool calls where the window has tools. Raises Unanswerable, OutOfBudget
        and SynthesisError."""
        attempt = 1
        while True:
            terms = self._terms
            body = self._body(window, terms, seed)
            outcome = await self._request(body, attempt, purpose)
            if isinstance(outcome, Reply):
                return outcome
            if is_context_overflow(outcome):
                raise Unanswerable(f"it is too long for the model: {outcome.message}")
            if outcome.code in _FILTERED:
                raise Unanswerable(f"the server filters it: {outcome.message}")
            if (lowered := terms.lowered(outcome)) is not None:
                self._terms = lowered if self._terms == terms else self._terms
                continue
            if not await self._client.wait_to_retry(outcome, attempt):
                raise self._error(outcome, attempt)
            attempt += 1

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        """Vectors, by the endpoint or made here. Raises OutOfBudget and SynthesisError."""
        if not self._embeddings:
            return await anyio.to_thread.run_sync(embed, texts)
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _TEXTS):
            vectors += await self._embedded(texts[start : start + _TEXTS], purpose)
        return vectors

    def _body(self, window: Window, terms: ServerFeatures, seed: int) -> bytes:
        fields = terms.applied(request_fields(self._settings, self._endpoint.base_url))
        sent = seed % _SEEDS if terms.seed else None
        return RequestWriter(fields).body(window, seed=sent)

    async def _request(self, body: bytes, attempt: int, purpose: Purpose) -> Reply | Failure:
        model = self._settings.model
        # A token is at least a byte of what is sent.
        worst = self._prices.worst(model, len(body), self._settings.max_tokens or 0)
        try:
            async with self._purse.paying(worst) as bill:
                with self._lost_at(worst, purpose) as settled:
                    outcome = await self._client.ask(body, attempt)
                    if isinstance(outcome, Reply):
                        bill.usd = self._book(_usage(outcome, len(body)), model, purpose)
                        settled()
                    elif outcome.kind == "status" or not outcome.was_sent:
                        bill.usd = 0.0  # refusals are not billed
                        settled()
        except BudgetExhausted as exc:
            raise OutOfBudget(str(exc)) from exc
        return outcome

    @contextmanager
    def _lost_at(self, worst: float, purpose: Purpose) -> Iterator[Callable[[], None]]:
        """A block that books a request at worst, cancelled or not, unless it says `settled`: a lost
        answer may have been billed."""
        open_bills = [LedgerEntry(purpose.stage, purpose.about, cost_usd=worst)]
        try:
            yield open_bills.clear
        finally:
            for bill in open_bills:
                self._ledger.add(bill)

    def _book(self, used: Usage, model: str, purpose: Purpose) -> float:
        cost = self._prices.cost(
            model, used.prompt_tokens, used.cached_tokens, used.completion_tokens
        )
        self._ledger.add(
            LedgerEntry(
                purpose.stage,
                purpose.about,
                used.prompt_tokens,
                used.cached_tokens,
                used.completion_tokens,
                cost,
            )
        )
        return cost or 0.0

    async def _embedded(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        body = msgspec.json.encode(
            {"model": self._embeddings, "input": [_whole(text) for text in texts]}
        )
        attempt = 1
        while True:
            outcome = await self._ask_vectors(body, len(texts), purpose)
            if isinstance(outcome, list):
                return outcome
            if not await self._client.wait_to_retry(outcome, attempt):
                raise self._error(outcome, attempt, self._embeddings)
            attempt += 1

    async def _ask_vectors(
        self, body: bytes, count: int, purpose: Purpose
    ) -> list[list[float]] | Failure:
        model = self._embeddings
        worst = self._prices.worst(model, len(body), 0)
        try:
            async with self._purse.paying(worst) as bill:
                with self._lost_at(worst, purpose) as settled:
                    try:
                        answer = await self._vectors.post(body)
                    except TransportError as exc:
                        if not exc.was_sent:
                            bill.usd = 0.0
                            settled()
                        return Failure(exc.kind, str(exc), was_sent=exc.was_sent)
                    settled()
                if answer.status != 200:
                    bill.usd = 0.0
                    return read_error(answer.status, answer.headers, answer.body)
                found = _vectors_of(answer, count)
                used = found.usage.prompt_tokens if isinstance(found, _Embedded) else 0
                usage = Usage(prompt_tokens=used or _count(body.decode()))
                bill.usd = self._book(usage, model, purpose)
        except BudgetExhausted as exc:
            raise OutOfBudget(str(exc)) from exc
        return found.vectors() if isinstance(found, _Embedded) else found

    def _error(self, failure: Failure, attempt: int, model: str = "") -> SynthesisError:
        return SynthesisError(
            error_sentence(
                failure,
                attempt,
                model=model or self._settings.model,
                url=self._endpoint.base_url,
                secret=self._endpoint.api_key,
            )
        )


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _EmbeddingUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0


class _Embedded(msgspec.Struct):
    data: list[_Vector]
    usage: _EmbeddingUsage = _EmbeddingUsage()

    def vectors(self) -> list[list[float]]:
        """In the texts' order."""
        return [each.embedding for each in sorted(self.data, key=lambda each: each.index)]


def _vectors_of(answer: HttpResponse, count: int) -> _Embedded | Failure:
    try:
        found = msgspec.json.decode(answer.body, type=_Embedded)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return Failure("malformed", f"the answer holds no vectors: {exc}")
    lengths = {len(each.embedding) for each in found.data}
    if len(found.data) != count or len(lengths) != 1:
        return Failure("malformed", f"{count} texts were sent, {len(found.data)} vectors came")
    return found


def _usage(reply: Reply, num_bytes: int) -> Usage:
    """The tokens of an answered request, estimated where the server reports none."""
    if reply.usage.prompt_tokens or reply.usage.completion_tokens:
        return reply.usage
    return Usage(num_bytes // 4, _count(reply.text))


def _whole(text: str) -> str:
    """The text without halves of surrogate pairs, which no request can hold."""
    return text.encode("utf-8", "replace").decode()

"""Requests to one model that are paid from a budget, repeated where that helps, and counted.

Promises:
- Nothing is sent that could cost more than the budget has left (see harness.chat.budget).
- Each request that was sent is reported to the caller once, with its tokens and its cost, also one
  that was cancelled, and one whose answer cannot be read. Where a server reports no tokens, they
  are estimated.
- A refused request costs nothing. A request without an answer counts as the most that it may have
  cost.
- A feature that the server refuses (see harness.chat.server_features) is not sent again, and the
  refusal does not count as an attempt.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Literal, Protocol, Self, TypeVar

import msgspec
import structlog
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.client import ChatClient
from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.transport import ModelTransport
from rehearsal_room.harness.core.messages import Reply, Usage
from rehearsal_room.harness.history.token_budget import ByteCounter
from rehearsal_room.harness.model_servers.event_stream import StreamLimits

T = TypeVar("T")
A = TypeVar("A")
T_co = TypeVar("T_co", covariant=True)
_NO_USAGE = Usage()
_count_tokens = ByteCounter()
_STREAM = StreamLimits(60.0, None)  # for servers that answer in streams only
_log = structlog.get_logger(__name__)


class Charge(msgspec.Struct, frozen=True):
    """The cost and tokens of one request."""

    outcome: Literal["answered", "refused", "lost"]  # refused: not sent, or answered with an error
    usage: Usage
    cost_usd: float | None  # the most that it may be, where it was lost; None: no price is known


RecordCharge = Callable[[Charge], None]  # called once for each request


class ModelRequest(msgspec.Struct, frozen=True):
    """One request's body, and the most tokens that its answer may have."""

    body: bytes
    max_tokens: int


class Question(Protocol[T_co]):
    """What is asked of a model, in as many requests as it takes."""

    def request(self, features: ServerFeatures) -> ModelRequest:
        """The next request, with what the server accepts."""

    def read(self, reply: Reply) -> T_co | AttemptFailure:
        """The answer, or the reason why the reply is not one; then the next request is made at
        once."""

    def is_hopeless(self, failure: AttemptFailure) -> bool:
        """Whether no other request could end better."""


class NoAnswer(msgspec.Struct, frozen=True):
    """Why there is no answer, and after how many attempts."""

    failure: AttemptFailure
    attempts: int


class MeteredClient(AsyncContextManagerMixin):
    """Requests to one model. An async context manager that owns its connections.

    `features` are those that are tried first, and at most `concurrency` requests are in flight.
    `backoff.max_attempts` bounds the requests for one question, without those that the server
    refuses because of a feature.
    """

    def __init__(
        self,
        model: str,
        transport: ModelTransport,
        backoff: Backoff,
        *,
        prices: Prices,
        budget: Budget,
        rng: Random,
        features: ServerFeatures | None = None,
        concurrency: int = 1024,
    ) -> None:
        self.model = model
        self._client = ChatClient(transport, backoff, rng=rng, concurrency=concurrency)
        self._max_attempts = backoff.max_attempts
        self._prices = prices
        self._budget = budget
        self._features = features or ServerFeatures()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    def statistics(self) -> dict[str, float]:
        """Counts since the start (see ChatClient.statistics)."""
        return self._client.statistics()

    async def ask(
        self, question: Question[T], record: RecordCharge, *, num_tokens: int | None = None
    ) -> T | NoAnswer:
        """The answer to a question. `num_tokens` is an estimate of the prompt's tokens, for servers
        that report none; None: a token for 4 bytes of the request.

        Raises BudgetExhausted.
        """
        attempt = 1
        while True:
            features = self._features
            request = question.request(features)
            stream = _STREAM if features.stream else None
            outcome = await self._complete(request, attempt, record, num_tokens, stream)
            if isinstance(outcome, Reply):
                answer = question.read(outcome)
                if not isinstance(answer, AttemptFailure):
                    return answer
                if attempt >= self._max_attempts:
                    return NoAnswer(answer, attempt)
            elif question.is_hopeless(outcome):
                return NoAnswer(outcome, attempt)
            elif (fewer := features.after_refusal(outcome)) is not None:
                self._drop_feature(features, fewer, outcome)
                continue
            elif not await self._client.wait_to_retry(outcome, attempt):
                return NoAnswer(outcome, attempt)
            attempt += 1

    async def post(
        self,
        body: bytes,
        read: Callable[[bytes], T | AttemptFailure],
        record: RecordCharge,
        *,
        usage_of: Callable[[bytes], Usage],
    ) -> T | NoAnswer:
        """What `read` makes of the answer to a body that is not a chat's, as for embeddings.

        Raises BudgetExhausted.
        """
        attempt = 1
        while True:
            at_most = self._prices.at_most(self.model, len(body), 0)
            found = await self._pay(
                at_most, partial(self._client.post, body, attempt), usage_of, record
            )
            outcome = found if isinstance(found, AttemptFailure) else read(found)
            if not isinstance(outcome, AttemptFailure):
                return outcome
            if not await self._client.wait_to_retry(outcome, attempt):
                return NoAnswer(outcome, attempt)
            attempt += 1

    async def _complete(
        self,
        request: ModelRequest,
        attempt: int,
        record: RecordCharge,
        num_tokens: int | None,
        stream: StreamLimits | None,
    ) -> Reply | AttemptFailure:
        def usage_of(reply: Reply) -> Usage:
            if reply.usage.prompt_tokens or reply.usage.completion_tokens:
                return reply.usage
            estimate = len(request.body) // 4 if num_tokens is None else num_tokens
            return Usage(estimate, _count_tokens(reply.text))

        # A token is at least one byte of what is sent.
        at_most = self._prices.at_most(self.model, len(request.body), request.max_tokens)
        return await self._pay(
            at_most, lambda: self._client.ask(request.body, attempt, stream), usage_of, record
        )

    async def _pay(
        self,
        at_most: float,
        send: Callable[[], Awaitable[A | AttemptFailure]],
        usage_of: Callable[[A], Usage],
        record: RecordCharge,
    ) -> A | AttemptFailure:
        """Send one request, and pay for it. Raises BudgetExhausted."""
        async with self._budget.reserve(at_most) as reservation:
            charge = Charge("lost", _NO_USAGE, at_most)
            try:
                outcome = await send()
                charge = self._charge(outcome, usage_of, charge)
            finally:  # a lost or cancelled request may have been billed
                reservation.usd = charge.cost_usd or 0.0
                record(charge)
        return outcome

    def _charge(
        self, outcome: A | AttemptFailure, usage_of: Callable[[A], Usage], lost: Charge
    ) -> Charge:
        if isinstance(outcome, AttemptFailure):
            refused = outcome.kind == "status" or not outcome.was_sent
            return Charge("refused", _NO_USAGE, 0.0) if refused else lost
        used = usage_of(outcome)
        cost = self._prices.cost(
            self.model, used.prompt_tokens, used.cached_tokens, used.completion_tokens
        )
        return Charge("answered", used, cost)

    def _drop_feature(
        self, asked: ServerFeatures, fewer: ServerFeatures, refusal: AttemptFailure
    ) -> None:
        if self._features == asked:  # else another request has found the same
            self._features = fewer
            _log.info("server_feature_dropped", model=self.model, refusal=refusal.message)


def replace_surrogates(text: str) -> str:
    """The text with question marks for halves of surrogate pairs, which no request and no log can
    hold."""
    return text.encode("utf-8", "replace").decode()

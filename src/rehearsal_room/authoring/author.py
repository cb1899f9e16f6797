"""The model that writes worlds, and the one that tries their tasks: a chat endpoint, paid for.

Promises:
- Every request is entered in the ledger: one that was answered with its tokens and its cost, one
  whose answer was lost with the most that it may have cost. Nothing is sent that could cost more
  than the budget has left (see harness.chat.metered).
- Rate limits, lost connections and busy servers are waited for, within bounds; after that a
  SynthesisError has the reason, without the API key.
- An answer that was cut off or is empty is reported as such, never completed by guessing.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.client import transport_of
from rehearsal_room.harness.chat.metered import (
    Charge,
    MeteredClient,
    ModelRequest,
    NoAnswer,
    replace_surrogates,
)
from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.chat.retry import (
    AttemptFailure,
    Backoff,
    is_context_overflow,
    is_withheld,
)
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.transport import Endpoint
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.errors import BudgetExhausted
from rehearsal_room.harness.core.messages import Message, Reply, Usage, Window
from rehearsal_room.harness.history.token_budget import ByteCounter
from rehearsal_room.harness.policies.openai import (
    OpenAISettings,
    endpoint_of,
    error_sentence,
    request_fields,
)
from rehearsal_room.scenarios.errors import OutOfBudget, SynthesisError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.scenarios.synth.core.protocols import ModelAnswer, PromptMessage, RequestPurpose
from rehearsal_room.scenarios.synth.storage.spending import LedgerEntry, SpendingLedger
from rehearsal_room.scenarios.text_similarity import embed

_NUM_SEEDS = 2**31  # the servers' seeds are 32-bit integers, some of them signed
_MAX_TEXTS = 64  # in one request for embeddings
_count_tokens = ByteCounter()


class Unanswerable(Exception):
    """The server works, but it will never answer this: it is too long, or filtered. The message
    says which."""


class EmbeddingEndpoint(Endpoint, frozen=True):
    """The endpoint of an embedding model."""

    @property
    def url(self) -> str:
        """The address."""
        return self.base_url + "/embeddings"


class ModelAuthor(AsyncContextManagerMixin):
    """One model. An async context manager that owns its connections. It implements
    scenarios.synth.core.protocols.AuthorModel.

    `embeddings` is the name of an embedding model at the same base URL; empty: texts are compared
    in this process, by their wording. Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        prices: Prices,
        budget: Budget,
        ledger: SpendingLedger,
        embeddings: str = "",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        endpoint = endpoint_of(settings, environment)
        self._settings = settings
        self._endpoint = endpoint
        self._ledger = ledger
        self._embeds = bool(embeddings)

        def metered(model: str, at: Endpoint) -> MeteredClient:
            return MeteredClient(
                model,
                transport_of(settings.client, at),
                Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
                prices=prices,
                budget=budget,
                rng=Random(settings.seed),
                features=ServerFeatures(format="text"),
                concurrency=settings.concurrency,
            )

        self._chat = metered(settings.model, endpoint)
        fields = msgspec.structs.asdict(endpoint)
        self._embedder = metered(embeddings, EmbeddingEndpoint(**fields))

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._chat, self._embedder:
            yield self

    async def answer(
        self, messages: Sequence[PromptMessage], purpose: RequestPurpose, *, seed: int
    ) -> ModelAnswer:
        """An answer. Raises OutOfBudget and SynthesisError."""
        sent = tuple(Message(turn.role, replace_surrogates(turn.text)) for turn in messages)
        try:
            reply = await self.reply(Window(sent), purpose, seed=seed)
        except Unanswerable as exc:
            return ModelAnswer("", str(exc))
        if reply.finish == "length":
            return ModelAnswer(reply.text, "the answer was cut off; it must be shorter")
        if not reply.text.strip():
            return ModelAnswer("", "the answer is empty")
        return ModelAnswer(reply.text)

    async def reply(self, window: Window, purpose: RequestPurpose, *, seed: int) -> Reply:
        """A reply, with tool calls where the window has tools. Raises Unanswerable, OutOfBudget
        and SynthesisError."""
        question = _AuthorQuestion(self._settings, self._endpoint, window, seed)
        try:
            outcome = await self._chat.ask(question, self._entry(purpose))
        except BudgetExhausted as exc:
            raise OutOfBudget(str(exc)) from exc
        if not isinstance(outcome, NoAnswer):
            return outcome
        failure = outcome.failure
        if is_context_overflow(failure):
            raise Unanswerable(f"it is too long for the model: {failure.message}")
        if is_withheld(failure):
            raise Unanswerable(f"the server filters it: {failure.message}")
        raise self._error(outcome, self._settings.model)

    async def embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        """A vector for each text, by the endpoint or computed here. Raises OutOfBudget and
        SynthesisError."""
        if not self._embeds:
            return await anyio.to_thread.run_sync(embed, texts)
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _MAX_TEXTS):
            vectors += await self._embed(texts[start : start + _MAX_TEXTS], purpose)
        return vectors

    async def _embed(self, texts: Sequence[str], purpose: RequestPurpose) -> list[list[float]]:
        model = self._embedder.model
        body = msgspec.json.encode({"model": model, "input": list(map(replace_surrogates, texts))})

        def usage_of(answer: bytes) -> Usage:
            found = _read_embeddings(answer, len(texts))
            tokens = 0 if isinstance(found, AttemptFailure) else found.usage.prompt_tokens
            return Usage(prompt_tokens=tokens or _count_tokens(body.decode()))

        def read(answer: bytes) -> list[list[float]] | AttemptFailure:
            found = _read_embeddings(answer, len(texts))
            return found if isinstance(found, AttemptFailure) else found.vectors()

        try:
            outcome = await self._embedder.post(body, read, self._entry(purpose), usage_of=usage_of)
        except BudgetExhausted as exc:
            raise OutOfBudget(str(exc)) from exc
        if isinstance(outcome, NoAnswer):
            raise self._error(outcome, model)
        return outcome

    def _entry(self, purpose: RequestPurpose) -> Callable[[Charge], None]:
        """What enters a request for this purpose in the ledger; refused requests cost nothing."""

        def enter(charge: Charge) -> None:
            if charge.outcome != "refused":
                used = charge.usage
                tokens = (used.prompt_tokens, used.cached_tokens, used.completion_tokens)
                self._ledger.add(
                    LedgerEntry(purpose.stage, purpose.about, *tokens, charge.cost_usd)
                )

        return enter

    def _error(self, outcome: NoAnswer, model: str) -> SynthesisError:
        return SynthesisError(
            error_sentence(
                outcome.failure,
                outcome.attempts,
                model=model,
                url=self._endpoint.base_url,
                secret=self._endpoint.api_key,
            )
        )


class _AuthorQuestion:
    """A window, whose reply is used as it is (see harness.chat.metered.Question)."""

    def __init__(
        self, settings: OpenAISettings, endpoint: Endpoint, window: Window, seed: int
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._window = window
        self._seed = seed

    def request(self, features: ServerFeatures) -> ModelRequest:
        """See Question."""
        fields = features.apply(request_fields(self._settings, self._endpoint.base_url))
        seed = self._seed % _NUM_SEEDS if features.seed else None
        body = RequestWriter(fields).body(self._window, seed=seed, form=features.form)
        return ModelRequest(body, self._settings.max_tokens or 0)

    def read(self, reply: Reply) -> Reply | AttemptFailure:
        """See Question."""
        return reply

    def is_hopeless(self, failure: AttemptFailure) -> bool:
        """See Question."""
        return is_context_overflow(failure) or is_withheld(failure)


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int = 0


class _EmbeddingUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0


class _Embeddings(msgspec.Struct):
    data: list[_Vector]
    usage: _EmbeddingUsage = _EmbeddingUsage()

    def vectors(self) -> list[list[float]]:
        """The vectors in the order of the texts."""
        return [vector.embedding for vector in sorted(self.data, key=lambda vector: vector.index)]


def _read_embeddings(answer: bytes, count: int) -> _Embeddings | AttemptFailure:
    try:
        found = msgspec.json.decode(answer, type=_Embeddings)
    except UNREADABLE as exc:
        return AttemptFailure("malformed", f"the answer contains no vectors: {exc}")
    lengths = {len(vector.embedding) for vector in found.data}
    if len(found.data) != count or len(lengths) != 1:
        return AttemptFailure(
            "malformed", f"{count} texts were sent, but {len(found.data)} vectors were returned"
        )
    return found

"""Models that judge, behind OpenAI-compatible chat endpoints.

Promises:
- A judgement has a label, or a fault in a sentence that never contains the API key. No server, no
  answer and no exhausted budget raises.
- Every request that was answered is counted with its tokens and its cost (see
  harness.chat.metered).
- An answer that was cut off, is empty or cannot be read is asked for again, never guessed.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Self, TypeVar

import anyio
import msgspec
from anyio import AsyncContextManagerMixin
from msgspec.structs import replace

from rehearsal_room.harness.chat.budget import Budget
from rehearsal_room.harness.chat.client import transport_of
from rehearsal_room.harness.chat.metered import (
    Charge,
    MeteredClient,
    ModelRequest,
    NoAnswer,
    Question,
    replace_surrogates,
)
from rehearsal_room.harness.chat.prices import Prices
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff
from rehearsal_room.harness.chat.server_features import ServerFeatures
from rehearsal_room.harness.chat.transport import ModelTransport
from rehearsal_room.harness.chat.wire import RequestWriter
from rehearsal_room.harness.core.errors import BudgetExhausted, PolicyError, SettingsError
from rehearsal_room.harness.core.events import ModelJudgement
from rehearsal_room.harness.core.messages import Message, Reply, Window
from rehearsal_room.harness.dialects.awm_release import content_of
from rehearsal_room.harness.policies.openai import (
    OpenAISettings,
    endpoint_of,
    error_sentence,
    preflight_of,
    request_fields,
)
from rehearsal_room.harness.settings.judge import JudgeSettings
from rehearsal_room.judge.core.case import Prompt
from rehearsal_room.judge.llm.echoes import QuotedEvidence
from rehearsal_room.judge.llm.response import SCHEMA, ParsedAnswer, parse_answer

A = TypeVar("A")
_RELEASED_TOKENS = 4096  # of an answer to the released judge of Agent World Model
_NUM_SEEDS = 2**31  # the servers' seeds are 32-bit integers, some of them signed
_MAX_GROWTH = 4  # times the settings' max_tokens, for answers that were cut off
_MIN_TEMPERATURE = 0.5  # when asking again: at 0 a new seed changes nothing
_ANSWER = {"name": "opinion", "schema": SCHEMA}  # part of the request: a change needs new verdicts


class ChatJudgeModel(AsyncContextManagerMixin):
    """One model. An async context manager that owns its connections.

    `settings` are the model's as for a policy; `max_attempts` bounds the requests for one judgement
    (see MeteredClient). Raises SettingsError for settings that cannot be used.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        *,
        prices: Prices,
        budget: Budget,
        environment: Mapping[str, str] = os.environ,
        transport: ModelTransport | None = None,
    ) -> None:
        endpoint = endpoint_of(settings, environment)
        self._settings = settings
        self._endpoint = endpoint
        self._prices = prices
        self._client = MeteredClient(
            settings.model,
            transport or transport_of(settings.client, endpoint),
            Backoff(settings.max_attempts, settings.first_wait_s, settings.longest_wait_s),
            prices=prices,
            budget=budget,
            rng=Random(settings.seed),
            concurrency=settings.concurrency,
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    @property
    def name(self) -> str:
        """The model's name."""
        return self._settings.model

    def statistics(self) -> dict[str, float]:
        """Counts since the start (see ChatClient.statistics)."""
        return self._client.statistics()

    async def preflight(self) -> None:
        """Check that the model can be asked (see harness.chat.preflight). Raises
        ModelServerError."""
        await preflight_of(self._settings, self._endpoint)

    async def judge(self, prompt: Prompt, *, seed: int) -> ModelJudgement:
        """The model's judgement, with the reason in `fault` where there is none. Never raises."""
        question = JudgeQuestion(self._settings, self._endpoint.base_url, prompt, seed)
        answer, spent, _ = await self._ask(question, num_tokens=prompt.num_tokens)
        return spent if answer is None else replace(spent, **msgspec.structs.asdict(answer))

    async def ask_released(
        self, messages: list[dict[str, str]]
    ) -> tuple[str | None, ModelJudgement]:
        """The text with which the model answers what Agent World Model's released code asks it, and
        what that took; None: it gave none, and the judgement's fault says why. Raises
        BudgetExhausted."""
        settings = replace(self._settings, temperature=1.0, max_tokens=_RELEASED_TOKENS)
        url = self._endpoint.base_url
        question = _ReleasedQuestion(settings, url, messages, at_most=_RELEASED_TOKENS)
        answer, spent, exhausted = await self._ask(question)
        if exhausted is not None:
            raise exhausted
        return answer, spent

    async def _ask(
        self, question: Question[A], *, num_tokens: int | None = None
    ) -> tuple[A | None, ModelJudgement, BudgetExhausted | None]:
        """The answer (None: there is none), a judgement without a label that has what it took and
        why there is no answer, and the error where the budget is used up."""
        started = anyio.current_time()
        total = _Total(cost_usd=self._prices.cost(self.name, 0, 0, 0))
        fault, answer, exhausted = "", None, None
        try:
            outcome = await self._client.ask(question, total.add, num_tokens=num_tokens)
            if isinstance(outcome, NoAnswer):
                fault = self._fault(outcome)
            else:
                answer = outcome
        except BudgetExhausted as exc:
            fault, exhausted = str(exc), exc
        spent = ModelJudgement(
            model=self.name,
            label=None,
            fault=fault,
            **msgspec.structs.asdict(total),
            seconds=anyio.current_time() - started,
        )
        return answer, spent, exhausted

    async def answer(self, messages: list[dict[str, str]]) -> tuple[str, ModelJudgement]:
        """The text with which the model answers the question of a suite's own score, and what it
        took: the request has these messages and temperature 0, and nothing else. Raises
        PolicyError."""
        settings = replace(self._settings, temperature=0.0, max_tokens=None)
        at_most = self._settings.max_tokens or 0
        question = _PlainQuestion(settings, self._endpoint.base_url, messages, at_most=at_most)
        size = sum(len(message["content"]) for message in messages) // 4
        answer, spent, _ = await self._ask(question, num_tokens=size)
        if answer is None:
            raise PolicyError(spent.fault)
        return answer, spent

    def _fault(self, outcome: NoAnswer) -> str:
        sentence = error_sentence(
            outcome.failure,
            outcome.attempts,
            model=self.name,
            url=self._endpoint.base_url,
            secret=self._endpoint.api_key,
        )
        return f"no judgement of {sentence}"


class _PlainQuestion:
    """A question of another project's score: what is sent are its messages, and temperature and
    limit of the settings, this one as `max_completion_tokens` (see harness.chat.metered.Question).
    `at_most` is the number of tokens that an answer is taken to have at most."""

    def __init__(
        self,
        settings: OpenAISettings,
        base_url: str,
        messages: list[dict[str, str]],
        *,
        at_most: int,
    ) -> None:
        self._settings = settings
        self._base_url = base_url
        self._at_most = at_most
        self._window = Window(msgspec.convert(tuple(messages), tuple[Message, ...]))

    def request(self, features: ServerFeatures) -> ModelRequest:
        """See Question."""
        features = replace(features, format="text", max_tokens=False)
        fields = features.apply(request_fields(self._settings, self._base_url))
        body = RequestWriter(fields).body(self._window, form=features.form)
        return ModelRequest(body, self._at_most)

    def read(self, reply: Reply) -> str | AttemptFailure:
        """See Question."""
        return reply.text or AttemptFailure("malformed", "the answer is empty")

    def is_hopeless(self, failure: AttemptFailure) -> bool:
        """See Question."""
        return False


class _ReleasedQuestion(_PlainQuestion):
    """What the released judge of Agent World Model asks: whatever comes is its answer."""

    def read(self, reply: Reply) -> str | AttemptFailure:
        """See Question. A thought that the server sent beside the text is left out."""
        return content_of(reply)


class JudgeQuestion:
    """A prompt, asked until its answer can be read (see harness.chat.metered.Question).

    An answer that was cut off gets twice the room the next time; any that cannot be read gets
    another seed and some temperature.
    """

    def __init__(self, settings: OpenAISettings, base_url: str, prompt: Prompt, seed: int) -> None:
        self._settings = settings
        self._base_url = base_url
        self._evidence_ids = prompt.evidence_ids
        # The system message is ours: its examples are not evidence.
        untrusted = [one.content for one in prompt.messages if one.role != "system"]
        self._evidence = QuotedEvidence("\n".join(untrusted))
        self._seed = seed
        self._window = Window(tuple([_sendable(message) for message in prompt.messages]))
        self._num_unread = 0
        self._max_tokens = settings.max_tokens or 0

    def request(self, features: ServerFeatures) -> ModelRequest:
        """See Question."""
        settings = replace(self._settings, max_tokens=self._max_tokens or None)
        if self._num_unread and settings.temperature is not None:
            temperature = max(settings.temperature, _MIN_TEMPERATURE)
            settings = replace(settings, temperature=temperature)
        fields = features.apply(request_fields(settings, self._base_url), _ANSWER)
        seed = (self._seed + self._num_unread * 7919) % _NUM_SEEDS if features.seed else None
        body = RequestWriter(fields).body(self._window, seed=seed, form=features.form)
        return ModelRequest(body, self._max_tokens)

    def read(self, reply: Reply) -> ParsedAnswer | AttemptFailure:
        """See Question. An answer that was cut off is not parsed: a verdict in it may be one that
        it quotes."""
        if reply.finish == "length":
            fault = f"the answer was cut off after {self._max_tokens:,} tokens"
            longest = _MAX_GROWTH * (self._settings.max_tokens or 0)
            self._max_tokens = min(2 * self._max_tokens, longest)
        else:
            answer = parse_answer(reply.text, self._evidence_ids, self._evidence)
            if isinstance(answer, ParsedAnswer):
                return answer
            fault = answer
        self._num_unread += 1
        return AttemptFailure("malformed", fault)

    def is_hopeless(self, failure: AttemptFailure) -> bool:
        """See Question."""
        return False


class _Total(msgspec.Struct):
    """What a judgement cost so far; `cost_usd` None: the model has no price."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None

    def add(self, charge: Charge) -> None:
        """Count one request. Those without an answer cost the budget, but no judgement."""
        self.requests += 1
        if charge.outcome != "answered":
            return
        self.prompt_tokens += charge.usage.prompt_tokens
        self.cached_tokens += charge.usage.cached_tokens
        self.completion_tokens += charge.usage.completion_tokens
        if self.cost_usd is not None and charge.cost_usd is not None:
            self.cost_usd += charge.cost_usd


def judge_models(
    settings: JudgeSettings,
    prices: Prices | None,
    budget: Budget,
    *,
    environment: Mapping[str, str] = os.environ,
) -> list[ChatJudgeModel]:
    """A client for each model of the settings; `prices` None: no cost is known.

    Raises SettingsError for models that cannot be asked, for a model without a price in the table,
    and for a budget without prices.
    """
    models = model_settings(settings)
    names = [model.model for model in models]
    if not names and settings.mode != "code":
        raise SettingsError(f"models: mode {settings.mode!r} needs the name of a model")
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"models: {name!r} is named twice; verdicts are stored by the name")
    if prices is not None:
        prices.require(names)
    elif budget.limit is not None:
        raise SettingsError("budget: spending can be limited only where prices are given too")
    return [
        ChatJudgeModel(model, prices=prices or Prices(), budget=budget, environment=environment)
        for model in models
    ]


def model_settings(settings: JudgeSettings) -> list[OpenAISettings]:
    """How each model of a judge is asked. Raises SettingsError."""
    return [
        OpenAISettings(
            name,
            base_url=url or settings.base_url or None,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            timeout_s=settings.timeout,
            max_attempts=settings.attempts,
            concurrency=settings.concurrency,
        )
        for name, url in map(_name_and_url, settings.models)
    ]


def _name_and_url(text: str) -> tuple[str, str]:
    """A model's name and its URL; empty: it has no URL of its own. Raises SettingsError.

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


def _sendable(message: Message) -> Message:
    """The message as a request can hold it."""
    return replace(message, content=replace_surrogates(message.content))

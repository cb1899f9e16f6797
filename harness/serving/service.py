"""A served checkpoint: conversations in, replies out, under the history window and the dialect in
which the checkpoint was trained.

A model that was trained on windows of the last three turns and gets whole conversations collapses
(AWM, arXiv:2602.10090); so the server makes the windows, whatever the client sends. A format that
differs from the training is possible, and every reply then has a warning.
"""

from collections.abc import Callable
from secrets import randbits
from typing import TypeVar

from rehearsal_room.harness.core.errors import ContextLengthError, SettingsError
from rehearsal_room.harness.core.messages import Reply, Usage, Window
from rehearsal_room.harness.core.policy_card import PolicyCard
from rehearsal_room.harness.core.token_bytes import encode_ids
from rehearsal_room.harness.model_api.request import ModelReply, ModelRequest, UnsupportedRequest
from rehearsal_room.harness.model_api.sampling_fields import SamplingFields, sampling_fields
from rehearsal_room.harness.policies.token_agent import (
    GeneratedTokens,
    Sampling,
    TokenBackend,
    finish_of,
    reply_seed,
)
from rehearsal_room.harness.serving.compatibility import ServingFormat, ServingFormats
from rehearsal_room.harness.serving.conversations import ClientConversation
from rehearsal_room.harness.serving.reply_memory import ReplyMemory
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer

_T = TypeVar("_T")


class PolicyService:
    """One served checkpoint. All requests share it; it owns nothing that must be closed.

    `context` is the limit of tokens in prompt and reply together; `seeds` returns a seed for a
    request without one.
    """

    def __init__(
        self,
        name: str,
        backend: TokenBackend,
        chat: ChatTokenizer,
        formats: ServingFormats,
        sampling: Sampling,
        *,
        context: int,
        seeds: Callable[[], int] = lambda: randbits(48),
    ) -> None:
        self.name = name
        self.context = context
        self._backend = backend
        self._chat = chat
        self._formats = formats
        self._sampling = sampling
        self._seeds = seeds
        self._memory = ReplyMemory()

    @property
    def format(self) -> ServingFormat:
        """The format of requests that do not override it."""
        return self._formats.default

    def statistics(self) -> dict[str, int]:
        """The number of remembered replies."""
        return {"replies_remembered": len(self._memory)}

    async def answer(self, request: ModelRequest) -> ModelReply:
        """The reply to a conversation. Raises UnsupportedRequest and PolicyError."""
        sent = sampling_fields(request)
        format = self._format_of(sent)
        conversation = ClientConversation(
            request.messages,
            request.tools,
            history=format.history,
            dialect=format.dialect,
            memory=self._memory,
        )
        sampling = self._sampling_of(sent)

        async def summarize(window: Window, conversation: ClientConversation) -> Reply:
            generated, _ = await self._generate(window, conversation, sampling)
            text = self._chat.decode(generated.token_ids)
            return Reply(text, token_ids=encode_ids(generated.token_ids))

        window = await conversation.window(summarize)
        generated, num_prompt = await self._generate(window, conversation, sampling)
        text = self._chat.decode(generated.token_ids)
        reply = conversation.add_reply(text, generated.token_ids, calling=sent.calling)
        return ModelReply(
            reply,
            finish_of(generated, reply.calls),
            Usage(num_prompt, len(generated.token_ids), generated.cached_tokens),
            {
                "history": format.history.spec,
                "dialect": format.dialect.name,
                "first_turn": window.first_turn,
                "recalled": window.recalled,
                "rewritten": conversation.num_forgotten,
                "weights": generated.weights or self._formats.version,
                "warnings": format.warnings,
            },
            format.warnings,
        )

    async def _generate(
        self, window: Window, conversation: ClientConversation, sampling: Sampling
    ) -> tuple[GeneratedTokens, int]:
        """The model's continuation of a window, and the number of tokens in the prompt."""
        prompt = self._chat.prompt(window, conversation.sampled)
        room = self.context - len(prompt)
        if room < 1:
            raise ContextLengthError(
                f"the prompt has {len(prompt):,} tokens; this model's maximum context length is"
                f" {self.context:,}"
            )
        limit = sampling.max_tokens
        generated = await self._backend.generate(
            prompt,
            max_tokens=room if limit is None else min(room, limit),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=reply_seed(sampling.seed, 0, conversation.num_replies),
        )
        return generated, len(prompt)

    def _sampling_of(self, sent: SamplingFields) -> Sampling:
        default = self._sampling
        return Sampling(
            temperature=_first_set(sent.temperature, default.temperature),
            top_p=_first_set(sent.top_p, default.top_p),
            max_tokens=_first_set(sent.max_tokens, default.max_tokens),
            seed=self._seeds() if sent.seed is None else sent.seed,
        )

    def _format_of(self, sent: SamplingFields) -> ServingFormat:
        try:
            return self._formats.get(sent.overrides.history, sent.overrides.dialect)
        except SettingsError as exc:
            raise UnsupportedRequest(f"rehearsal: {exc}") from exc


def _first_set(value: _T | None, default: _T) -> _T:
    return default if value is None else value


def sampling_of(card: PolicyCard | None) -> Sampling:
    """The default sampling of a checkpoint: that of its training."""
    if card is None:
        return Sampling()
    return Sampling(temperature=card.temperature, max_tokens=card.max_tokens)

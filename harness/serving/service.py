"""A checkpoint as its users should meet it: conversations in, replies out, each shown and read
under the history policy and the dialect that the checkpoint was trained in.

A model that was trained on windows of the last three turns and is served whole conversations
collapses (AWM, arXiv:2602.10090); so the windows are made here, whatever the client sends. A use
that differs from the training is possible, and told loudly with every reply.
"""

from collections.abc import Callable
from secrets import randbits

from harness.core.errors import ContextLengthError, SettingsError
from harness.core.messages import Reply, Usage, Window
from harness.core.policy_card import PolicyCard
from harness.core.token_bytes import encode_ids
from harness.policies.token_agent import Generated, Sampling, TokenBackend, reply_seed
from harness.serving.chat_api import Answered, Asked
from harness.serving.compatibility import Use, Uses
from harness.serving.conversations import Conversation, NotServed
from harness.serving.reply_memory import Memory
from harness.tokenization.chat_tokenizer import ChatTokenizer


class PolicyService:
    """One checkpoint, served. Shared by all requests; owns nothing that must be closed.

    `context` is how many tokens the model takes, prompt and reply together; `seeds` gives those of
    requests that bring none.
    """

    def __init__(
        self,
        name: str,
        backend: TokenBackend,
        chat: ChatTokenizer,
        uses: Uses,
        sampling: Sampling,
        *,
        context: int,
        seeds: Callable[[], int] = lambda: randbits(48),
    ) -> None:
        self.name = name
        self.context = context
        self._backend = backend
        self._chat = chat
        self._uses = uses
        self._sampling = sampling
        self._seeds = seeds
        self._memory = Memory()

    @property
    def use(self) -> Use:
        """Under what it is used unless a client asks for other."""
        return self._uses.usual

    def statistics(self) -> dict[str, int]:
        """Counts of what is held."""
        return {"replies_remembered": len(self._memory)}

    async def answer(self, asked: Asked) -> Answered:
        """The reply to a conversation. Raises NotServed and PolicyError."""
        use = self._use_of(asked)
        conversation = Conversation(
            asked.messages,
            asked.tools,
            history=use.history,
            dialect=use.dialect,
            memory=self._memory,
        )
        sampling = self._sampling_of(asked)

        async def summary(window: Window, conversation: Conversation) -> Reply:
            generated, _ = await self._generated(window, conversation, sampling)
            text = self._chat.decode(generated.token_ids)
            return Reply(text, token_ids=encode_ids(generated.token_ids))

        window = await conversation.window(summary)
        generated, num_prompt = await self._generated(window, conversation, sampling)
        text = self._chat.decode(generated.token_ids)
        told = conversation.answered(text, generated.token_ids, calling=asked.calling)
        return Answered(
            told,
            "tool_calls" if told.calls else generated.finish,
            Usage(num_prompt, len(generated.token_ids), generated.cached_tokens),
            {
                "history": use.history.spec,
                "dialect": use.dialect.name,
                "first_turn": window.first_turn,
                "recalled": window.recalled,
                "rewritten": conversation.num_forgotten,
                "weights": generated.weights or self._uses.version,
                "warnings": use.warnings,
            },
            use.warnings,
        )

    async def _generated(
        self, window: Window, conversation: Conversation, sampling: Sampling
    ) -> tuple[Generated, int]:
        """What the model samples for a window, and the number of the prompt's tokens."""
        prompt = self._chat.prompt(window, conversation.own)
        room = self.context - len(prompt)
        if room < 1:
            raise ContextLengthError(
                f"the window has {len(prompt):,} tokens; this model's maximum context length is"
                f" {self.context:,}"
            )
        most = sampling.max_tokens
        generated = await self._backend.generate(
            prompt,
            max_tokens=room if most is None else min(room, most),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            seed=reply_seed(sampling.seed, 0, conversation.num_replies),
        )
        return generated, len(prompt)

    def _sampling_of(self, asked: Asked) -> Sampling:
        ours = self._sampling
        return Sampling(
            temperature=ours.temperature if asked.temperature is None else asked.temperature,
            top_p=ours.top_p if asked.top_p is None else asked.top_p,
            max_tokens=ours.max_tokens if asked.max_tokens is None else asked.max_tokens,
            seed=self._seeds() if asked.seed is None else asked.seed,
        )

    def _use_of(self, asked: Asked) -> Use:
        try:
            return self._uses.of(asked.wanted.history, asked.wanted.dialect)
        except SettingsError as exc:
            raise NotServed(f"rehearsal: {exc}") from exc


def sampling_of(card: PolicyCard | None) -> Sampling:
    """How a checkpoint samples unless it is told otherwise: as while it learned."""
    if card is None:
        return Sampling()
    return Sampling(temperature=card.temperature, max_tokens=card.max_tokens)

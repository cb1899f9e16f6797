"""A checkpoint as its users should meet it: conversations in, replies out, each shown and read
under the history policy and the dialect that the checkpoint was trained in.

A model that was trained on windows of the last three turns and is served whole conversations
collapses (AWM, arXiv:2602.10090); so the windows are made here, whatever the client sends. A use
that differs from the training is possible, and told loudly with every reply.
"""

from collections.abc import Callable
from secrets import randbits

import msgspec
import structlog

from harness.card import PolicyCard, misfits
from harness.chat_tokens import ChatTokens
from harness.conversations import Conversation, NotServed
from harness.dialects.base import Dialect
from harness.dialects.choose import dialect_of
from harness.errors import ContextLengthError, SettingsError
from harness.history import parse_history
from harness.history_base import HistoryPolicy
from harness.messages import Reply, Usage, Window
from harness.policies.token_agent import Generated, Sampling, TokenBackend, reply_seed
from harness.policy_wire import Answered, Asked
from harness.reply_memory import Memory
from harness.tokens import packed

_MOST_USES = 64  # other uses that clients may ask for, remembered
_log = structlog.get_logger(__name__)


class Use(msgspec.Struct, frozen=True):
    """Under what a checkpoint is used."""

    history: HistoryPolicy
    dialect: Dialect
    warnings: tuple[str, ...]  # in what it differs from the training, a sentence each


class PolicyService:
    """One checkpoint, served. Shared by all requests; owns nothing that must be closed.

    `history` and `dialect` empty: those of the card. Raises SettingsError where neither says.
    """

    def __init__(
        self,
        backend: TokenBackend,
        chat: ChatTokens,
        card: PolicyCard | None,
        *,
        name: str,
        context: int,
        history: str = "",
        dialect: str = "",
        sampling: Sampling | None = None,
        seeds: Callable[[], int] = lambda: randbits(48),
    ) -> None:
        self._backend = backend
        self._chat = chat
        self._card = card
        self.name = name
        self.context = context
        self._sampling = sampling or sampling_of(card)
        self._seeds = seeds  # for requests that bring none
        self._memory = Memory()
        self._uses: dict[tuple[str, str], Use] = {}
        self._history = history or (card.history if card else "")
        self._dialect = dialect or (card.dialect if card else "")
        if not self._history or not self._dialect:
            raise SettingsError(
                f"{name} has no card (rehearsal.json) that tells what it was trained under: name"
                " --history and --dialect"
            )
        self.use = self._use(self._history, self._dialect)

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
            text = self._chat.text(generated.token_ids)
            return Reply(text, token_ids=packed(generated.token_ids))

        window = await conversation.window(summary)
        generated, num_prompt = await self._generated(window, conversation, sampling)
        text = self._chat.text(generated.token_ids)
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
                "weights": generated.weights,
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
        """What the client wants, or the server's own."""
        wanted = asked.wanted
        if not wanted.history and not wanted.dialect:
            return self.use
        try:
            return self._use(wanted.history or self._history, wanted.dialect or self._dialect)
        except SettingsError as exc:
            raise NotServed(f"rehearsal: {exc}") from exc

    def _use(self, history: str, dialect: str) -> Use:
        known = self._uses.get((history, dialect))
        if known is not None:
            return known
        policy, spoken = self._policy(history), dialect_of(dialect)
        found: list[str] = []
        if self._card is not None:
            found = misfits(
                self._card, history=policy.spec, fingerprint=policy.fingerprint, dialect=dialect
            )
        for misfit in found:
            _log.warning("misaligned", model=self.name, why=misfit)
        if len(self._uses) >= _MOST_USES:
            self._uses.clear()
        use = self._uses[history, dialect] = Use(policy, spoken, tuple(found))
        return use

    def _policy(self, history: str) -> HistoryPolicy:
        """The history policy of a setting, counting tokens as the training did where it counts."""
        by_bytes = parse_history(history)
        if self._card is not None and self._card.fingerprint == by_bytes.fingerprint:
            return by_bytes
        by_tokens = parse_history(history, self._chat)
        if self._card is not None and self._card.fingerprint == by_tokens.fingerprint:
            return by_tokens
        return by_bytes


def sampling_of(card: PolicyCard | None) -> Sampling:
    """How a checkpoint samples unless it is told otherwise: as while it learned."""
    if card is None:
        return Sampling()
    return Sampling(temperature=card.temperature, max_tokens=card.max_tokens)

"""Under which history policy and dialect a checkpoint is used, and in what that differs from its
training."""

import msgspec
import structlog

from harness.core.errors import SettingsError
from harness.core.policy_card import PolicyCard, card_mismatches
from harness.dialects.base import Dialect
from harness.dialects.registry import dialect_of
from harness.history.base import HistoryPolicy
from harness.history.windows import parse_history
from harness.tokenization.chat_tokenizer import ChatTokenizer

_MOST_USES = 64  # that are remembered
_log = structlog.get_logger(__name__)


class Use(msgspec.Struct, frozen=True):
    """Under what a checkpoint is used."""

    history: HistoryPolicy
    dialect: Dialect
    warnings: tuple[str, ...]  # in what it differs from the training, a sentence each


class Uses:
    """The uses of one checkpoint: the one that it is meant for, and others that are asked for.

    `history` and `dialect` empty: those of the card. Raises SettingsError where neither says.
    """

    def __init__(
        self,
        name: str,
        chat: ChatTokenizer,
        card: PolicyCard | None,
        *,
        history: str = "",
        dialect: str = "",
    ) -> None:
        self._name = name
        self._chat = chat
        self._card = card
        self._known: dict[tuple[str, str], Use] = {}
        self._history = history or (card.history if card else "")
        self._dialect = dialect or (card.dialect if card else "")
        if not self._history or not self._dialect:
            raise SettingsError(
                f"{name} has no card (rehearsal.json) that tells what it was trained under: name"
                " --history and --dialect"
            )
        self.usual = self.of()

    @property
    def version(self) -> str:
        """Of the checkpoint's weights; empty: not known."""
        return "" if self._card is None else self._card.version

    def of(self, history: str = "", dialect: str = "") -> Use:
        """The use of these; empty: the usual one's. Raises SettingsError."""
        key = (history or self._history, dialect or self._dialect)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_USES:
                self._known.clear()
            known = self._known[key] = self._made(*key)
        return known

    def _made(self, history: str, dialect: str) -> Use:
        policy, spoken = self._policy(history), dialect_of(dialect)
        if self._card is None:
            return Use(policy, spoken, ())
        found = card_mismatches(
            self._card, history=policy.spec, fingerprint=policy.fingerprint, dialect=dialect
        )
        for misfit in found:
            _log.warning("misaligned", model=self._name, why=misfit)
        return Use(policy, spoken, tuple(found))

    def _policy(self, history: str) -> HistoryPolicy:
        """The history policy of a setting; where it counts tokens, as the training counted."""
        by_bytes = parse_history(history)
        by_tokens = parse_history(history, self._chat)
        trained = "" if self._card is None else self._card.fingerprint
        return by_tokens if by_tokens.fingerprint == trained else by_bytes

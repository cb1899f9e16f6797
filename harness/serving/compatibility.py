"""The history windows and dialects under which a checkpoint is served, and how they differ from
its training."""

import msgspec
import structlog

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.core.folding import HISTORY as FOLDS
from rehearsal_room.harness.core.policy_card import PolicyCard, card_mismatches
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer

_MAX_FORMATS = 64  # that are remembered
_log = structlog.get_logger(__name__)


class ServingFormat(msgspec.Struct, frozen=True):
    """The history window and the dialect in which the model sees a conversation."""

    history: HistoryWindow
    dialect: Dialect
    warnings: tuple[str, ...]  # one sentence for each difference from the training


class ServingFormats:
    """The formats of one checkpoint: its default, and others that clients request.

    `history` and `dialect` define the default; empty: those of the model card. Raises SettingsError
    where there is neither.
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
        self._known: dict[tuple[str, str], ServingFormat] = {}
        self._history = history or (card.history if card else "")
        self._dialect = dialect or (card.dialect if card else "")
        if not self._history or not self._dialect:
            raise SettingsError(
                f"{name} has no model card (rehearsal.json) with the history window and the dialect"
                " of its training: pass --history and --dialect"
            )
        self.default = self.get()

    @property
    def version(self) -> str:
        """The version of the checkpoint's weights; empty: not known."""
        return "" if self._card is None else self._card.version

    def get(self, history: str = "", dialect: str = "") -> ServingFormat:
        """The format of these settings; empty: those of the default. Raises
        SettingsError."""
        key = (history or self._history, dialect or self._dialect)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_FORMATS:
                self._known.clear()
            known = self._known[key] = self._make(*key)
        return known

    def _make(self, history: str, dialect: str) -> ServingFormat:
        policy = self._policy(history)
        if self._card is None:
            return ServingFormat(policy, dialect_of(dialect), ())
        mismatches = card_mismatches(
            self._card, history=policy.spec, fingerprint=policy.fingerprint, dialect=dialect
        )
        for mismatch in mismatches:
            _log.warning("misaligned", model=self._name, why=mismatch)
        return ServingFormat(policy, dialect_of(dialect), tuple(mismatches))

    def _policy(self, history: str) -> HistoryWindow:
        """The history window of a setting; it counts tokens in the way of the training."""
        if history == FOLDS:
            raise SettingsError(
                f"history: {history!r} gives the agent a tool, which the client would have to"
                " answer: serve with another history window"
            )
        by_bytes = parse_history(history)
        by_tokens = parse_history(history, self._chat)
        trained = "" if self._card is None else self._card.fingerprint
        return by_tokens if by_tokens.fingerprint == trained else by_bytes

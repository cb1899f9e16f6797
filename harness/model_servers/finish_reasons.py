"""What the words mean by which servers say why a reply ended. One table; docs/model-servers.md
shows it.

Words are compared without regard to case, and `-` and spaces are `_`. A gateway may put its own
word before the provider's (`content_filter: RECITATION`). A word that is not in the table is read
as `stop`, with one warning; a reply under it that has neither text nor calls has failed.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import structlog

from rehearsal_room.scenarios.core.short_text import one_line

FinishKind = Literal["stop", "calls", "cut", "failed", "refused"]

WORDS: dict[FinishKind, frozenset[str]] = {
    # The model ended its reply.
    "stop": frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"}),
    # The reply makes calls; without one it is a failed reply.
    "calls": frozenset(
        {"tool_calls", "tool_call", "function_call", "tool_use", "function_calls", "tool"}
    ),
    # The model was stopped at a limit of tokens: `token_limit`, and none of its calls is made.
    "cut": frozenset(
        {
            *("length", "max_tokens", "max_output_tokens", "max_length", "model_length"),
            *("model_context_window_exceeded", "context_length", "context_window_exceeded"),
            *("context_length_exceeded", "token_limit", "error_limit", "limit"),
            "repetition",  # vLLM stops a model that repeats itself
        }
    ),
    # The server failed while it generated: another attempt, then `policy_error`.
    "failed": frozenset(
        {
            *("error", "abort", "aborted", "network_error", "failed", "failure", "timeout"),
            *("cancelled", "canceled", "interrupted", "server_error", "unavailable", "overloaded"),
            *("insufficient_system_resource", "malformed_function_call", "eval_failure"),
            *("malformed_tool_call", "unexpected_tool_call", "too_many_tool_calls"),
            *("missing_thought_signature", "internal_error", "internal_server_error"),
            *("upstream_error", "connection_error", "provider_error", "user_cancel"),
            *("malformed_response", "malformed_model_output", "malformed_tool_use"),
            *("function_call_filter", "load", "unload"),
        }
    ),
    # The provider withheld the reply: `model_refused`.
    "refused": frozenset(
        {
            *("content_filter", "content_filtered", "refusal", "refused", "safety", "sensitive"),
            *("recitation", "blocklist", "prohibited_content", "spii", "guardrail_intervened"),
            *("image_safety", "content_policy_violation", "moderation"),
            *("error_toxic", "language", "image_prohibited_content", "image_recitation"),
            *("model_armor", "guardrail"),
        }
    ),
}
_KINDS: dict[str, FinishKind] = {word: kind for kind, words in WORDS.items() for word in words}
_RANKS: tuple[FinishKind | None, ...] = ("failed", "refused", "cut", "calls", "stop", None)
_log = structlog.get_logger(__name__)


def finish_kind(word: Any) -> FinishKind | None:
    """The meaning of a finish reason as a server sent it; None: it sent none.

    Example: "max_tokens" -> "cut"; "SAFETY" -> "refused"; "whatever" -> "stop", with a warning
    """
    if word is None or word == "":
        return None
    if isinstance(word, dict):  # SGLang's: {"type": "length", "length": 128}
        word = word.get("type") or word
    if not isinstance(word, str):
        word = repr(word)
    return _KINDS.get(word) or (None if is_blank(word) else known_kind(word) or _unknown(word))


def known_kind(word: Any) -> FinishKind | None:
    """The meaning of a finish reason; None: it is none that is known.

    Example: "function_call_filter: MALFORMED_FUNCTION_CALL" -> "failed"
    """
    if isinstance(word, dict):
        word = word.get("type")
    if not isinstance(word, str):
        return None
    parts = [word, *reversed(re.split(r"[:.]", word))]
    return next((_KINDS[part] for part in map(_spelled, parts) if part in _KINDS), None)


def is_blank(word: Any) -> bool:
    """Whether a finish reason says that there is none yet, as streams of some servers do."""
    return word is None or (
        isinstance(word, str) and word.strip().lower() in ("", "null", "none", "unspecified")
    )


def worst(kinds: Iterable[FinishKind | None]) -> FinishKind | None:
    """Of several meanings the one that counts."""
    return min(kinds, key=_RANKS.index)


def _spelled(word: str) -> str:
    """A word as the table has it.

    Example: "FINISH_REASON_SAFETY" -> "safety"; "maxTokens" -> "max_tokens"
    """
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word.strip())
    return re.sub(r"[\s-]+", "_", word).lower().removeprefix("finish_reason_")


@lru_cache(256)  # one warning for each word
def _unknown(word: str) -> FinishKind:
    _log.warning("finish_reason_unknown", finish_reason=one_line(word, 40), read_as="stop")
    return "stop"

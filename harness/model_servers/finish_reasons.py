"""What the words mean by which servers say why a reply ended. One table; docs/model-servers.md
shows it.

Words are compared without regard to case, and `-` and spaces are `_`. A word that is not in the
table is read as `stop`, with one warning.
"""

import re
from functools import lru_cache
from typing import Any, Literal

import structlog

from rehearsal_room.scenarios.core.short_text import one_line

FinishKind = Literal["stop", "calls", "cut", "failed", "refused"]

WORDS: dict[FinishKind, frozenset[str]] = {
    # The model ended its reply.
    "stop": frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"}),
    # The reply makes calls; without one it is a failed reply.
    "calls": frozenset({"tool_calls", "tool_call", "function_call", "tool_use", "function_calls"}),
    # The model was stopped at a limit of tokens: `token_limit`, and none of its calls is made.
    "cut": frozenset(
        {
            *("length", "max_tokens", "max_output_tokens", "max_length", "model_length"),
            *("model_context_window_exceeded", "context_length", "context_window_exceeded"),
            *("context_length_exceeded", "token_limit", "error_limit", "limit"),
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
            *("upstream_error", "connection_error", "provider_error"),
        }
    ),
    # The provider withheld the reply: `model_refused`.
    "refused": frozenset(
        {
            *("content_filter", "content_filtered", "refusal", "refused", "safety", "sensitive"),
            *("recitation", "blocklist", "prohibited_content", "spii", "guardrail_intervened"),
            *("image_safety", "content_policy_violation", "moderation"),
            *("error_toxic", "language", "image_prohibited_content", "image_recitation"),
        }
    ),
}
_KINDS: dict[str, FinishKind] = {word: kind for kind, words in WORDS.items() for word in words}
_log = structlog.get_logger(__name__)


def finish_kind(word: Any) -> FinishKind | None:
    """The meaning of a finish reason as a server sent it; None: it sent none.

    Example: "max_tokens" -> "cut"; "SAFETY" -> "refused"; "whatever" -> "stop", with a warning
    """
    if word is None or word == "":
        return None
    if not isinstance(word, str):
        word = repr(word)
    return (
        _KINDS.get(word)
        or _KINDS.get(re.sub(r"[\s-]+", "_", word.strip().lower()))
        or _unknown(one_line(word, 40))
    )


@lru_cache(256)  # one warning for each word
def _unknown(word: str) -> FinishKind:
    _log.warning("finish_reason_unknown", finish_reason=word, read_as="stop")
    return "stop"

"""Completions by token ids of a vLLM server: request and response (/v1/completions of vLLM 0.32.0).

A request has every setting that a server could fill in from a model's generation_config.json, so
that the sampler draws from the distribution that the trainer computes.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rehearsal_room.harness.chat.completions import error_in, failure_of_error, generation_fault
from rehearsal_room.harness.chat.retry import AttemptFailure
from rehearsal_room.harness.core.errors import PolicyError
from rehearsal_room.harness.model_servers.finish_reasons import finish_kind
from rehearsal_room.harness.policies.token_agent import GeneratedTokens

_NO_LOGPROB = -9999.0  # vLLM reports it in place of minus infinity
_MAX_LOGPROB = 0.01  # 0, and room for rounding
_MAX_TOKENS = 2**53  # of one request


class CompletionRequest(msgspec.Struct, frozen=True, gc=False):
    """The body of a request for one completion."""

    model: str
    prompt: Sequence[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    stop_token_ids: Sequence[int]
    allowed_token_ids: Sequence[int] | None = None  # None: all may be sampled
    logprobs: int = 0  # of the sampled tokens only
    return_token_ids: bool = True
    return_tokens_as_token_ids: bool = True  # the server need not decode each token
    top_k: int = 0  # 0: off
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0


_Id = Annotated[int, Meta(ge=0, lt=2**31)]  # the log stores 32 bits


class _Logprobs(msgspec.Struct, gc=False):
    token_logprobs: list[float | None] = []


class _Choice(msgspec.Struct, gc=False):
    token_ids: list[_Id] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct, gc=False):
    cached_tokens: Annotated[int, Meta(ge=0, le=_MAX_TOKENS)] | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Completion(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Completion).decode


def request_body(request: CompletionRequest) -> bytes:
    """The request as it is sent."""
    return _encode(request)


def read_tokens(
    body: bytes, num_prompt: int, *, attempts: int, weights: str = ""
) -> GeneratedTokens | AttemptFailure:
    """The continuation of a prompt of `num_prompt` tokens, or a failure after which another
    attempt may succeed.

    Raises PolicyError where the server cannot return token ids.
    """
    try:
        completion = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return AttemptFailure("malformed", f"the answer is not a completion: {exc}")
    if (completion.error or not completion.choices) and (error := error_in(body)) is not None:
        return failure_of_error(error)
    if not completion.choices:
        return AttemptFailure("malformed", "the answer contains no choice")
    choice = completion.choices[0]
    if (failure := generation_fault(choice.finish_reason)) is not None:
        return failure
    if choice.token_ids is None:
        raise PolicyError(
            "the answer has no token ids (return_token_ids): the server is not vLLM, or its version"
            " is too old"
        )
    logprobs = choice.logprobs.token_logprobs if choice.logprobs is not None else []
    if len(logprobs) != len(choice.token_ids):
        raise PolicyError(
            f"the answer has {len(choice.token_ids)} tokens and {len(logprobs)} log-probabilities"
        )
    known = [
        value for value in logprobs if value is not None and _NO_LOGPROB < value <= _MAX_LOGPROB
    ]
    if not known or len(known) < len(logprobs):
        return AttemptFailure("malformed", "the answer contains a token without a log-probability")
    usage = completion.usage or _Usage()
    if usage.prompt_tokens not in (None, num_prompt):
        raise PolicyError(
            f"{num_prompt} tokens were sent and the server read {usage.prompt_tokens}"
        )
    details = usage.prompt_tokens_details or _Details()
    return GeneratedTokens(
        choice.token_ids,
        known,
        "length" if finish_kind(choice.finish_reason) == "cut" else "stop",
        weights,
        cached_tokens=details.cached_tokens or 0,
        attempts=attempts,
    )

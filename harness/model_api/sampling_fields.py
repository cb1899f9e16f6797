"""The fields of a chat request that a served checkpoint follows. Unsupported ones are refused,
never ignored: several choices, stop words, log-probabilities, formats of the reply, and a required
tool call."""

from typing import Any

import msgspec

from rehearsal_room.harness.model_api.request import ModelRequest, UnsupportedRequest


class FormatOverrides(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client's own history window and dialect (`extra_body={"rehearsal": {...}}`). Empty: those
    of the checkpoint."""

    history: str = ""
    dialect: str = ""


class SamplingFields(msgspec.Struct, frozen=True):
    """How a client wants its reply. None: the server chooses the value."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    calling: bool = True  # whether the reply has tool calls; else they are part of its text
    overrides: FormatOverrides = FormatOverrides()


class _Sent(msgspec.Struct, frozen=True):
    tool_choice: Any = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    seed: int | None = None
    rehearsal: FormatOverrides | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    response_format: dict[str, Any] | None = None


def sampling_fields(request: ModelRequest) -> SamplingFields:
    """The fields of a request. Raises UnsupportedRequest, whose message names the field."""
    try:
        sent = msgspec.convert({**request.fields, "rehearsal": request.own}, _Sent)
    except msgspec.ValidationError as exc:
        raise UnsupportedRequest(f"the body is not a chat request: {exc}") from exc
    _check_supported(sent)
    max_tokens = sent.max_completion_tokens
    if max_tokens is None:
        max_tokens = sent.max_tokens
    if max_tokens is not None and max_tokens < 1:
        raise UnsupportedRequest(f"max_tokens: must be at least 1, not {max_tokens}")
    return SamplingFields(
        sent.temperature,
        sent.top_p,
        max_tokens,
        sent.seed,
        calling=sent.tool_choice != "none",
        overrides=sent.rehearsal or FormatOverrides(),
    )


def _check_supported(sent: _Sent) -> None:
    if sent.n not in (None, 1):
        raise UnsupportedRequest(f"n: the server returns one choice, not {sent.n}")
    if sent.stop:
        raise UnsupportedRequest("stop: a reply ends with the model's end token, not with words")
    if sent.logprobs:
        raise UnsupportedRequest("logprobs: the server does not return log-probabilities")
    if (sent.response_format or {}).get("type", "text") != "text":
        raise UnsupportedRequest("response_format: the server returns text only")
    if sent.tool_choice not in (None, "auto", "none"):
        raise UnsupportedRequest("tool_choice: the model decides whether it calls a tool")
    if sent.temperature is not None and sent.temperature < 0:
        raise UnsupportedRequest(f"temperature: must be at least 0, not {sent.temperature}")
    if sent.top_p is not None and not 0 < sent.top_p <= 1:
        raise UnsupportedRequest(f"top_p: must be above 0 and at most 1, not {sent.top_p}")

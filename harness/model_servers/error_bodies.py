"""The error that a server's answer reports, wherever it puts it and whatever its status is.

OpenAI's form is `{"error": {"message", "type", "code"}}`. Others use a text in its place, a list
(`errors`), a field of their own (MiniMax's `base_resp`, Baidu's `error_code`), or the fields
`message` and `code` alone, some of them with status 200.
"""

from typing import Any

import msgspec

from rehearsal_room.scenarios.core.short_text import one_line

MAX_MESSAGE = 500  # characters of a server's message that are shown
_MESSAGES = ("message", "detail", "msg", "error_msg", "status_msg", "Message", "errorMessage")
_CODES = ("code", "error_code", "status_code", "Code", "errcode")
_STATUSES = ("status", "statusCode", "status_code", "http_status")
_SUCCESS = frozenset({0, "0", 200, "200", "success", "Success", "ok", "OK"})
# The statuses that codes of answers with status 200 stand for; MiniMax's have four digits.
_STATUS_OF_CODE = {
    **dict.fromkeys(
        ("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "throttlingexception"), 429
    ),
    **dict.fromkeys(("1002", "1039", "1041"), 429),
    **dict.fromkeys(("overloaded_error", "engine_overloaded_error"), 529),
    **dict.fromkeys(
        ("authentication_error", "invalid_api_key", "invalid_authentication_error", "1004"), 401
    ),
    **dict.fromkeys(("permission_error", "insufficient_balance", "1008"), 403),
    **dict.fromkeys(("2013", "invalid_request_error"), 400),
}
_NO_ENDPOINT = "Unexpected endpoint or method."  # LM Studio's, which it sends with status 200


class ReportedError(msgspec.Struct, frozen=True):
    """An error in words. `status` is the one in the body; 0: it has none."""

    message: str
    code: str
    status: int


def error_of(found: Any) -> Any:
    """The error that a decoded body reports; None: it reports none. Beside choices only `error`
    counts.

    Example: {"object": "error", "message": "busy", "code": 503} -> the same
    """
    if not isinstance(found, dict):
        return None
    error = found.get("error")
    if error:
        if isinstance(error, dict):
            return error if _is_failure(error) else None
        beside = {name: found[name] for name in (*_CODES, *_STATUSES) if name in found}
        says = _first(found, _MESSAGES) or error
        return {"message": says, **beside} if beside or says is not error else error
    if found.get("choices"):
        return None
    if errors := found.get("errors"):
        return errors[0] if isinstance(errors, list) else errors
    for inner in (found.get("base_resp"), found.get("Response")):
        inner = inner.get("Error", inner) if isinstance(inner, dict) else inner
        if isinstance(inner, dict) and _first(inner, _MESSAGES) and _is_failure(inner):
            return inner
    if not _first(found, _MESSAGES):
        return None
    is_error = found.get("object") == "error" or found.get("success") is False
    code = _first(found, _CODES)
    if is_error or "detail" in found or (code and not _is_success(code)):
        return found
    return None


def reported(error: Any) -> ReportedError:
    """An error in words. Beside a number as its code the type is the code.

    Example: {"message": "m", "type": "t", "code": 503} -> ReportedError("m", "t", 503)
    """
    if not isinstance(error, dict):
        text = error if isinstance(error, str) else repr(error)
        return ReportedError(one_line(text, MAX_MESSAGE), "", 0)
    message = _first(error, _MESSAGES) or error
    text = message if isinstance(message, str) else repr(message)
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and (raw := metadata.get("raw")):
        text = f"{text}: {raw}"  # what OpenRouter got from the model's provider
    details = error.get("details")
    if isinstance(details, list) and (inner := [_detail(one) for one in details]):
        text = ": ".join([text, *filter(None, inner)])
    code, kind = str(_first(error, _CODES) or ""), str(error.get("type") or "")
    innermost = error.get("innererror")
    if isinstance(innermost, dict) and not code:  # Azure's
        code = str(innermost.get("code") or "")
    status = _status(code) or next(filter(None, (_status(error.get(n)) for n in _STATUSES)), 0)
    code = (kind or code) if status and _status(code) else (code or kind)
    return ReportedError(one_line(text, MAX_MESSAGE), code, status)


def status_of(error: ReportedError) -> int:
    """The status that an error with status 200 should have had; 0: it does not say."""
    if error.message.startswith(_NO_ENDPOINT):
        return 404
    return error.status or _STATUS_OF_CODE.get(error.code.lower(), 0)


def headers_in(error: Any, found: Any) -> dict[str, str]:
    """What a body says that others say in headers: for how long to wait, and a proxied server's
    limits (OpenRouter's).

    Example: {"error": "loading", "estimated_time": 20.0} -> {"retry-after": "20.0"}
    """
    headers: dict[str, str] = {}
    for place in (found, error):
        if not isinstance(place, dict):
            continue
        metadata = place.get("metadata")
        if isinstance(metadata, dict) and isinstance(inner := metadata.get("headers"), dict):
            headers |= {str(name).lower(): str(value) for name, value in inner.items()}
        wait = place.get("retry_after") or place.get("estimated_time")
        if isinstance(wait, int | float):
            headers["retry-after"] = str(wait)
    return headers


def shown_page(body: bytes) -> str:
    """A web page, with its title.

    Example: b"<html><title>502 Bad Gateway</title>" -> "a web page (HTML, '502 Bad Gateway')"
    """
    text = body[:20_000].decode(errors="replace")
    begin = text.lower().find("<title")
    title = text[begin:].partition(">")[2].partition("<")[0] if begin >= 0 else ""
    title = one_line(title, 100)
    return f"a web page (HTML, {title!r})" if title else "a web page (HTML)"


def _first(found: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((found[name] for name in names if found.get(name)), None)


def _is_failure(error: dict[str, Any]) -> bool:
    """Whether an object says more than that there was no error."""
    codes = [error[name] for name in _CODES if error.get(name) not in (None, "")]
    if codes and all(_is_success(code) for code in codes):
        return False
    return any(error.values())


def _is_success(code: Any) -> bool:
    return isinstance(code, str | int) and code in _SUCCESS


def _detail(detail: Any) -> str:
    """What one of several details says, as in validation errors and in Google's."""
    if not isinstance(detail, dict):
        return detail if isinstance(detail, str) else ""
    if isinstance(delay := detail.get("retryDelay"), str):
        return f"retry in {delay}"
    says = detail.get("msg") or detail.get("message")
    return says if isinstance(says, str) else ""


def _status(value: Any) -> int:
    """A status of a failure; 0: the value is none.

    Example: "503" -> 503; "context_length_exceeded" -> 0
    """
    text = str(value)
    status = int(text) if text.isascii() and text.isdecimal() and len(text) == 3 else 0
    return status if 400 <= status <= 599 else 0

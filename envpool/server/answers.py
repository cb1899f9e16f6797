"""What all our HTTP applications answer: JSON, and errors in the form of each protocol."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rehearsal_room.envpool.server.api import ErrorBody

JSON = "application/json"
# An error as a response: its status, a sentence, and headers.
RefusalOf = Callable[[int, str, Mapping[str, str] | None], Response]
ErrorHandler = Callable[[Request, Exception], Awaitable[Response]]
ErrorHandlers = dict[Any, ErrorHandler]
_encode = msgspec.json.Encoder().encode


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response whose body is the JSON of a value."""
    return Response(_encode(value), status, headers, JSON)


def error(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error of the lease API."""
    return json(ErrorBody(why), status, headers)


def retry(status: int) -> dict[str, str] | None:
    """The header of a refusal that passes: with 429 and 503 a client may try again."""
    return {"Retry-After": "1"} if status in (429, 503) else None


def handlers_with(refusal: RefusalOf) -> ErrorHandlers:
    """The exception handlers of an application whose errors have this form."""

    async def answer(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)
        status, headers = exc.status_code, exc.headers
        if status == 405:
            allowed = ", ".join(sorted((headers or {}).get("Allow", "").split(", ")))
            return refusal(status, f"{request.method} is not served here", {"Allow": allowed})
        is_unknown = exc.detail == HTTPStatus.NOT_FOUND.phrase  # no route has this path
        why = f"there is nothing at {request.scope['path']}" if is_unknown else exc.detail
        return refusal(status, why, headers)

    async def incomplete(request: Request, exc: Exception) -> Response:
        return refusal(400, "the body is incomplete", None)

    return {HTTPException: answer, ClientDisconnect: incomplete}

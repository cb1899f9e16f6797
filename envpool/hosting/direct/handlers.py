"""The handlers of routes: FastAPI's own code, with faster helpers where nobody sees a difference.

A handler is the function that makes a response of a request. It is used as FastAPI wrote it, but
with other globals: no telemetry (which the FastAPI of AWM's code does not have), parameters by a
prepared plan (envpool.hosting.direct.parameters), and the content type of JSON without a parser of
mail headers. The module `fastapi.routing` itself stays as it is.
"""

import email.message
import inspect
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

from fastapi import routing
from fastapi.params import Form
from fastapi.routing import APIRoute, request_response
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from rehearsal_room.envpool.hosting.direct.parameters import Parameters

Handler = Callable[[Request], Awaitable[Response]]

_HANDLING = request_response(None).__code__  # type: ignore[arg-type]
_MADE_BY_FASTAPI = "get_request_handler.<locals>.app"
_NOTHING = nullcontext()
_REPLACED = (
    "_operation",
    "email",
    "get_telemetry_data",
    "run_endpoint_function",
    "solve_dependencies",
)
_ORIGINALS = {name: vars(routing)[name] for name in _REPLACED}


class Handlers:
    """The handlers of one application's routes."""

    def __init__(self) -> None:
        replaced = {
            "_operation": _operation,
            "email": SimpleNamespace(message=SimpleNamespace(Message=_ContentType)),
            "get_telemetry_data": _no_telemetry,
            "run_endpoint_function": _run_endpoint,
            "solve_dependencies": Parameters().solve,
        }
        names = vars(routing)
        for name, original in _ORIGINALS.items():
            if names[name] is not original:  # the code has replaced it
                del replaced[name]
        self._globals = {**names, **replaced}

    def of(self, route: Any) -> Handler | None:
        """The function that makes a route's response of its request; None: the route does more,
        such as to close what its dependencies have opened."""
        if type(route) is not APIRoute or getattr(route.app, "__code__", None) is not _HANDLING:
            return None
        call, body = route.dependant.call, route.body_field
        is_stream = inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call)
        is_form = body is not None and isinstance(body.field_info, Form)
        if route.dependant.dependencies or is_form or is_stream or route.is_json_stream:
            return None
        app: Any = route.app
        handler: Any = inspect.getclosurevars(app).nonlocals["f"]
        if getattr(handler, "__qualname__", "") != _MADE_BY_FASTAPI:
            return None
        copy: Any = FunctionType(
            handler.__code__,
            self._globals,
            handler.__name__,
            handler.__defaults__,
            handler.__closure__,
        )
        return copy  # type: ignore[no-any-return]


def _operation(**_: Any) -> Any:
    return _NOTHING


def _no_telemetry() -> None:
    return None


def _run_endpoint(*, dependant: Any, values: dict[str, Any], is_coroutine: bool) -> Any:
    """What awaits the endpoint: `fastapi.routing.run_endpoint_function` without a step between."""
    call = dependant.call
    return call(**values) if is_coroutine else run_in_threadpool(partial(call, **values))


class _ContentType:
    """The header of one message, as far as FastAPI asks for it."""

    __slots__ = ("_value",)

    def __setitem__(self, name: str, value: str) -> None:
        self._value = value

    def get_content_maintype(self) -> str:
        """The part before the slash, in small letters."""
        return "application" if self._value == "application/json" else self._parsed()[0]

    def get_content_subtype(self) -> str:
        """The part after the slash, in small letters."""
        return "json" if self._value == "application/json" else self._parsed()[1]

    def _parsed(self) -> tuple[str, str]:
        message = email.message.Message()
        message["content-type"] = self._value
        return message.get_content_maintype(), message.get_content_subtype()

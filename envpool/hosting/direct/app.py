"""Answer a request of a plain application with fewer steps than FastAPI takes.

FastAPI passes a request through a dozen coroutines before it reaches the endpoint's handler: a
twelfth of a call. In an application without middleware of its own nearly all of them only wait for
an exception. `DirectApp` finds the route, calls its handler and sends the response. An exception
goes through FastAPI's own layers, so that it is answered as before.

Everything that is not plain is left to the application itself: other kinds of routes, middleware, a
root path, a request that no route accepts.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from fastapi import FastAPI
from fastapi._body_limit import AppBodyLimitMiddleware
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute, APIRouter
from fastapi.telemetry._asgi import ExceptionTelemetryMiddleware
from starlette._exception_handler import wrap_app_handling_exceptions
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.routing import Match, Route

from rehearsal_room.envpool.hosting.direct.exchange import Exchange
from rehearsal_room.envpool.hosting.direct.handlers import Handler, Handlers

Scope = MutableMapping[str, Any]
_Matches = Callable[[Any], tuple[Match, Any]]

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

# The layers of an application without middleware of its own, from outside to inside.
_LAYERS = (
    ServerErrorMiddleware,
    ExceptionTelemetryMiddleware,
    AppBodyLimitMiddleware,
    ExceptionMiddleware,
    AsyncExitStackMiddleware,
)
_FAILURE = "rehearsal.failure"  # of a scope: the exception that the layers are to answer
_STARTED = {"type": "http.response.start"}  # tells the layers that a response was begun


class _Choice(NamedTuple):
    """A route that accepts the requests of one method."""

    prefix: str  # the literal beginning of its path
    matches: _Matches
    route: Any
    handler: Handler | None  # None: the route does more than to call it
    reads_body: bool


class DirectApp:
    """Runs the requests of one application."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app: Any = app
        self._is_plain: bool | None = None  # None: there was no request yet
        self._routes: list[Any] = []
        self._choices: dict[str, list[_Choice]] = {}  # by method
        self._failing: Any = None  # the layers around an exception

    async def __call__(self, scope: Scope, exchange: Exchange) -> None:
        """Answer a request. Raises what the application raises."""
        if self._is_plain is None:
            self._is_plain = self._prepare()
        choice = self._choose(scope) if self._is_plain else None
        if choice is None:
            await self._app(scope, exchange.receive, exchange.send)
            return
        scope["app"] = self._app
        scope["starlette.exception_handlers"] = self._handlers
        scope["router"] = self._app.router
        try:
            if choice.handler is None:
                async with AsyncExitStack() as stack:
                    scope["fastapi_middleware_astack"] = stack
                    await choice.route.app(scope, exchange.receive, exchange.send)
            else:
                await self._call(choice, scope, exchange)
        except Exception as exc:
            scope[_FAILURE] = exc, exchange.status is not None
            await self._failing(scope, exchange.receive, _without_mark(exchange))

    async def _call(self, choice: _Choice, scope: Scope, exchange: Exchange) -> None:
        """What fastapi.routing.request_response does, with stacks that stay empty: nothing is
        registered in the stacks of a route without dependencies, forms and streams."""
        assert choice.handler is not None
        request = Request(scope, exchange.receive, exchange.send)
        if choice.reads_body:  # its handler reads it first; a stream would take longer
            request._body = exchange.take_body()
            request._stream_consumed = True
        stack = _EmptyStack()
        scope["fastapi_middleware_astack"] = stack
        scope["fastapi_inner_astack"] = stack
        scope["fastapi_function_astack"] = stack
        try:
            response = await choice.handler(request)
            await response(scope, exchange.receive, exchange.send)
        except Exception as exc:
            scope[_FAILURE] = exc, exchange.status is not None
            answer = wrap_app_handling_exceptions(_fail, request)
            await answer(scope, exchange.receive, _without_mark(exchange))

    def _choose(self, scope: Scope) -> _Choice | None:
        """The route that accepts the request, whose scope it completes; None: the application
        itself must decide."""
        if self._app.router.routes != self._routes:  # the code has added or removed one
            return None
        path = scope["path"]
        for choice in self._choices.get(scope["method"], ()):
            if path.startswith(choice.prefix):
                match, child_scope = choice.matches(scope)
                if match is Match.FULL:
                    if type(choice.route) is not APIRoute:
                        return None
                    scope.update(child_scope)
                    return choice
        return None

    def _prepare(self) -> bool:
        """Whether the application is plain; if so, prepare its routes and layers."""
        app = self._app
        if not _is_plain(app):
            return False
        if app.middleware_stack is None:
            app.middleware_stack = app.build_middleware_stack()
        layers = _layers_of(app.middleware_stack)
        failing = _layers_of(app.build_middleware_stack())
        if layers is None or failing is None or layers[-1].app is not app.router:
            return False
        handling = layers[3]
        self._handlers = handling._exception_handlers, handling._status_handlers
        self._failing = failing[0]
        failing[3].app = _fail
        handlers = Handlers()
        self._routes = [*app.router.routes]
        for route in self._routes:
            prefix = ""
            if type(route) in (APIRoute, Route):
                prefix = route.path_format.partition("{")[0]
            reads_body = getattr(route, "body_field", None) is not None
            choice = _Choice(prefix, route.matches, route, handlers.of(route), reads_body)
            for method in getattr(route, "methods", None) or METHODS:
                self._choices.setdefault(method, []).append(choice)
        return True


class _EmptyStack(AsyncExitStack):
    """A stack in which nothing can be registered, so that nobody has to close it."""

    def _push_exit_callback(self, *_: Any) -> None:
        raise RuntimeError("a route without dependencies registers nothing")


def _is_plain(app: Any) -> bool:
    """Whether nothing but routes and exception handlers takes part in an answer."""
    return (
        type(app) is FastAPI
        and type(app.router) is APIRouter
        and app.router.middleware_stack == app.router.app
        and "build_middleware_stack" not in vars(app)
        and not (app.user_middleware or app.root_path or app.debug or app.router.form_limits)
        and app.max_body_size is None
        and not app._native_telemetry.enabled()
    )


def _layers_of(stack: Any) -> list[Any] | None:
    """The layers of an application from outside to inside; None: they are not the known ones."""
    layers = []
    for kind in _LAYERS:
        if type(stack) is not kind:
            return None
        layers.append(stack)
        stack = stack.app
    return layers


async def _fail(scope: Scope, _: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    """An application that raises the exception of an earlier attempt."""
    exc, was_started = scope.pop(_FAILURE)
    try:
        if was_started:
            await send(_STARTED)
        raise exc
    finally:
        del exc  # its traceback has this frame: together they would keep the endpoint's objects


def _without_mark(exchange: Exchange) -> Callable[[Any], Awaitable[None]]:
    async def send(message: Any) -> None:
        if message is not _STARTED:
            await exchange.send(message)

    return send

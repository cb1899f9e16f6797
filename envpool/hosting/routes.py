"""Finding a route sooner.

A router asks its routes one after the other whether they match; with 40 of them that costs 25 µs a
call, a thirtieth of it. A route whose path does not even begin as the request's does is asked a
cheaper question here. What routes answer stays the same, and so does their order.
"""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

_Matches = Callable[[Any], tuple[Match, Any]]


def hasten(app: FastAPI) -> None:
    """Let the application's plain routes refuse by their literal beginnings.

    Only where paths are compared as they are: not under a root path, not for routes of other kinds.
    """
    if app.root_path:
        return
    for route in app.router.routes:
        if type(route) is APIRoute:
            beginning = route.path_format.partition("{")[0]
            route.matches = _refusing(beginning, route.matches)  # type: ignore[assignment,method-assign]


def _refusing(beginning: str, matches: _Matches) -> _Matches:
    def refusing(scope: Any) -> tuple[Match, Any]:
        if scope["path"].startswith(beginning) or scope.get("root_path"):
            return matches(scope)
        return Match.NONE, {}

    return refusing

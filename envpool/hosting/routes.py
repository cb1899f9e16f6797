"""Find the route of a request faster.

A router asks its routes one after the other whether they match. With 40 routes that costs 25 µs, a
thirtieth of a call. Here a route first compares the literal beginning of its path, which is
cheaper. The answers of the routes and their order stay the same. (A plain application's requests do
not come here: see envpool.hosting.direct.app.)
"""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

_Matches = Callable[[Any], tuple[Match, Any]]


def compile_routes(app: FastAPI) -> None:
    """Make the application's plain routes reject a request by the literal beginning of their path.

    Applies only where a route's whole path is compared: not under a root path, and not to routes of
    other kinds.
    """
    if app.root_path:
        return
    for route in app.router.routes:
        if type(route) is APIRoute:
            prefix = route.path_format.partition("{")[0]
            route.matches = _with_prefix_check(prefix, route.matches)  # type: ignore[assignment,method-assign]


def _with_prefix_check(prefix: str, matches: _Matches) -> _Matches:
    def checked_matches(scope: Any) -> tuple[Match, Any]:
        if scope["path"].startswith(prefix) or scope.get("root_path"):
            return matches(scope)
        return Match.NONE, {}

    return checked_matches

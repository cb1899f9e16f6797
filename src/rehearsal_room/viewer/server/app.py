"""The viewer's ASGI application."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rehearsal_room.scenarios import distribution
from rehearsal_room.viewer.server.acting_routes import ActingRoutes
from rehearsal_room.viewer.server.answers import answering, error
from rehearsal_room.viewer.server.events import EventRoutes
from rehearsal_room.viewer.server.judge_routes import JudgeRoutes
from rehearsal_room.viewer.server.list_routes import ListRoutes
from rehearsal_room.viewer.server.page import page_routes
from rehearsal_room.viewer.server.presence_routes import PresenceRoutes
from rehearsal_room.viewer.server.run_routes import RunRoutes
from rehearsal_room.viewer.server.security import AsgiApp, HostGuard
from rehearsal_room.viewer.server.tries_routes import TriesRoutes
from rehearsal_room.viewer.server.updates import POLL_S
from rehearsal_room.viewer.server.viewer import Viewer
from rehearsal_room.viewer.server.world_routes import WorldRoutes


def viewer_app(viewer: Viewer, *, token: str, port: int) -> AsgiApp:
    """The application, which answers requests with this token and for this port."""
    routes = [
        *page_routes(),
        *PresenceRoutes(viewer, token=token, port=port).routes(),
        Route("/api/about", answering(_about)),
        *RunRoutes(viewer).routes(),
        *ListRoutes(viewer).routes(),
        *WorldRoutes(viewer).routes(),
        *JudgeRoutes(viewer).routes(),
        *ActingRoutes(viewer).routes(),
        *TriesRoutes(viewer).routes(),
        *EventRoutes(viewer).routes(),
    ]
    handlers: dict[int | type[Exception], Callable[[Request, Exception], Response]] = {
        HTTPException: _http_error
    }
    return HostGuard(Starlette(routes=routes, exception_handlers=handlers), token=token, port=port)


async def _about(request: Request) -> object:
    can = {"label": True, "play": True, "scratch": True, "sql": True}
    return {
        "version": distribution.version(),
        "exported": False,
        "live_poll_s": POLL_S,
        "can": can,
    }


def _http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    sentences = {404: "there is nothing at this address", 405: "this address takes another method"}
    return error(exc.status_code, sentences.get(exc.status_code, exc.detail))

"""All protocols of a server, by the beginning of the path."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

from anyio import AsyncContextManagerMixin
from starlette.routing import Mount, Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from rehearsal_room.envpool.protocols.episodes import Episodes
from rehearsal_room.envpool.protocols.gym import GymProtocol
from rehearsal_room.envpool.protocols.http import detail
from rehearsal_room.envpool.protocols.openenv import OpenEnvProtocol
from rehearsal_room.envpool.protocols.ors import OrsProtocol
from rehearsal_room.envpool.protocols.sessions import Sessions
from rehearsal_room.envpool.server.answers import RefusalOf
from rehearsal_room.envpool.server.guard import deny, headers_of
from rehearsal_room.envpool.server.leases import Leases

PREFIXES = ("openenv", "gym", "ors")
_OWN = ("worlds", "scenarios")  # paths of the lease API


class ServedProtocols(AsyncContextManagerMixin):
    """OpenEnv, NeMo Gym and ORS over the leases of a server. Use it in `async with`, inside of that
    of the leases. It implements envpool.server.app.Wires."""

    def __init__(self, leases: Leases, episodes: Episodes) -> None:
        self.sessions = Sessions(leases, episodes)
        openenv, ors = OpenEnvProtocol(self.sessions), OrsProtocol(self.sessions).app()
        self._gym = GymProtocol(self.sessions)
        self._no_socket = openenv.no_socket
        routes = [
            Route("/openenv", openenv.worlds),
            Mount("/openenv", openenv.app()),
            WebSocketRoute("/{path:path}", self._other_socket),
            Mount("/gym", self._gym.app()),
            Mount("/ors", ors),
            Mount("", ors),  # for the official client
        ]
        self._app = Router(routes, redirect_slashes=False)

    def __repr__(self) -> str:
        return f"<ServedProtocols {self.sessions!r}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self.sessions:
            yield self

    @property
    def num_sessions(self) -> int:
        """Sessions that are open."""
        return len(self.sessions)

    def claims(self, scope: Scope) -> bool:
        """Whether a request is for a protocol: by its path, ORS by its headers, or the call of a
        NeMo Gym session wherever it leads."""
        first, headers = scope["path"].split("/")[1], headers_of(scope)
        if first in PREFIXES or self._gym.is_astray(scope):
            return True
        return first not in _OWN and (b"x-session-id" in headers or b"x-deployment" in headers)

    def sender(self, scope: Scope, send: Send) -> Send:
        """What sends the response to a request; errors of the checks before go through it, too."""
        return self._gym.sender(scope, send)

    @property
    def refusal(self) -> RefusalOf:
        """The form of the errors of these protocols."""
        return detail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one WebSocket. Empty parts of its path do not count."""
        path = "/" + "/".join(filter(None, scope["path"].split("/")))
        scope = {**scope, "path": path}
        if self._gym.is_astray(scope):
            why = "this session has an open episode, and its calls go to the path of its world"
            await detail(404, why)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _other_socket(self, socket: WebSocket) -> None:
        """A WebSocket at a path that has none."""
        path = socket.scope["path"]
        if self.claims(socket.scope):
            await self._no_socket(socket)
        else:
            await deny(socket, detail(404, f"there is nothing at {path}"))

"""All wires of a server, by the beginning of the path."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.messages import Headers, Receive, Request, Response, Scope, Send
from rehearsal_room.envpool.wires.episodes import Episodes
from rehearsal_room.envpool.wires.gym import GymWire
from rehearsal_room.envpool.wires.http import Socket, WireError, refusal
from rehearsal_room.envpool.wires.openenv import OpenEnvWire
from rehearsal_room.envpool.wires.ors import OrsWire
from rehearsal_room.envpool.wires.sessions import Sessions

PREFIXES = ("openenv", "gym", "ors")
_OWN = ("worlds", "scenarios")  # paths of the lease API


class ServedWires(AsyncContextManagerMixin):
    """OpenEnv, NeMo Gym and ORS over the leases of a server. Use it in `async with`, inside of that
    of the leases. It implements envpool.server.app.Wires."""

    def __init__(self, leases: Leases, episodes: Episodes) -> None:
        self.sessions = Sessions(leases, episodes)
        self._openenv = OpenEnvWire(self.sessions)
        self._gym = GymWire(self.sessions)
        self._ors = OrsWire(self.sessions)

    def __repr__(self) -> str:
        return f"<ServedWires {self.sessions!r}>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self.sessions:
            yield self

    @property
    def num_sessions(self) -> int:
        """Sessions that are open."""
        return len(self.sessions)

    def claims(self, path: str, headers: Headers) -> bool:
        """Whether a request is for a wire: by its path, or ORS by its headers."""
        first = path.split("/")[1]
        if first in PREFIXES:
            return True
        return first not in _OWN and (b"x-session-id" in headers or b"x-deployment" in headers)

    async def respond(self, request: Request) -> Response:
        """The response to a request."""
        path = [part for part in request.path.split("/") if part]
        try:
            match path:
                case ["openenv", *rest]:
                    return await self._openenv.respond(request, rest)
                case ["gym", *rest]:
                    return await self._gym.respond(request, rest)
                case ["ors", *rest]:
                    return await self._ors.respond(request, rest)
            return await self._ors.respond(request, path)
        except WireError as error:
            return error.response()

    def refusal(self, status: int, why: str) -> Response:
        """An error in the form of these protocols."""
        return refusal(status, why)

    async def converse(
        self, scope: Scope, receive: Receive, send: Send, *, owner: int | None
    ) -> None:
        """Serve one WebSocket."""
        path = [part for part in scope["path"].split("/") if part]
        rest = path[1:] if path[:1] == ["openenv"] else []
        await self._openenv.converse(Socket(scope, receive, send), rest, owner)

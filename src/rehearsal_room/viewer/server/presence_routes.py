"""Routes by which a page sees that the server is there and which runs there are, and by which a
second `rehearse view` hands over what it was to show."""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.scenarios import distribution
from rehearsal_room.viewer.reading.open_runs import ShownRuns
from rehearsal_room.viewer.server.answers import answering, body_of
from rehearsal_room.viewer.server.kept_address import proof_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread

_MAX_WORD = 100


class ToShow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What another command line was to show: absolute paths."""

    version: str
    folders: Sequence[str] = ()
    bases: Sequence[str] = ()
    worlds: Sequence[str] = ()


class PresenceRoutes:
    """The handlers of /hello, /api/presence and /api/shown."""

    def __init__(self, viewer: Viewer, *, token: str, port: int) -> None:
        self._viewer = viewer
        self._token = token
        self._port = port
        self._session = secrets.token_hex(8)

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/hello", answering(self.hello)),
            Route("/api/presence", answering(self.presence)),
            Route("/api/shown", answering(self.show), methods=["POST"]),
        ]

    async def hello(self, request: Request) -> object:
        """The proof that this server has the token, which the caller need not send for it."""
        word = request.query_params.get("word", "")
        if not word or len(word) > _MAX_WORD:
            raise SettingsError(f"word: expected 1 to {_MAX_WORD} characters")
        return {"proof": proof_of(self._token, self._port, word)}

    async def presence(self, request: Request) -> object:
        """This server's session and version, and a digest of the runs: it changes when a run comes,
        goes, begins or ends."""
        return {
            "session": self._session,
            "version": distribution.version(),
            "runs": await in_thread(_digest_of, self._viewer.runs),
        }

    async def show(self, request: Request) -> object:
        """Show more runs and worlds."""
        asked = await body_of(request, ToShow)
        if asked.version != distribution.version():
            raise SettingsError(
                f"it is of version {distribution.version()}, and this command of {asked.version}: "
                "end it with Ctrl-C in its terminal, or pass --port 0 for a second one"
            )
        for folder in asked.folders:
            self._viewer.runs.add(Path(folder))
        for base in asked.bases:
            self._viewer.runs.add_base(Path(base))
        for world in asked.worlds:
            self._viewer.catalogue.add(Path(world))
        return {}


def _digest_of(runs: ShownRuns) -> str:
    states = [(run.id, run.is_gone(), run.is_live()) for run in runs.all()]
    return blake2b(msgspec.json.encode(states), digest_size=8).hexdigest()

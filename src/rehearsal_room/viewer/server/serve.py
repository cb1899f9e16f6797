"""Serve the viewer on loopback until a signal ends it."""

import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import anyio
import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.viewer.acting.blames import AskedBlames
from rehearsal_room.viewer.acting.catalogue import Catalogue
from rehearsal_room.viewer.acting.copies import copies_of
from rehearsal_room.viewer.acting.episodes import Plays
from rehearsal_room.viewer.acting.pools import OpenPools
from rehearsal_room.viewer.acting.scratch import Scratches
from rehearsal_room.viewer.acting.tries import PlayedTries
from rehearsal_room.viewer.reading.open_runs import ShownRuns
from rehearsal_room.viewer.server.app import viewer_app
from rehearsal_room.viewer.server.kept_address import HOST
from rehearsal_room.viewer.server.updates import open_updates
from rehearsal_room.viewer.server.viewer import Viewer

_DRAIN_S = 1.0


class ViewerSettings(msgspec.Struct, frozen=True):
    """What is shown, and where."""

    folders: Sequence[Path]
    bases: Sequence[Path] = ()  # whose runs are shown, too, as they come
    port: int = 0  # 0: a free one
    token: str = ""  # empty: a new one
    bus: str = ""  # URL of a broker; empty: none
    published: Sequence[str] = ()  # names of runs on it; none: the only live one
    worlds: Sequence[Path] = ()  # packages that are given by path


@asynccontextmanager
async def open_viewer(settings: ViewerSettings) -> AsyncIterator[Viewer]:
    """What the handlers share, for a block."""
    async with AsyncExitStack() as stack:
        folders = list(settings.folders)
        if settings.bus:
            copies = copies_of(settings.bus, settings.published)
            folders += await stack.enter_async_context(copies)
        runs = stack.enter_context(closing(ShownRuns(folders, settings.bases)))
        updates = await stack.enter_async_context(open_updates())
        async with anyio.create_task_group() as group:
            pools = OpenPools(group)
            viewer = Viewer(
                runs=runs,
                updates=updates,
                catalogue=Catalogue(settings.worlds),
                pools=pools,
                scratches=Scratches(group, pools),
                plays=Plays(group),
                tries=PlayedTries(group),
                blames=AskedBlames(group),
                closing=anyio.Event(),
            )
            try:
                yield viewer
            finally:
                viewer.closing.set()
                updates.wake()
                await viewer.plays.leave_all()
                group.cancel_scope.cancel()


async def serve(settings: ViewerSettings, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` gets the address. Raises SettingsError where the port
    is not free, and HarnessError where none of the folders can be read."""
    token = settings.token or secrets.token_urlsafe(24)
    port = settings.port or _free_port()
    async with open_viewer(settings) as viewer:
        app = viewer_app(viewer, token=token, port=port)
        try:
            async with listening(app, host=HOST, port=port, drain_s=_DRAIN_S):
                ready(f"http://{HOST}:{port}/?token={token}")
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                    async for _ in signals:
                        break
                viewer.closing.set()
                viewer.updates.wake()
        except PoolError as exc:
            raise SettingsError(f"--port: {exc}; choose another one") from exc


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port

"""Serve the viewer on loopback until a signal ends it."""

import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import anyio
import msgspec

from envpool.core.errors import PoolError
from envpool.server.http_server import listening
from harness.core.errors import SettingsError
from harness.viewer.reading.open_runs import Runs
from harness.viewer.reading.parts import JudgingParts
from harness.viewer.server.app import viewer_app
from harness.viewer.server.updates import open_updates
from harness.viewer.server.viewer import Viewer

HOST = "127.0.0.1"
_DRAIN_S = 1.0


class ServeSettings(msgspec.Struct, frozen=True):
    """What is shown, and where."""

    folders: Sequence[Path]
    base: Path | None  # whose runs are shown, too, as they come
    port: int  # 0: a free one


async def serve(settings: ServeSettings, parts: JudgingParts, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` gets the address. Raises SettingsError where the port
    is not free, and HarnessError where none of the folders can be read."""
    token = secrets.token_urlsafe(24)
    port = settings.port or _free_port()
    with closing(Runs(settings.folders, settings.base)) as runs:
        async with open_updates() as updates:
            viewer = Viewer(runs=runs, parts=parts, updates=updates, closing=anyio.Event())
            app = viewer_app(viewer, token=token, port=port)
            try:
                async with listening(app, host=HOST, port=port, drain_s=_DRAIN_S):
                    ready(f"http://{HOST}:{port}/?token={token}")
                    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                        async for _ in signals:
                            break
                    viewer.closing.set()
                    updates.wake()
            except PoolError as exc:
                raise SettingsError(f"--port: {exc}; choose another one") from exc


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port

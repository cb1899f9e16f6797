"""A real mosquitto on a free port of the loopback, for tests."""

import getpass
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
from anyio.abc import TaskStatus

_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin", "/usr/local/opt/mosquitto/sbin")
_START_TIMEOUT_S = 10.0


def mosquitto() -> str:
    """The path of the broker's program. Fails the test when it is not installed."""
    found = shutil.which("mosquitto")
    for folder in _FOLDERS:
        found = found or shutil.which("mosquitto", path=folder)
    assert found, "these tests start a broker: install mosquitto (2.0 or later)"
    return found


def free_port() -> int:
    """A port on which no program listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Mosquitto:
    """One broker, which can be killed and started again on its port."""

    def __init__(self, folder: Path, settings: str = "allow_anonymous true") -> None:
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._log = folder / "mosquitto.log"
        self._config.write_text(
            # As root it would switch to another user, who cannot read the test's folder.
            f"user {getpass.getuser()}\n"
            f"listener {self.port} 127.0.0.1\npersistence false\n{settings}\n",
            encoding="utf-8",
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; return when it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [mosquitto(), "-c", str(self._config)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                running = self._process.poll() is None and time.monotonic() < deadline
                assert running, f"mosquitto did not start: {self._log.read_text()}"
                time.sleep(0.01)

    def wait_for_client(self, process: subprocess.Popen[str]) -> None:
        """Return when a process has connected as a client, the first one, or has ended."""
        while "New client connected" not in self._log.read_text() and process.poll() is None:
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_broker(folder: Path, settings: str = "allow_anonymous true") -> Iterator[Mosquitto]:
    """A broker with these lines in its configuration, for as long as the block."""
    broker = Mosquitto(folder, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


class Cable:
    """A proxy in front of a broker that can cut its connections while the broker lives."""

    def __init__(self, broker: Mosquitto) -> None:
        self.port = free_port()
        self._broker_port = broker.port
        self._ends: list[anyio.abc.SocketStream] = []

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Forward all data, until cancelled."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        async with listener:
            task_status.started()
            await listener.serve(self._forward)

    async def cut(self) -> None:
        """Close all connections at once."""
        for end in self._ends:
            await anyio.aclose_forcefully(end)
        self._ends.clear()

    async def _forward(self, near: anyio.abc.SocketStream) -> None:
        async with near, await anyio.connect_tcp("127.0.0.1", self._broker_port) as far:
            self._ends += (near, far)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_copy, near, far)
                await _copy(far, near)
                tasks.cancel_scope.cancel()


async def _copy(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for data in source:
            await target.send(data)
    await anyio.aclose_forcefully(target)

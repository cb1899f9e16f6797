"""The baseline: the stack that AWM's worlds were written for, with one process for each episode.

A scenario's code is launched as AWM launches it: its database is built from the record, the line
that creates the engine is replaced, fastapi-mcp is mounted, uvicorn serves. It runs in a virtual
environment with the versions that AWM pins, which is created once, in the user's cache.
"""

import hashlib
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import aiohttp
import anyio
import msgspec
import psutil
from anyio import AsyncContextManagerMixin

from rehearsal_room.scenarios.format import AwmRecord

REQUIREMENTS = Path(__file__).parent / "genuine_server" / "requirements.txt"
_CREATES_ENGINE = "create_engine("
_SERVES = "uvicorn.run(app"
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}
_VERSION = "2025-06-18"
_START_S = 180.0  # seconds that a start may take, as in OpenEnv
_POLL_S = 0.01  # seconds between two checks whether it is up: AWM checks every half second

Call = tuple[str, dict[str, Any]]  # tool and arguments


def baseline_python() -> Path:
    """The Python of the baseline's environment, which is created when it does not exist."""
    pins = REQUIREMENTS.read_bytes()
    version = ".".join(map(str, sys.version_info[:3]))
    name = hashlib.blake2b(pins + version.encode(), digest_size=6).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or tempfile.gettempdir())
    folder = cache / f"rehearsal-genuine-{name}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"creating the baseline's environment in {folder} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = (str(python), "-I", "-m", "pip", "--quiet", "--disable-pip-version-check")
        subprocess.run([*pip, "install", "-r", str(REQUIREMENTS)], check=True)
        (folder / "complete").touch()
    return python


def launched_code(code: str, database: Path) -> str:
    """A scenario's code as AWM runs it.

    Example: "engine = create_engine(URL)" ->
    "engine = create_engine('sqlite:///…', connect_args={'check_same_thread': False})"
    """
    url = f"sqlite:///{database}"
    lines = []
    for line in code.splitlines():
        if _CREATES_ENGINE in line and "import" not in line:
            left = line.partition(_CREATES_ENGINE)[0]
            line = f"{left}create_engine({url!r}, connect_args={{'check_same_thread': False}})"
        if _SERVES in line:
            lines += ["    from fastapi_mcp import FastApiMCP", "    FastApiMCP(app).mount_http()"]
        lines.append(line)
    return "\n".join(lines) + "\n"


def build_database(record: AwmRecord, path: Path) -> None:
    """Build the record's database by AWM's rules: foreign keys on, failing statements skipped."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for table in record.tables:
            _run(connection, (table.ddl, *table.indexes, *table.examples))
        for sample in record.samples:
            _run(connection, sample.insert_statements)
    connection.close()


def _run(connection: sqlite3.Connection, statements: tuple[str, ...]) -> None:
    for statement in statements:
        with suppress(sqlite3.Error, sqlite3.Warning):
            connection.execute(statement)
    connection.commit()


class GenuineServer(AsyncContextManagerMixin):
    """A context manager: one server process, and one MCP session with it."""

    def __init__(self, python: Path, record: AwmRecord, session: aiohttp.ClientSession) -> None:
        self._python = python
        self._record = record
        self._http = session
        self._folder = tempfile.TemporaryDirectory(prefix="rehearsal-genuine-")
        self._headers = dict(_HEADERS)
        self._url = ""
        self._ids = 0
        self.start_s = 0.0  # from the start of the process to its tool list

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self, None]:
        folder = Path(self._folder.name)
        build_database(self._record, folder / "world.db")
        code = launched_code(self._record.code, folder / "world.db")
        (folder / "server.py").write_text(code)
        port = _free_port()
        self._url = f"http://127.0.0.1:{port}/mcp"
        environment = {
            "PATH": os.environ["PATH"],
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "PYTHONHASHSEED": "0",
            "TZ": "UTC",
        }
        began = time.perf_counter()
        process = _start([self._python, "server.py"], folder, environment)
        try:
            self._process, self._stats = process, psutil.Process(process.pid)
            with anyio.fail_after(_START_S):
                while not await self._is_up():  # noqa: ASYNC110 - no event announces it
                    await anyio.sleep(_POLL_S)
            self.start_s = time.perf_counter() - began
            yield self
        finally:
            process.kill()
            process.wait()
            self._folder.cleanup()

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The text of a call's result, and whether it is an error."""
        result = await self._ask("tools/call", {"name": name, "arguments": arguments})
        texts = [part["text"] for part in result["content"] if part["type"] == "text"]
        return "\n".join(texts), bool(result["isError"])

    def cpu_s(self) -> float:
        """CPU seconds that the process has used so far."""
        times = self._stats.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> tuple[int, int]:
        """Resident and proportional bytes; a shared page counts in part among the latter."""
        info = self._stats.memory_full_info()
        return int(info.rss), int(info.pss)

    async def _is_up(self) -> bool:
        """Whether the server lists its tools. Raises RuntimeError when its process has ended."""
        if self._process.poll() is not None:
            log = (Path(self._folder.name) / "server.log").read_text()[-2000:]
            raise RuntimeError(f"the genuine server's process ended; the end of its log is:\n{log}")
        try:
            await self._initialize()
        except aiohttp.ClientError:
            return False
        tools = await self._ask("tools/list", {})
        return bool(tools["tools"])

    async def _initialize(self) -> None:
        client = {
            "protocolVersion": _VERSION,
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        }
        body = self._body("initialize", client)
        async with self._http.post(self._url, data=body, headers=_HEADERS) as response:
            await response.read()
            self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            self._headers["MCP-Protocol-Version"] = _VERSION
        done = msgspec.json.encode({"jsonrpc": "2.0", "method": "notifications/initialized"})
        async with self._http.post(self._url, data=done, headers=self._headers) as response:
            await response.read()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = self._body(method, params)
        async with self._http.post(self._url, data=body, headers=self._headers) as response:
            reply: dict[str, Any] = msgspec.json.decode(await response.read())
        if "result" not in reply:
            raise RuntimeError(f"the genuine server answered {method} with {reply}")
        result: dict[str, Any] = reply["result"]
        return result

    def _body(self, method: str, params: dict[str, Any]) -> bytes:
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        return msgspec.json.encode(message)


def _start(
    command: list[str | Path], folder: Path, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])

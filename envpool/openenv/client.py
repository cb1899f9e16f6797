"""One session with an OpenEnv environment, over its WebSocket.

A message is answered before the next one is sent. The first message of a connection may be an error
that reports that the server has no room; the server then closes it.
"""

from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.scenarios.files import UNREADABLE

MAX_MESSAGE = 100 * 2**20  # bytes, as in OpenEnv's own clients
_encode = msgspec.json.Encoder().encode


class EnvResult(msgspec.Struct, frozen=True):
    """What `reset` and `step` return."""

    observation: dict[str, Any] = {}
    reward: bool | float | None = None
    done: bool = False


class EnvRefused(Exception):
    """The environment answered a message with an error."""

    def __init__(self, code: str, why: str, room: int | None = None) -> None:
        super().__init__(why)
        self.code = code  # as in `VALIDATION_ERROR`
        self.room = room  # how many sessions the server has room for; None: it did not say


class _Refusal(msgspec.Struct):
    message: str = "no reason was given"
    code: str = ""
    max_sessions: int | None = None


class _Answer(msgspec.Struct):
    type: str
    data: msgspec.Raw


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_result = msgspec.json.Decoder(EnvResult).decode
_read_refusal = msgspec.json.Decoder(_Refusal).decode


class EnvSession:
    """One connection, which is one session of the environment's server. `timeout_s` is the longest
    time between a message and its answer."""

    def __init__(self, http: aiohttp.ClientSession, url: str, *, timeout_s: float) -> None:
        self._http = http
        self._url = url
        self._timeout_s = timeout_s
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    async def open(self) -> None:
        """Connect. Raises PoolError."""
        address = f"{self._url.rstrip('/')}/ws".replace("http", "ws", 1)
        try:
            self._socket = await self._http.ws_connect(
                address, heartbeat=20.0, max_msg_size=MAX_MESSAGE
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            why = str(exc) or type(exc).__name__
            raise PoolError(f"{self._url}: the environment cannot be reached: {why}") from exc

    async def reset(self, options: dict[str, Any]) -> EnvResult:
        """Begin an episode. Raises EnvRefused and PoolError."""
        return await self._ask("reset", options)

    async def step(self, action: dict[str, Any]) -> EnvResult:
        """Take a step. Raises EnvRefused and PoolError."""
        return await self._ask("step", action)

    async def close(self) -> None:
        """End the session."""
        socket, self._socket = self._socket, None
        if socket is not None and not socket.closed:
            await socket.close()

    async def _ask(self, kind: str, data: dict[str, Any]) -> EnvResult:
        socket = self._socket
        assert socket is not None, "the session is open"
        # Where it is closed, the reason is among the messages that are still to be read.
        with suppress(ConnectionError, RuntimeError):
            await socket.send_str(_encode({"type": kind, "data": data}).decode())
        try:
            text = await socket.receive_str(timeout=self._timeout_s)
        except TypeError as exc:  # a message of closing
            raise PoolError(f"{self._url}: the environment closed the connection") from exc
        except TimeoutError as exc:
            why = f"no answer to {kind} within {self._timeout_s:g} s"
            raise PoolError(f"{self._url}: {why}") from exc
        except (aiohttp.ClientError, OSError, RuntimeError) as exc:
            raise PoolError(f"{self._url}: the connection was lost: {exc}") from exc
        return self._read(text)

    def _read(self, text: str) -> EnvResult:
        try:
            answer = _read_answer(text)
            if answer.type == "error":
                found = _read_refusal(answer.data)
                raise EnvRefused(found.code, found.message, found.max_sessions)
            return _read_result(answer.data)
        except UNREADABLE as exc:
            raise PoolError(f"{self._url}: its answer is not OpenEnv's: {exc}") from exc

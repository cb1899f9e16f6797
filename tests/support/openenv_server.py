"""A small OpenEnv server on loopback, whose environment has tools or one action.

    async with EnvServer(room=1) as server:
        ... connect to server.url; server.resets has the options of every reset

With tools: `add {"n": 2}` adds, `finish {"n": 5}` ends the episode, with reward 1 where the sum is
right; `boom` raises, `hang` never answers, `leave` closes the connection. Without: `{"value": 3}`
has reward 3 and ends at 5.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

from aiohttp import web
from anyio import AsyncContextManagerMixin

TOOLS = {"title": "Action", "properties": {"metadata": {"type": "object"}}, "type": "object"}
VALUE = {
    "title": "ValueAction",
    "type": "object",
    "properties": {"value": {"type": "integer"}, "metadata": {"type": "object"}},
    "required": ["value"],
}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}


class EnvServer(AsyncContextManagerMixin):
    """The server. `room`: the number of its sessions; `verdict`: what AWM's tool `verify` gives (an
    observation, or an error with its code)."""

    def __init__(
        self, *, has_tools: bool = True, room: int = 64, verdict: dict[str, Any] | None = None
    ) -> None:
        self.url = ""
        self.resets: list[Any] = []
        self.most = 0  # sessions at once
        self.live = 0
        self._has_tools = has_tools
        self._room = room
        self._verdict = verdict

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        app = web.Application()
        app.router.add_get("/schema", self._schema)
        app.router.add_get("/ws", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _schema(self, request: web.Request) -> web.Response:
        return web.json_response({"action": TOOLS if self._has_tools else VALUE})

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if self.live >= self._room:
            full = {"message": "full", "code": "CAPACITY_REACHED", "max_sessions": self._room}
            await socket.send_json({"type": "error", "data": full})
            await socket.close()
            return socket
        self.live += 1
        self.most = max(self.most, self.live)
        total = 0
        try:
            async for message in socket:
                asked = message.json()
                if asked["type"] == "reset":
                    self.resets.append(asked["data"])
                    total = 0
                    begun = {"note": "begun"} | (
                        {"reward_type": "reset_ok"} if self._verdict else {}
                    )
                    answer: Any = {"observation": begun, "reward": None, "done": False}
                elif self._has_tools:
                    total, answer = await self._tool(asked["data"], total, socket)
                else:
                    total += asked["data"]["value"]
                    answer = {
                        "observation": {"total": total},
                        "reward": asked["data"]["value"],
                        "done": total >= 5,
                    }
                if answer is None:
                    break
                kind = "error" if "code" in answer else "observation"
                await socket.send_json({"type": kind, "data": answer})
        finally:
            self.live -= 1
        return socket

    async def _tool(
        self, action: Any, total: int, socket: web.WebSocketResponse
    ) -> tuple[int, dict[str, Any] | None]:
        if action["type"] == "list_tools":
            names = ("add", "finish", "boom", "hang", "leave")
            tools = [{"name": name, "description": "", "input_schema": NUMBER} for name in names]
            return total, {"observation": {"tools": tools}, "reward": None, "done": False}
        name, number = action["tool_name"], action["arguments"].get("n")
        observation: dict[str, Any] = {"tool_name": name}
        match name:
            case "verify" if self._verdict is not None:
                if "code" in self._verdict:
                    return total, self._verdict
                return total, {"observation": self._verdict, "reward": 0.0, "done": False}
            case "boom":
                return total, {"message": "it broke", "code": "EXECUTION_ERROR"}
            case "hang":
                await asyncio.sleep(3_600)
            case "leave":
                await socket.close()
                return total, None
            case "add" if not isinstance(number, int):
                error = {"error_type": "invalid_args", "message": "n: expected a number"}
                return total, {"observation": {**observation, "error": error}, "reward": -1.0}
            case "add":
                observation["result"] = total + number
                return total + number, {"observation": observation, "reward": 0.0, "done": False}
        observation["result"] = {"content": [{"type": "text", "text": "ended"}]}
        reward = 1.0 if number == total else 0.0
        return total, {"observation": observation, "reward": reward, "done": True}

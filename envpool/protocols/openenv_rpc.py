"""OpenEnv's JSON-RPC on `/mcp`: tools/list, tools/call, openenv/session/create and close.

It has no `initialize`, so it is not MCP; a world's MCP endpoint is /worlds/<id>/mcp. The params may
name a session: `{"name": "get_order", "arguments": {…}, "session_id": "…"}`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.types import ToolSpec
from rehearsal_room.envpool.protocols.awm_surface import SPECIAL, AwmEpisodes
from rehearsal_room.envpool.server.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    parse_value,
)
from rehearsal_room.envpool.server.leases import LeaseRefused

SERVER_ERROR = -32000
Rpc = dict[str, Any]
_OLD_CLIENT = (
    "no episode has begun in this session: call reset first, on /ws?session_id=… (a client of"
    " openenv-core 0.3 resets another session, so it calls tools by step)"
)


class RpcSessions:
    """The calls on `/mcp` of one world. `find` gives an open session by its id (None: there is
    none), `create` opens one and raises LeaseRefused; `close` returns False where it is held by a
    WebSocket, and is then closed with that. `list_tools` gives the tools of the world."""

    def __init__(
        self,
        find: Callable[[str], AwmEpisodes | None],
        create: Callable[[], AwmEpisodes],
        close: Callable[[AwmEpisodes], Awaitable[bool]],
        list_tools: Callable[[], Awaitable[tuple[ToolSpec, ...]]],
    ) -> None:
        self._find = find
        self._create = create
        self._close = close
        self._list_tools = list_tools

    async def answer_text(self, text: str | bytes, own: AwmEpisodes | None = None) -> Rpc:
        """The response to a request as text. `own` is the session of its WebSocket."""
        try:
            request = parse_value(text.encode() if isinstance(text, str) else text)
        except RpcError as exc:
            return _failed(None, PARSE_ERROR, exc.message)
        return await self.answer(request, own)

    async def answer(self, request: Any, own: AwmEpisodes | None = None) -> Rpc:
        """The response to a request."""
        request_id = request.get("id") if isinstance(request, dict) else None
        try:
            if not isinstance(request, dict) or request.get("jsonrpc") != "2.0":
                raise RpcError(INVALID_REQUEST, "Invalid request: jsonrpc must be '2.0'")
            method, params = request.get("method"), request.get("params", {})
            if not isinstance(method, str):
                raise RpcError(INVALID_REQUEST, "Invalid request: method: expected a text")
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "Params must be an object")
            result = await self._result(method, params, own)
        except RpcError as exc:
            return _failed(request_id, exc.code, exc.message)
        except (LeaseRefused, PoolError) as exc:
            return _failed(request_id, SERVER_ERROR, str(exc))
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    async def _result(self, method: str, params: Rpc, own: AwmEpisodes | None) -> Rpc:
        match method:
            case "openenv/session/create":
                return {"session_id": (own or self._create()).session.key}
            case "openenv/session/close":
                return await self._closed(params, own)
            case "tools/list":
                episodes = own or self._named(params)
                tools = await (self._list_tools() if episodes is None else episodes.tools())
                return {
                    "tools": [
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "inputSchema": tool.schema,
                        }
                        for tool in tools
                    ]
                }
            case "tools/call":
                return await self._called(params, own or self._named(params))
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")

    async def _called(self, params: Rpc, episodes: AwmEpisodes | None) -> Rpc:
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not name:
            raise RpcError(INVALID_PARAMS, "Missing 'name' in params")
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments: expected an object")
        if episodes is None:
            raise RpcError(INVALID_PARAMS, "session_id: name the session of the episode")
        if episodes.episode_id is None:
            raise RpcError(INVALID_REQUEST, _OLD_CLIENT)
        made = await episodes.call_tool(name, arguments)
        observation = made["observation"]
        if name in SPECIAL:
            return {"data": {**observation, "reward": made["reward"], "done": made["done"]}}
        error = observation.get("error")
        text = observation.get("tool_result") if error is None else error
        text = text["message"] if isinstance(text, dict) else text
        kind = observation["reward_type"]
        return {
            "content": [{"type": "text", "text": text}],
            "data": text,
            "isError": kind != "tool_call_ok",
            "reward_type": kind,
        }

    async def _closed(self, params: Rpc, own: AwmEpisodes | None) -> Rpc:
        key = params.get("session_id")
        if not isinstance(key, str) or not key:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
        if own is not None and own.session.key == key:
            why = "Cannot close active WebSocket-managed session via MCP method"
            raise RpcError(INVALID_REQUEST, why)
        episodes = self._find(key)
        if episodes is None:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {key}")
        if await self._close(episodes):
            return {"session_id": key, "closed": True}
        return {"session_id": key, "closed": False, "closing": True}

    def _named(self, params: Rpc) -> AwmEpisodes | None:
        """The session that the params name; None: they name none. Raises RpcError."""
        key = params.get("session_id")
        if key is None:
            return None
        episodes = self._find(key) if isinstance(key, str) else None
        if episodes is None:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {key}")
        return episodes


def _failed(request_id: Any, code: int, why: str) -> Rpc:
    error = {"code": code, "message": why, "data": None}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}

"""OpenEnv's messages on `/ws`: reset, step, state, close and mcp, and their errors.

   {"type": "reset", "data": {"task_idx": 3}}
   {"type": "step", "data": {"type": "call_tool", "tool_name": "get_order", "arguments": {…}}}
-> {"type": "observation", "data": {"observation": {…}, "reward": 0.0, "done": false}}
-> {"type": "error", "data": {"message": "a sentence", "code": "VALIDATION_ERROR"}}
"""

from collections.abc import Awaitable, Callable
from typing import Any

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.protocols.awm_results import Payload
from rehearsal_room.envpool.protocols.awm_surface import AwmEpisodes
from rehearsal_room.envpool.server.jsonrpc import RpcError, encode, parse_value
from rehearsal_room.envpool.server.leases import LeaseRefused

AnswerRpc = Callable[[Any], Awaitable[dict[str, Any]]]  # the JSON-RPC of this session
_ACTION_KEYS = {"type", "tool_name", "arguments", "metadata"}


class MessageRefused(Exception):
    """A message is answered by an error."""

    def __init__(self, code: str, why: str, **more: Any) -> None:
        super().__init__(why)
        self.data = {"message": why, "code": code, **more}


def error_frame(code: str, why: str, **more: Any) -> bytes:
    """An error as a message."""
    return encode({"type": "error", "data": {"message": why, "code": code, **more}})


async def answer(text: str, episodes: AwmEpisodes, rpc: AnswerRpc) -> bytes | None:
    """The answer to one message; None: the client closes its session."""
    try:
        try:
            message = parse_value(text.encode())
        except RpcError as exc:
            raise MessageRefused("INVALID_JSON", f"Invalid JSON: {exc.message}") from exc
        if not isinstance(message, dict):
            raise MessageRefused("VALIDATION_ERROR", "A message is an object with a type")
        match message.get("type"):
            case "reset":
                return _frame("observation", await episodes.reset(_data(message, default={})))
            case "step":
                return _frame("observation", await step(_data(message), episodes))
            case "state":
                return _frame("state", episodes.state())
            case "mcp":
                return _frame("mcp", await rpc(_data(message)))
            case "close":
                return None
            case other:
                raise MessageRefused("UNKNOWN_TYPE", f"Unknown message type: {other}")
    except MessageRefused as refused:
        return encode({"type": "error", "data": refused.data})
    except LeaseRefused as exc:
        return error_frame("CAPACITY_REACHED", str(exc))
    except PoolError as exc:
        return error_frame("EXECUTION_ERROR", str(exc))


async def step(action: dict[str, Any], episodes: AwmEpisodes) -> Payload:
    """The result of an action. Raises Refused, LeaseRefused and PoolError."""
    if unknown := sorted(set(action) - _ACTION_KEYS):
        hint = ""
        if isinstance(action.get("action"), dict):
            hint = "; put the action itself into data, as clients since 0.2 do"
        raise MessageRefused(
            "VALIDATION_ERROR", f"Invalid message: unknown field {unknown[0]!r}{hint}"
        )
    match action.get("type"):
        case "list_tools":
            return await episodes.list_tools()
        case "call_tool":
            name, arguments = action.get("tool_name"), action.get("arguments", {})
            if not isinstance(name, str):
                raise MessageRefused(
                    "VALIDATION_ERROR", "Invalid message: tool_name: expected a text"
                )
            if not isinstance(arguments, dict):
                raise MessageRefused(
                    "VALIDATION_ERROR", "Invalid message: arguments: expected an object"
                )
            return await episodes.call_tool(name, arguments)
        case other:
            raise MessageRefused(
                "VALIDATION_ERROR",
                f"Invalid message: type: expected list_tools or call_tool, got {other!r}",
            )


def _data(message: dict[str, Any], default: dict[str, Any] | None = None) -> dict[str, Any]:
    data = message.get("data", default)
    if not isinstance(data, dict):
        raise MessageRefused("VALIDATION_ERROR", "Invalid message: data: expected an object")
    return data


def _frame(kind: str, data: dict[str, Any]) -> bytes:
    return encode({"type": kind, "data": data})

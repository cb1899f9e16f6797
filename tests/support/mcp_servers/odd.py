"""A raw MCP server on standard streams whose argument chooses what it does that others do not.

It stands in for servers that people reported: an SDK would refuse to write what it sends.
"""

import json
import sys
from typing import Any

MODE = sys.argv[1]


def send(value: dict[str, Any] | bytes) -> None:
    sys.stdout.buffer.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def tools() -> list[dict[str, Any]]:
    echo = {"name": "echo", "inputSchema": {"type": "object", "properties": {}}}
    if MODE == "schema":
        echo["outputSchema"] = {"type": "object", "required": ["n"], "properties": {}}
    return [echo, {**echo, "name": "undo"}] if MODE == "late" and calls else [echo]


def result(number: int) -> dict[str, Any] | bytes:
    content: list[Any] = [{"type": "text", "text": "done"}]
    if MODE == "block":
        content = [{"type": "json", "json": {"id": 1}}, *content]
    if MODE == "half":
        content[0]["text"] = "done \ud83d"
    if MODE == "cut":
        return b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [' % number
    return {"jsonrpc": "2.0", "id": number, "result": {"content": content}}


calls = 0
for line in sys.stdin.buffer:
    request = json.loads(line)
    number, method = request.get("id"), request.get("method")
    if number is None:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
    if method == "initialize" and MODE == "refuses":
        send(reply | {"error": {"code": -32000, "message": "licence expired on 1 May"}})
    elif method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
        send(reply | {"result": {"protocolVersion": "2025-06-18", **about}})
    elif method == "tools/list":
        send(reply | {"result": {"tools": tools()}})
    elif method == "tools/call":
        calls += 1
        if MODE == "late":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        send(result(number))
    else:
        send(reply | {"error": {"code": -32601, "message": "Method not found"}})

"""A raw MCP server on standard streams whose argument chooses what it does that others do not.

It stands in for servers that people reported: an SDK would refuse to write what it sends.
"""

import json
import sys
from typing import Any

MODE = sys.argv[1]
if MODE == "key":  # as programs tell it that were not made for MCP
    sys.stdout.write("ACME_KEY is not set\n")
    sys.exit(1)


_DONE = b'"id": %d, "result": {"content": [{"type": "text", "text": "done'
RAW = {  # replies as bytes
    "control": b'{"jsonrpc": "2.0", ' + _DONE + b'\t\x01"}]}}',
    "latin_1": b'{"jsonrpc": "2.0", ' + _DONE + b'\xe9"}]}}',
    "log": b'{"level": "info", "msg": "called"}\n{"jsonrpc": "2.0", ' + _DONE + b'"}]}}',
    "glued": b'debug: {"jsonrpc": "2.0", ' + _DONE + b'"}]}}',
    "bare": b"{" + _DONE + b'"}]}}',
    "error": b'{"jsonrpc": "2.0", "id": %d, "error": "the disk is full"}',
    "empty": b'{"jsonrpc": "2.0", "id": %d, "result": null}',
    "whole_float": b'{"jsonrpc": "2.0", "id": %d.0, ' + _DONE[len(b'"id": %d, ') :] + b'"}]}}',
    "batch": b'[{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, '
    b'{"jsonrpc": "2.0", ' + _DONE + b'"}]}}]',
    "repr": b"{'level': 'info'}\n{\"jsonrpc\": \"2.0\", " + _DONE + b'"}]}}',
    "text_alone": b'{"jsonrpc": "2.0", "id": %d, "result": "done"}',
    "list_alone": b'{"jsonrpc": "2.0", "id": %d, "result": ["done", 1]}',
    "structured_alone": b'{"jsonrpc": "2.0", "id": %d, "result": {"structuredContent": {"n": 1}}}',
    "no_content": b'{"jsonrpc": "2.0", "id": %d, "result": {"content": null}}',
    "talk": b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud"}}\n'
    b'{"jsonrpc": "2.0", ' + _DONE + b'"}]}}',
    "nobody": b'{"jsonrpc": "2.0", "id": null, "error": {"code": %d, "message": "unread"}}',
}


def send(value: dict[str, Any] | bytes) -> None:
    sys.stdout.buffer.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def tools() -> list[dict[str, Any]]:
    echo = {"name": "echo", "inputSchema": {"type": "object", "properties": {}}}
    if MODE == "shapes":
        echo = {"name": "echo", "inputSchema": None, "outputSchema": {"type": "array"}}
        return [echo, echo]
    if MODE == "extras":
        odd = {"icons": "a.png", "annotations": 5, "title": 7, "execution": "slow"}
        return [{**echo, **odd}, {"title": "it has no name"}, {**echo, "name": ""}, "echo"]  # type: ignore[list-item]
    if MODE == "schema":
        echo["outputSchema"] = {"type": "object", "required": ["n"], "properties": {}}
    return [echo, {**echo, "name": "undo"}] if MODE == "late" and calls else [echo]


def result(number: int) -> dict[str, Any] | bytes:
    content: list[Any] = [{"type": "text", "text": "done"}]
    if MODE == "block":
        content = [{"type": "json", "json": {"id": 1}}, *content]
    if MODE == "half":
        content[0]["text"] = "done \ud83d"
    if MODE == "parts":
        content = [{"type": "image", "data": "eA=="}, {"type": "text"}, "plain", *content]
    if MODE in RAW:
        return RAW[MODE] % number
    if MODE == "values":
        return {
            "jsonrpc": "2.0",
            "id": number,
            "result": {"content": "done", "structuredContent": [1]},
        }
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
    elif method == "initialize" and MODE == "old":
        send(reply | {"result": {"protocolVersion": "2019-01-01"}})
    elif method == "initialize" and MODE == "curt":
        about = {"capabilities": {"tools": True}, "serverInfo": {"name": "odd", "version": None}}
        send(reply | {"result": {"protocolVersion": "2025-06-18", **about}})
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

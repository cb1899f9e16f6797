"""An MCP server of 2024-11-05 in plain JSON-RPC over standard streams, for tests. Its tools do, or
fail to do, what their names promise. It starts in a few milliseconds.

    python plain.py [HOW]     HOW: good, toolless, silent, dying, once FILE
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
NAMES = [
    *("echo", "count", "odd_arguments", "broken", "nonsense", "promise"),
    *("wait", "vanish", "die", "chatter", "garbage", "environment", "children", "ignore_sigterm"),
]
count = 0


class Fault(Exception):
    """A JSON-RPC error: code and message."""


def tool(name: str) -> dict[str, Any]:
    """A tool as it is listed; `promise` declares a number as its result."""
    spec: dict[str, Any] = {"name": name, "inputSchema": SCHEMA}
    if name == "promise":
        spec["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return spec


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call."""
    global count
    if name == "count":
        count += 1
        return {"content": [{"type": "text", "text": str(count)}]}
    if name == "odd_arguments":
        raise Fault(-32602, "no such note")
    if name == "broken":
        raise Fault(-32603, "the disk is full")
    if name == "nonsense":
        return {"content": "not a list"}
    if name == "promise":
        return {"content": [], "structuredContent": {"n": "a word"}}
    text = arguments.get("text", "")
    return {"content": [{"type": "text", "text": act(name, text)}]}


def act(name: str, text: str) -> str:
    """Do what a tool does to the server or the machine; returns its text."""
    match name:
        case "vanish":  # closes its output and keeps running
            os.close(1)
            time.sleep(3600)
        case "wait":
            time.sleep(3600)
        case "die":  # with this status, or by this signal where it is negative
            os.write(2, b"the notebook is on fire\n")
            if text.startswith("-"):
                os.kill(os.getpid(), -int(text))
            os._exit(int(text))
        case "chatter":  # this many bytes
            os.write(2, b"x" * int(text))
        case "garbage":
            os.write(1, b"this is not JSON\n")
        case "environment":
            return os.environ.get(text, "not set")
        case "children":  # one of them outside the process group
            forever = [sys.executable, "-c", "import time; time.sleep(3600)"]
            started = [
                subprocess.Popen(forever, stdout=subprocess.DEVNULL, start_new_session=alone).pid
                for alone in (False, True)
            ]
            return json.dumps([os.getpid(), *started])
        case "ignore_sigterm":  # neither the end of its input nor SIGTERM ends it
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Thread(target=time.sleep, args=(3600,)).start()
    return text


def answer(method: str, params: dict[str, Any], how: str) -> dict[str, Any]:
    """The result of a request; tools are listed in two pages."""
    if method == "initialize":
        return {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    if method == "tools/list":
        if how == "toolless":
            return {"tools": []}
        if params.get("cursor") == "rest":
            return {"tools": [tool(name) for name in NAMES[2:]]}
        return {"tools": [tool(name) for name in NAMES[:2]], "nextCursor": "rest"}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}))
    raise Fault(-32601, "Method not found")


def main() -> None:
    """Answer line by line."""
    how = sys.argv[1] if len(sys.argv) > 1 else "good"
    if how == "dying" or (how == "once" and Path(sys.argv[2]).exists()):
        sys.exit("the notebook is lost")
    if how == "once":
        Path(sys.argv[2]).touch()
    if how == "silent":
        time.sleep(3600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            response["result"] = answer(request["method"], request.get("params") or {}, how)
        except Fault as exc:
            response["error"] = {"code": exc.args[0], "message": exc.args[1]}
        os.write(1, json.dumps(response).encode() + b"\n")


if __name__ == "__main__":
    main()

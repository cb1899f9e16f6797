"""What runs in the container of a Harbor task, beside `rehearse play SCENARIO:TASK --http`.

It is copied into each task folder, and needs nothing but Python's own library:

    client.py mcp                    the world's tools as an MCP server on standard input and output
    client.py wait                   wait until the world can be called
    client.py call NAME ARGUMENTS    make one call (ARGUMENTS: a JSON object)
    client.py say TEXT               say something to the user of a dialogue
    client.py verdict                give the answer in ANSWER, and write the reward

The environment variables name the places: WORLD_URL and WORLD_TOKEN (or the file WORLD_TOKEN_FILE)
of the server, ANSWER (/app/answer.txt), EPISODE (where `rehearse play --json` writes the judged
episode), REWARD (/logs/verifier/reward.json).
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TALK = "talk_to_user"
_PROTOCOL = "2025-06-18"  # where the client names none
_SECONDS = 120  # to wait for the world, and for the verdict
_INTERVAL = 0.2


def _path(name: str, default: str) -> Path:
    return Path(os.environ.get(name, default))


def request(method: str, path: str, body: Json | None = None) -> Json:
    """Ask the server of the world. Raises OSError where it cannot be reached, and RuntimeError with
    its sentence where it refuses."""
    url = os.environ.get("WORLD_URL", "http://127.0.0.1:8765") + path
    token = (
        os.environ.get("WORLD_TOKEN") or _path("WORLD_TOKEN_FILE", "/run/world/token").read_text()
    )
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, method=method)
    asked.add_header("Authorization", f"Bearer {token.strip()}")
    try:
        # The URL is the container's own.
        with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:  # nosec B310
            found: Json = json.load(answer)
            return found
    except urllib.error.HTTPError as exc:
        raise RuntimeError(json.load(exc).get("error", str(exc))) from exc


def wait() -> None:
    """Wait until the episode has begun."""
    ends = time.monotonic() + _SECONDS
    while True:
        try:
            request("GET", "/task")
            return
        except (OSError, RuntimeError):
            if time.monotonic() > ends:
                raise
        time.sleep(_INTERVAL)


def call(name: str, arguments: Json) -> tuple[str, bool]:
    """Make a call; return its text, and whether it failed."""
    if name == TALK:
        return say(str(arguments.get("text", ""))), False
    answer = request("POST", "/call", {"tool": name, "arguments": arguments})
    return answer["text"] or "(The episode is over.)", bool(answer["is_error"])


def say(text: str) -> str:
    """Say something to the user; return what it answers."""
    answer = request("POST", "/answer", {"text": text})
    return str(answer.get("user", "(The user has ended the talk.)"))


def verdict() -> None:
    """End the episode with the answer, and write its reward. The world judges it."""
    answer = _path("ANSWER", "/app/answer.txt")
    text = answer.read_text() if answer.exists() else ""
    with suppress(OSError, RuntimeError):  # it is over already
        task = request("GET", "/task")
        while not task["ended"] and "user" in request("POST", "/answer", {"text": text}):
            task = request("GET", "/task")  # a user who has more to say hears the answer again
    episode = json.loads(_written(_path("EPISODE", "/var/world/episode.json")))
    reward = {"reward": episode["reward"] if episode["reward"] is not None else 0.0}
    _path("REWARD", "/logs/verifier/reward.json").write_text(json.dumps(reward))
    if episode["unjudged"]:
        raise SystemExit(f"the episode could not be judged: {episode['unjudged']}")
    print(json.dumps({**reward, "label": episode["label"]}))  # noqa: T201


def _written(path: Path) -> str:
    """The text of a file that is being written by another process."""
    ends = time.monotonic() + _SECONDS
    while not (path.exists() and path.stat().st_size):
        if time.monotonic() > ends:
            raise SystemExit(f"{path}: there is no verdict")
        time.sleep(_INTERVAL)
    return path.read_text()


# MCP --------------------------------------------------------------------------------------------


def mcp() -> None:
    """Serve the tools: one JSON-RPC message a line, until standard input ends."""
    for line in sys.stdin:
        if not line.strip():
            continue
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        reply: Json = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            reply["result"] = _result(message.get("method"), message.get("params") or {})
        except (OSError, RuntimeError, LookupError) as exc:
            reply["error"] = {"code": -32603, "message": str(exc)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


def _result(method: str, params: Json) -> Json:
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", _PROTOCOL),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "world", "version": "1"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": _tools()}
    if method == "tools/call":
        text, failed = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    raise RuntimeError(f"there is no method {method!r} here")


def _tools() -> list[Json]:
    found = [
        {"name": one["name"], "description": one["description"], "inputSchema": one["schema"]}
        for one in request("GET", "/task")["tools"]
    ]
    if os.environ.get("WORLD_HAS_USER"):
        schema = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        }
        about = "Say something to the user whose request you work on; returns the answer."
        found.append({"name": TALK, "description": about, "inputSchema": schema})
    return found


def main(words: list[str]) -> None:
    """Do what the words say."""
    match words:
        case ["mcp"]:
            mcp()
        case ["wait"]:
            wait()
        case ["call", name, arguments]:
            print(call(name, json.loads(arguments))[0])  # noqa: T201
        case ["say", text]:
            print(say(text))  # noqa: T201
        case ["verdict"]:
            verdict()
        case _:
            raise SystemExit(
                "usage: client.py mcp | wait | call NAME ARGUMENTS | say TEXT | verdict"
            )


if __name__ == "__main__":
    main(sys.argv[1:])

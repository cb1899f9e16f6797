"""Turn a tool call into a request to the application, and the response into the reply's text.

What fastapi-mcp 0.4.0 and httpx's ASGITransport do with a call is done here with a raw ASGI scope:
the MCP SDK's check of the arguments, path parameters inserted into the path, query and headers, the
rest as a JSON body for POST, PUT and PATCH (GET and DELETE drop it), no redirect followed, JSON
responses indented by two, other texts unchanged, 4xx and 5xx as errors. The application's own
middleware, exception handlers, dependencies and background tasks run as usual.

Limit: cookies that the application sets are not sent back with the next call.
"""

import asyncio
import codecs
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from rehearsal_room.envpool.core.types import ToolErrorKind
from rehearsal_room.envpool.hosting.arguments import ArgumentsCheck
from rehearsal_room.envpool.hosting.determinism.loop import Runner, Stuck
from rehearsal_room.envpool.hosting.direct.exchange import MAX_ANSWER, AnswerTooLong, Exchange
from rehearsal_room.envpool.hosting.tool_listing import ListedTool, Operation
from rehearsal_room.envpool.hosting.urls import InvalidURL, path_of, query_of
from rehearsal_room.scenarios.files import UNREADABLE

try:
    from rehearsal_room.envpool.hosting.direct.app import DirectApp
except ImportError:  # its short way is that of the layers of known versions of FastAPI
    DirectApp = None  # type: ignore[assignment, misc]

Json = dict[str, Any]

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))
_CLIENT_HEADERS = (
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"user-agent", b"python-httpx/0.28.1"),
)
_HOST = (b"host", b"apiserver")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
# Numbers that Python writes differently from msgspec: exponents, and numbers below 0.0001.
_ODD_NUMBER = re.compile(rb"\d[eE]|0\.0000")
_write_arguments = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode
_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


class ToolReply(msgspec.Struct, frozen=True):
    """The text that the agent reads, and the kind of error."""

    text: str
    error: ToolErrorKind | None = None


class _WholeApp:
    """Runs the requests of an application by all of its own steps."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app

    async def __call__(self, scope: Json, response: Exchange) -> None:
        """Answer a request. Raises what the application raises."""
        await self._app(scope, response.receive, response.send)


class CheckedCall(msgspec.Struct, frozen=True):
    """A call that has passed the checks of its arguments."""

    tool: str
    scope: Json
    body: bytes


class Caller:
    """Calls the tools of one application."""

    def __init__(
        self, app: Callable[..., Any], tools: tuple[ListedTool, ...], runner: Runner
    ) -> None:
        self._app: Any = _WholeApp(app) if DirectApp is None else DirectApp(app)
        self._runner = runner
        self._tools = {
            tool.spec.name: (ArgumentsCheck(tool.spec.schema), tool.operation) for tool in tools
        }

    def request(self, name: str, arguments: Any) -> CheckedCall | ToolReply:
        """The request of a call; a reply when the call makes no request. Runs no hosted code."""
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return ToolReply(
                "Invalid request parameters: the arguments are not an object", "arguments"
            )
        tool = self._tools.get(name)
        if tool is None:
            return ToolReply(f"Unknown tool: {name}", "unknown_tool")
        check, operation = tool
        if check.schema_fault:
            return ToolReply(check.schema_fault, "internal")
        if fault := check.fault(arguments):
            return ToolReply(fault, "arguments")
        try:
            return CheckedCall(name, *_build_request(operation, dict(arguments)))
        except (InvalidURL, TypeError, ValueError) as exc:
            return ToolReply(str(exc), "arguments")

    def answer(self, request: CheckedCall) -> ToolReply:
        """Run the application on the request. Failures are replies, too.

        The caller enters envpool.hosting.determinism.loop.VirtualAsyncio around it.
        """
        response = Exchange(request.body)
        try:
            self._runner.run(self._app(request.scope, response))
        except Stuck as exc:
            return ToolReply(f"{request.tool} does not end: {exc}.", "timeout")
        except Exception:  # Starlette sent a 500 before it raised, or could not
            if response.status is None:
                response.status = 500
        except AnswerTooLong:
            fault = f"{request.tool} answered with more than {MAX_ANSWER >> 20} MiB."
            return ToolReply(fault, "internal")
        except (asyncio.CancelledError, SystemExit, KeyboardInterrupt) as exc:
            return ToolReply(
                f"{request.tool} ended its own process: {type(exc).__name__}", "internal"
            )
        else:
            if response.complete is None or not response.complete.is_set():
                return ToolReply("", "internal")  # unfinished: the genuine client's assertion
        return _reply(request.tool, response)


def _build_request(operation: Operation, arguments: Json) -> tuple[Json, bytes]:
    """The ASGI scope and the body of a call. Raises InvalidURL, TypeError, ValueError."""
    path = operation.path
    query: Json = {}
    headers: Json = {}
    for location, name in operation.parameters:
        if name in arguments:
            if location == "path":
                path = path.replace(f"{{{name}}}", str(arguments.pop(name)))
            elif location == "query":
                query[name] = arguments.pop(name)
            elif location == "header":
                headers[name] = arguments.pop(name)
    body = b""
    raw_headers = [_HOST, *_CLIENT_HEADERS]
    if headers:
        raw_headers = _merge_headers(raw_headers, headers)
    if operation.method in _WITH_BODY:
        if arguments:
            body = _encode_arguments(arguments)
            raw_headers.append((b"content-length", b"%d" % len(body)))
            raw_headers.append((b"content-type", b"application/json"))
        else:
            raw_headers.insert(1, (b"content-length", b"0"))
    text, raw_path = path_of(path)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": operation.method,
        "headers": raw_headers,
        "scheme": "http",
        "path": text,
        "raw_path": raw_path,
        "query_string": query_of(query),
        "server": ("apiserver", None),
        "client": ("127.0.0.1", 123),
        "root_path": "",
    }
    return scope, body


def _encode_arguments(arguments: Json) -> bytes:
    return _write_arguments(arguments).encode()


def _merge_headers(raw: list[tuple[bytes, bytes]], headers: Json) -> list[tuple[bytes, bytes]]:
    """The headers with those of the call, which replace headers of the same name."""
    added = []
    for name, value in headers.items():
        if not isinstance(value, str):
            raise TypeError(f"Header value must be str or bytes, not {type(value)}")
        added.append((name.lower().encode("ascii"), value.encode("ascii")))
    names = {name for name, _ in added}
    return [header for header in raw if header[0] not in names] + added


def _reply(name: str, response: Exchange) -> ToolReply:
    status = response.status
    assert status is not None
    try:
        body = _decompress(b"".join(response.body), response.headers)
        text = None if 400 <= status < 600 else _indent_json(body)
        if text is None:
            text = _decode_text(body, response.headers)
    except (ValueError, zlib.error) as exc:  # a body that its headers describe wrongly
        return ToolReply(str(exc), "internal")
    if not text.isascii():  # a lone surrogate from an escape, which no log can hold
        text = text.encode(errors="replace").decode()
    if not 400 <= status < 600:
        return ToolReply(text)
    error: ToolErrorKind = "internal" if status >= 500 else "refused"
    if status == 422:
        error = "arguments"
    return ToolReply(f"Error calling {name}. Status code: {status}. Response: {text}", error)


def _indent_json(body: bytes) -> str | None:
    """JSON with an indent of two, as Python writes it; None when the body is not JSON.

    Example: b'{"a":[1.50]}' -> '{\n  "a": [\n    1.5\n  ]\n}'

    Raises UnicodeDecodeError. msgspec is ten times as fast and writes the same except for some
    numbers. What it rejects (NaN, integers of more than 64 bits) Python's json may accept.
    """
    try:
        plain = _encode(_decode(body))
        if not _ODD_NUMBER.search(plain):
            return msgspec.json.format(plain, indent=2).decode()
    except (ValueError, OverflowError, *UNREADABLE):
        pass
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except json.JSONDecodeError:
        return None


def _header(headers: Any, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key.lower() == name), "")


def _decompress(body: bytes, headers: Any) -> bytes:
    encoding = _header(headers, b"content-encoding").strip().lower()
    if encoding not in ("gzip", "deflate"):
        return body
    stream = zlib.decompressobj(zlib.MAX_WBITS | (16 if encoding == "gzip" else 0))
    return stream.decompress(body) + stream.flush()  # of a truncated stream: the part that is there


def _decode_text(body: bytes, headers: Any) -> str:
    found = _CHARSET.search(_header(headers, b"content-type"))
    charset = found[1] if found else "utf-8"
    try:
        codecs.lookup(charset)
    except LookupError:
        charset = "utf-8"
    return body.decode(charset, errors="replace")

"""An MCP server whose tools are the operations of a REST service, by its OpenAPI document.

    python server.py openapi.json --base-url https://api.example --bearer EXAMPLE_TOKEN
    python server.py openapi.yaml --serve 'uvicorn app:app --port {port}'

It speaks over its standard streams. FastMCP makes the tools. With `--serve` it starts the service
as well, at a free port in place of `{port}`, and ends it; the service's output goes to standard
error. It runs as a program of its own, so it imports nothing of this project.
"""

import argparse
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import unquote

import anyio
import httpx2
import yaml
from fastmcp import FastMCP
from fastmcp.tools import Tool
from fastmcp.utilities.openapi import HTTPRoute
from mcp_types import ToolAnnotations

PORT = "{port}"
_TIMEOUT_S = 30.0  # of a request
_START_S = 60.0  # until the service accepts connections
_MOST_VALUES = 2_000_000  # of a document; the largest ones known have a tenth of that
_READS = ("GET", "HEAD", "OPTIONS")


class _Yaml(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """YAML 1.2, which OpenAPI means: `on`, `no` and dates are texts."""


_NOT_PLAIN = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
_Yaml.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] not in _NOT_PLAIN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver(
    _NOT_PLAIN[0], re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


class DocumentError(ValueError):
    """An OpenAPI document that cannot be used, with the reason as a sentence."""


def load(path: Path) -> dict[str, Any]:
    """An OpenAPI document, JSON or YAML, as JSON. Raises DocumentError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise DocumentError(f"{path}: cannot be read: {exc}") from exc
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = yaml.load(text, _Yaml)  # nosec B506 - it is a SafeLoader
        except (yaml.YAMLError, ValueError, RecursionError) as exc:  # also a number of 5,000 digits
            raise DocumentError(f"{path}: it is neither JSON nor YAML: {exc}") from exc
    if not _is_finite(found):
        raise DocumentError(f"{path}: it has more than {_MOST_VALUES:,} values")
    try:
        document = json.loads(json.dumps(found, default=str))  # 200 as "200"
    except (ValueError, TypeError, RecursionError) as exc:
        raise DocumentError(f"{path}: it is not JSON in another form: {exc}") from exc
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        raise DocumentError(f"{path}: expected an OpenAPI document of version 3 (`openapi: 3.…`)")
    info = document.get("info") or {}  # YAML reads 1.0 as a number
    servers = document.get("servers") or []
    if not isinstance(info, dict) or not isinstance(servers, list):
        raise DocumentError(f"{path}: info is not an object, or servers is not a list")
    if not all(isinstance(one, dict) for one in servers):
        raise DocumentError(f"{path}: servers: each must be an object with a url")
    if not isinstance(document.get("paths"), dict) or not document["paths"]:
        raise DocumentError(f"{path}: it has no paths, and so no operations")
    if missing := next(_missing(document), ""):
        raise DocumentError(
            f"{path}: an operation refers to {missing!r}, which is not in the document; bundle the "
            "files into one if it is in another one"
        )
    document["openapi"] = str(document["openapi"])
    document["info"] = {**info, **{k: str(info[k]) for k in ("title", "version") if k in info}}
    return document


def _missing(document: dict[str, Any]) -> Iterator[str]:
    """The references of paths, parameters and bodies to what the document does not have: FastMCP
    would leave these out."""
    left: list[Any] = []
    for item in document["paths"].values():
        operations = list(item.values()) if isinstance(item, dict) else []
        for one in (item, *operations):
            if isinstance(one, dict):
                left += [{name: one.get(name)} for name in ("$ref", "parameters", "requestBody")]
    met: set[str] = set()
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += [value for name, value in one.items() if not name.startswith("example")]
            reference = one.get("$ref")
            if isinstance(reference, str) and reference not in met:
                met.add(reference)
                found = _found(document, reference)
                if found is None:
                    yield reference
                left.append(found)


def _found(document: dict[str, Any], reference: str) -> Any:
    """What a reference such as `#/components/schemas/Note` means; None: there is no such thing."""
    found: Any = document if reference.startswith("#/") else None
    for part in reference[2:].split("/"):
        name = unquote(part).replace("~1", "/").replace("~0", "~")  # RFC 6901
        if isinstance(found, list) and name.isdecimal():
            found = dict(enumerate(found)).get(int(name))
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _is_finite(value: Any) -> bool:
    """Whether a document is not too large once YAML's aliases are written out."""
    left, number = [value], 0
    while left and number <= _MOST_VALUES:
        number += 1
        one = left.pop()
        if isinstance(one, dict | list):
            left += one.values() if isinstance(one, dict) else one
    return number <= _MOST_VALUES


def base_url_of(document: dict[str, Any], given: str = "", *, sends_variables: bool = False) -> str:
    """Where the service is: as given, or the document's first server. Values of the user's
    environment go to a given one only: the document may be anybody's. Raises DocumentError."""
    servers = document.get("servers") or [{}]
    url = given or str(servers[0].get("url", ""))
    variables = servers[0].get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default", "") if isinstance(variable, dict) else ""
        url = url.replace(f"{{{name}}}", str(default))
    if not url.startswith(("http://", "https://")):
        raise DocumentError(
            f"the document names no whole URL of a server ({url!r}): --base-url URL"
        )
    if sends_variables and not given:
        raise DocumentError(
            f"the document names the server {url}, and a variable of your environment goes only "
            f"to one that you name: --base-url {url}"
        )
    return url


def server_of(document: dict[str, Any], url: str, headers: dict[str, str]) -> FastMCP[Any]:
    """The MCP server of a service at a URL. Raises DocumentError."""
    client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S)
    name = str((document.get("info") or {}).get("title", "")) or "REST service"
    try:
        return FastMCP.from_openapi(
            document, client, name, mcp_component_fn=_mark, validate_output=False
        )
    except Exception as exc:  # its reader may raise anything on a wrong document
        why = " ".join(str(exc).split())[:200]
        raise DocumentError(f"the OpenAPI document cannot be used: {why}") from exc


def _mark(route: HTTPRoute, component: Any) -> None:
    """Say which tools only read."""
    if isinstance(component, Tool):
        component.annotations = ToolAnnotations(read_only_hint=route.method in _READS)


@contextmanager
def _served(command: str) -> Iterator[str]:
    """A service that runs at a free port; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [word.replace(PORT, str(port)) for word in shlex.split(command)]
    service = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    try:
        _wait_for(service, port, words[0])
        yield f"http://127.0.0.1:{port}"
    finally:
        service.terminate()
        try:
            service.wait(2)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


def _wait_for(service: subprocess.Popen[bytes], port: int, name: str) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if service.poll() is not None:
            sys.exit(f"the service {name!r} ended with status {service.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    sys.exit(f"the service {name!r} does not listen at port {port} after {_START_S:g} s")


def _headers(given: Sequence[str], bearer: str) -> dict[str, str]:
    """Headers whose values are those of variables of the environment."""
    found = {}
    named = [(*one.partition("=")[::2], "") for one in given]
    tokens = [("Authorization", bearer, "Bearer ")] if bearer else []
    for header, variable, begin in [*named, *tokens]:
        if variable not in os.environ:
            sys.exit(f"the variable {variable!r}, the value of the header {header}, is not set")
        found[header] = begin + os.environ[variable]
    return found


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(143)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description="Serve a REST service as an MCP server.")
    parser.add_argument("document", type=Path, help="its OpenAPI document, JSON or YAML")
    parser.add_argument("--base-url", default="", help="where it is (default: the document's)")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VARIABLE")
    parser.add_argument("--bearer", default="", metavar="VARIABLE")
    parser.add_argument("--serve", default="", help="the command that starts it, with {port}")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    headers = _headers(given.header, given.bearer)
    try:
        document = load(given.document)
        if given.serve:
            with _served(given.serve) as url:
                _run(server_of(document, url, headers))
        else:
            url = base_url_of(document, given.base_url, sends_variables=bool(headers))
            _run(server_of(document, url, headers))
    except DocumentError as exc:
        sys.exit(str(exc))


def _run(server: FastMCP[Any]) -> None:
    anyio.run(lambda: server.run_stdio_async(show_banner=False, log_level="WARNING"))


if __name__ == "__main__":
    main()

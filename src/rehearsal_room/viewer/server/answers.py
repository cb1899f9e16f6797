"""Answers of the API: JSON, and errors as one sentence."""

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.harness.core.errors import HarnessError, SettingsError
from rehearsal_room.scenarios.errors import ScenarioError
from rehearsal_room.scenarios.files import UNREADABLE
from rehearsal_room.viewer.reading.open_runs import NotHereError
from rehearsal_room.viewer.worlds.world_tables import ShownMoment

PageHandler = Callable[[Request], Awaitable[Any]]
_encoder = msgspec.json.Encoder()
_log = structlog.get_logger(__name__)


def answering(handler: PageHandler) -> Callable[[Request], Awaitable[Response]]:
    """A handler whose result is sent as JSON; a Response is sent as it is."""

    async def answer(request: Request) -> Response:
        try:
            result = await handler(request)
            return result if isinstance(result, Response) else json_response(result)
        except NotHereError as exc:
            return error(404, str(exc))
        except (HarnessError, PoolError, ScenarioError) as exc:
            return error(400, str(exc))
        except sqlite3.DatabaseError as exc:
            return error(400, f"the log is damaged: the database of this world: {exc}")
        except UNREADABLE as exc:
            return error(400, f"the request cannot be read: {exc}")
        except Exception:
            _log.exception("viewer_failed", path=request.url.path)
            return error(500, "the viewer failed; its terminal shows why")

    return answer


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(_encoder.encode(value), status, media_type="application/json")


def error(status: int, sentence: str) -> Response:
    """An error as JSON."""
    return json_response({"error": sentence}, status)


async def body_of(request: Request, kind: Any) -> Any:
    """The body of a request, decoded. Raises msgspec.DecodeError."""
    return msgspec.json.decode(await request.body() or b"{}", type=kind)


def query_of(request: Request) -> dict[str, list[str]]:
    """The parameters of a request's URL, each with its values."""
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found


def number_of(request: Request, name: str, default: int) -> int:
    """A parameter of the URL that is a whole number from 0."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default


def only_of(request: Request) -> ShownMoment:
    """The parameter `only`. Raises SettingsError."""
    text = request.query_params.get("only", "all")
    match text:
        case "all" | "start" | "before":
            return text
    raise SettingsError(f"only: {text!r} is not one of all, start, before")

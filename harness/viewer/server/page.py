"""The page of the viewer: three files that are built from `harness/viewer/web`."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.core.errors import SettingsError

DIST = Path(__file__).parent.parent / "web" / "dist"
_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}


def page_file(name: str) -> bytes:
    """One of the files. Raises SettingsError where the page was not built."""
    path = DIST / name
    try:
        return path.read_bytes()
    except OSError as exc:
        raise SettingsError(
            f"{path}: the viewer's page is missing; in a source tree, `just viewer` builds it"
        ) from exc


def page_routes() -> list[Route]:
    """The routes of the files, which need no token."""

    async def serve(request: Request) -> Response:
        name, kind = _FILES[request.url.path]
        try:
            return Response(page_file(name), headers={"content-type": kind})
        except SettingsError as exc:
            return Response(str(exc), 503, media_type="text/plain")

    return [Route(path, serve) for path in _FILES]

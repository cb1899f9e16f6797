"""The page of the viewer: three files, which need no token."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.viewer.reading.page_files import page_file

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}


def page_routes() -> list[Route]:
    """The routes of the files."""

    async def serve(request: Request) -> Response:
        name, kind = _FILES[request.url.path]
        try:
            return Response(page_file(name), headers={"content-type": kind})
        except SettingsError as exc:
            return Response(str(exc), 503, media_type="text/plain")

    return [Route(path, serve) for path in _FILES]

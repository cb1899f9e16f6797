"""A client of the viewer's application, in this process."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import anyio
import msgspec

from rehearsal_room.harness.launch import launch
from rehearsal_room.harness.settings.run import resolve
from rehearsal_room.judge.verdicts.opener import judge_opener
from rehearsal_room.viewer.server.app import viewer_app
from rehearsal_room.viewer.server.security import AsgiApp
from rehearsal_room.viewer.server.serve import ViewerSettings, open_viewer
from rehearsal_room.viewer.server.viewer import Viewer

TOKEN, PORT = "secret-token", 4711
HEADERS = {"host": f"127.0.0.1:{PORT}", "authorization": f"Bearer {TOKEN}"}


class Answer(msgspec.Struct, frozen=True):
    """What the application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Client:
    """Asks one application; `ok` in the names of methods: the answer must be 200."""

    def __init__(self, app: AsgiApp, viewer: Viewer) -> None:
        self._app = app
        self.viewer = viewer

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] = HEADERS,
    ) -> Answer:
        """Send one request and wait for the whole answer."""
        data = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()]
            + [(b"content-length", str(len(data)).encode())],
            "scheme": "http",
            "root_path": "",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", PORT),
        }
        sent: list[Any] = []
        received = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> Any:
            if received:
                return received.pop()
            await anyio.sleep_forever()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start = sent[0]
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(one.get("body", b"") for one in sent[1:]))

    async def get(self, path: str) -> Any:
        """The JSON of a path that answers 200."""
        answer = await self.ask(path)
        assert answer.status == 200, answer.body
        return answer.json

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The JSON of a request with a body."""
        answer = await self.ask(path, method="POST", body=body or {})
        assert answer.status == status, answer.body
        return answer.json

    async def error(self, path: str, status: int = 400) -> str:
        """The sentence of a path that answers an error."""
        answer = await self.ask(path)
        assert answer.status == status, answer.body
        sentence: str = answer.json["error"]
        return sentence


@asynccontextmanager
async def viewing(*folders: Path, worlds: Sequence[Path] = ()) -> AsyncIterator[Client]:
    """A client of a viewer of these folders."""
    async with viewing_with(ViewerSettings(folders, port=PORT, worlds=worlds)) as client:
        yield client


@asynccontextmanager
async def viewing_with(settings: ViewerSettings) -> AsyncIterator[Client]:
    """A client of a viewer with these settings."""
    async with open_viewer(settings) as viewer:
        yield Client(viewer_app(viewer, token=TOKEN, port=PORT), viewer)


def played(folder: Path, *scenarios: str, **flags: Any) -> Path:
    """A small run in a folder."""
    settings = resolve(None, {"scenarios": scenarios, **flags})
    opener = judge_opener(settings)
    launch(settings, folder, resume=False, open_judge=opener, progress=False)
    return folder

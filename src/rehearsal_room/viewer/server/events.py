"""Server-sent events: what has changed in a run since the last one."""

from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from rehearsal_room.viewer.listing.labels import labels_in
from rehearsal_room.viewer.reading.episode_rows import lines_of
from rehearsal_room.viewer.reading.lines import EpisodeTableLine, run_line
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.server.answers import answering
from rehearsal_room.viewer.server.viewer import Viewer, in_thread

_MAX_ROWS = 200
_PING_S = 15.0  # seconds of silence after which a comment shows that the stream is open


class EventRoutes:
    """The handler of the streams."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [Route("/api/runs/{run}/events", answering(self.events))]

    async def events(self, request: Request) -> StreamingResponse:
        """The stream of a run."""
        run = await self._viewer.run_of(request.path_params["run"])
        return StreamingResponse(self._stream(run), media_type="text/event-stream")

    async def _stream(self, run: ShownRun) -> AsyncIterator[bytes]:
        viewer = self._viewer
        position = -1  # the first event has no rows: the page reads them itself
        async with viewer.updates.watching(run):
            is_open = True
            while is_open and not viewer.closing.is_set():
                index = run.index()
                if index.position == position:
                    yield b": open\n\n"
                else:
                    before, position = position, index.position
                    yield await in_thread(self._folded, run, before, position)
                is_open = await viewer.updates.next_change(run, _PING_S)
            if index.position != position:
                yield await in_thread(self._folded, run, position, index.position)
        yield _event("finished", {})

    def _folded(self, run: ShownRun, before: int, position: int) -> bytes:
        line = run_line(run)
        rows, more = _changed(run, before) if before >= 0 else ([], False)
        return _event(
            "folded",
            {
                "position": position,
                "episodes": line.episodes,
                "ended": line.ended,
                "judged": line.judged,
                "live": line.episodes - line.ended if line.status == "live" else 0,
                "line": line,
                "rows": rows,
                "more": more,
            },
        )


def _changed(run: ShownRun, position: int) -> tuple[list[EpisodeTableLine], bool]:
    """The episodes that have records after a position, the latest first."""
    index = run.index()
    sql = "SELECT number FROM episodes WHERE position > ? ORDER BY position DESC LIMIT ?"
    numbers = [number for (number,) in index.rows(sql, position, _MAX_ROWS + 1)]
    lines = lines_of(index, numbers[:_MAX_ROWS], labels_in(run.log_folder))
    return lines, len(numbers) > _MAX_ROWS


def _event(name: str, value: object) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"

"""Routes of the table of episodes beside its rows: counts, hits, neighbours, labels, the file."""

from functools import partial

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rehearsal_room.harness.core.events import Label
from rehearsal_room.viewer.export import answers_of, html_of
from rehearsal_room.viewer.listing.facets import facets
from rehearsal_room.viewer.listing.hits import hits_in
from rehearsal_room.viewer.listing.labels import add_label, labels_in
from rehearsal_room.viewer.reading.episode_rows import line_of, neighbours
from rehearsal_room.viewer.reading.filters import Query
from rehearsal_room.viewer.reading.lines import EpisodeTableLine
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import NotHereError, ShownRun
from rehearsal_room.viewer.server.answers import answering, body_of, query_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread

_RUN = "/api/runs/{run}"
MAX_EXPORTED = 1_000  # episodes of one file


class LabelRequest(msgspec.Struct, frozen=True):
    """A label by hand, a note, or both; neither withdraws what was said before."""

    episode: str
    label: Label | None
    note: str = ""
    seen: float | None = None  # when what the page showed was said; None: nothing was


class ListRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route(f"{_RUN}/facets", answering(self.facets)),
            Route(f"{_RUN}/hits", answering(self.hits)),
            Route(f"{_RUN}/episodes/{{episode}}/neighbours", answering(self.neighbours)),
            Route(f"{_RUN}/judge/labels", answering(self.label), methods=["POST"]),
            Route(f"{_RUN}/export", answering(self.export)),
        ]

    async def facets(self, request: Request) -> object:
        """The number of episodes of each value of each filter."""
        run = await self._viewer.run_of(request.path_params["run"])
        query = query_of(request)
        found = await in_thread(lambda: facets(run.index(), query, labels_in(run.log_folder)))
        return {"facets": found}

    async def hits(self, request: Request) -> object:
        """Where the words of `text` are in each `episode`."""
        run = await self._viewer.run_of(request.path_params["run"])
        query = query_of(request)
        text = " ".join(query.get("text", ()))
        return {"hits": await in_thread(hits_in, run, text, query.get("episode", ()))}

    async def neighbours(self, request: Request) -> object:
        """The episodes beside one in a list."""
        run = await self._viewer.run_of(request.path_params["run"])
        query, episode = query_of(request), request.path_params["episode"]
        return await in_thread(
            lambda: neighbours(run.index(), query, labels_in(run.log_folder), episode)
        )

    async def label(self, request: Request) -> object:
        """Say something about an episode; returns its line."""
        run = await self._viewer.run_of(request.path_params["run"])
        asked: LabelRequest = await body_of(request, LabelRequest)
        return {"line": await in_thread(_label, run, asked)}

    async def export(self, request: Request) -> Response:
        """The episodes of a filter as one HTML file."""
        run = await self._viewer.run_of(request.path_params["run"])
        page = await in_thread(_exported, run, query_of(request))
        return Response(page, media_type="text/html; charset=utf-8")


def _label(run: ShownRun, asked: LabelRequest) -> EpisodeTableLine:
    trajectory, _ = logged_episode(run, asked.episode)
    if trajectory.ended is None:
        raise NotHereError(f"episode {asked.episode!r} is not over, so it has no label yet")
    add_label(run.log_folder, trajectory, asked.label, asked.note, seen=asked.seen)
    return line_of(run.index(), asked.episode, labels_in(run.log_folder))


def _exported(run: ShownRun, query: Query) -> bytes:
    # A loop of its own: the answers are computed, and this would hold the server's loop up.
    return html_of(anyio.run(partial(answers_of, [run], episodes=MAX_EXPORTED, query=query)))

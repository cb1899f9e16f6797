"""Routes that read the world of an episode: tables, SQL, groups, pairs, comparisons."""

from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.viewer.reading.episode_rows import line_of
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.server.answers import answering, body_of, number_of, only_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread
from rehearsal_room.viewer.tasks.compared import compared
from rehearsal_room.viewer.tasks.tries import tries_of
from rehearsal_room.viewer.worlds.group_graph import GroupGraph, group_graph
from rehearsal_room.viewer.worlds.logged_world import logged_world
from rehearsal_room.viewer.worlds.pair import EpisodePair, pair_of
from rehearsal_room.viewer.worlds.sql_box import SqlRows, query
from rehearsal_room.viewer.worlds.world_tables import TablePage, WorldAt, table_at, world_at

_RUN = "/api/runs/{run}"
_WORLD = f"{_RUN}/episodes/{{episode}}/world"
MAX_MEMBERS = 256  # tries of a task that are shown as a graph


class SqlRequest(msgspec.Struct, frozen=True):
    """The body of a query."""

    sql: str
    turn: int = 0


class WorldRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route(_WORLD, answering(self.world)),
            Route(f"{_WORLD}/{{table:path}}", answering(self.table)),
            Route(f"{_RUN}/episodes/{{episode}}/sql", answering(self.sql), methods=["POST"]),
            Route(f"{_RUN}/groups/{{group:path}}", answering(self.group)),
            Route(f"{_RUN}/pair", answering(self.pair)),
            Route("/api/pair", answering(self.pair_of_runs)),
            Route("/api/compare", answering(self.compare)),
        ]

    async def world(self, request: Request) -> object:
        """The tables of a world at a turn."""
        run = await self._viewer.run_of(request.path_params["run"])
        turn = number_of(request, "turn", 0)
        return await in_thread(read_world, run, request.path_params["episode"], turn)

    async def table(self, request: Request) -> object:
        """Rows of one table at a turn."""
        run = await self._viewer.run_of(request.path_params["run"])
        read = partial(
            _read_table,
            run,
            request.path_params["episode"],
            request.path_params["table"],
            turn=number_of(request, "turn", 0),
            only=only_of(request),
            offset=number_of(request, "offset", 0),
            limit=number_of(request, "limit", 100),
        )
        return await in_thread(read)

    async def sql(self, request: Request) -> object:
        """The rows of a query on the world at a turn."""
        run = await self._viewer.run_of(request.path_params["run"])
        asked: SqlRequest = await body_of(request, SqlRequest)
        return await in_thread(_query, run, request.path_params["episode"], asked)

    async def group(self, request: Request) -> object:
        """A group as a graph."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(read_group, run, request.path_params["group"])

    async def pair(self, request: Request) -> object:
        """Two episodes side by side."""
        run = await self._viewer.run_of(request.path_params["run"])
        names = [request.query_params.get(name, "") for name in ("a", "b")]
        return await in_thread(_read_pair, *((run, name) for name in names))

    async def pair_of_runs(self, request: Request) -> object:
        """Two episodes of two runs side by side."""
        asked = request.query_params
        runs = [await self._viewer.run_of(asked.get(name, "")) for name in ("run", "other")]
        names = [asked.get(name, "") for name in ("a", "b")]
        return await in_thread(_read_pair, *zip(runs, names, strict=True))

    async def compare(self, request: Request) -> object:
        """Runs compared with the first of them."""
        asked = request.query_params
        names = [*asked.getlist("run"), *(asked[name] for name in ("a", "b") if name in asked)]
        runs = [await self._viewer.run_of(name) for name in names]
        return await in_thread(partial(compared, runs, is_planned="quick" not in asked))


def read_world(run: ShownRun, episode: str, turn: int) -> WorldAt:
    """The world of an episode after so many turns. Raises HarnessError."""
    return world_at(*logged_episode(run, episode), turn)


def _read_table(run: ShownRun, episode: str, table: str, *, turn: int, **rows: Any) -> TablePage:
    return table_at(*logged_episode(run, episode), turn, table, **rows)


def _query(run: ShownRun, episode: str, asked: SqlRequest) -> SqlRows:
    trajectory, world = logged_episode(run, episode)
    turn = max(0, min(asked.turn, len(trajectory.steps)))
    with logged_world(trajectory, world, turn) as (database, _):
        return query(database, asked.sql)


def read_group(run: ShownRun, group: str) -> GroupGraph:
    """A group as a graph. Raises HarnessError."""
    total, lines = tries_of(run.index(), group, MAX_MEMBERS)
    with run.reading() as reader:
        trajectories = [reader.trajectory(line.episode) for line in lines]
    return group_graph(lines, trajectories, total)


def _read_pair(a: tuple[ShownRun, str], b: tuple[ShownRun, str]) -> EpisodePair:
    trajectories = [logged_episode(*one)[0] for one in (a, b)]
    lines = [line_of(run.index(), episode) for run, episode in (a, b)]
    return pair_of((lines[0], lines[1]), *trajectories)

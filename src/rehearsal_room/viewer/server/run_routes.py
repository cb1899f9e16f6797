"""Routes that read runs: lists, pages, episodes."""

import anyio
from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.judge.failures.reading import diagnose_one
from rehearsal_room.viewer.listing.labels import labels_in
from rehearsal_room.viewer.reading.episode_rows import episode_table
from rehearsal_room.viewer.reading.lines import RunLine, run_line
from rehearsal_room.viewer.reading.logged_episodes import read_episode
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.run_page import run_page
from rehearsal_room.viewer.sent.logged import read_sent, read_sent_to_judge
from rehearsal_room.viewer.server.answers import answering, number_of, query_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread
from rehearsal_room.viewer.tasks.reasons import reasons
from rehearsal_room.viewer.tasks.task_table import task_table
from rehearsal_room.viewer.tasks.tries import MAX_TASKS, grid

_LIST_WAIT_S = 1.5  # in which the list of runs waits for their indexes


class RunRoutes:
    """The handlers of /api/runs."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        run = "/api/runs/{run}"
        return [
            Route("/api/runs", answering(self.runs)),
            Route(run, answering(self.page)),
            Route(f"{run}/episodes", answering(self.episodes)),
            Route(f"{run}/grid", answering(self.grid)),
            Route(f"{run}/tasks", answering(self.tasks)),
            Route(f"{run}/reasons", answering(self.reasons)),
            Route(f"{run}/episodes/{{episode}}", answering(self.episode)),
            Route(f"{run}/episodes/{{episode}}/failures", answering(self.failures)),
            Route(f"{run}/episodes/{{episode}}/sent", answering(self.sent)),
            Route(f"{run}/episodes/{{episode}}/sent/judge", answering(self.sent_to_judge)),
        ]

    async def runs(self, request: Request) -> object:
        """The list of runs."""
        viewer = self._viewer
        runs = await in_thread(viewer.runs.all)
        lines: dict[str, RunLine] = {}

        async def fold(run: ShownRun) -> None:
            try:
                await viewer.updates.look(run, wait_s=_LIST_WAIT_S)
            except Exception:
                return  # its line has the error

        with anyio.move_on_after(_LIST_WAIT_S):
            async with anyio.create_task_group() as group:
                for run in runs:
                    group.start_soon(fold, run)
        for run in runs:
            lines[run.id] = await in_thread(run_line, run)
        return {"runs": list(lines.values())}

    async def page(self, request: Request) -> object:
        """The page of a run."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(run_page, run)

    async def episodes(self, request: Request) -> object:
        """Some rows of the table of episodes."""
        run = await self._viewer.run_of(request.path_params["run"])
        query = query_of(request)
        return await in_thread(lambda: episode_table(run.index(), query, labels_in(run.log_folder)))

    async def grid(self, request: Request) -> object:
        """Tasks by tries."""
        run = await self._viewer.run_of(request.path_params["run"])
        bounds = number_of(request, "offset", 0), number_of(request, "limit", MAX_TASKS)
        return await in_thread(grid, run.index(), *bounds)

    async def tasks(self, request: Request) -> object:
        """Some rows of the table of tasks."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(task_table, run, query_of(request))

    async def reasons(self, request: Request) -> object:
        """What failed most, and which episodes were dear or slow."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(reasons, run)

    async def episode(self, request: Request) -> object:
        """One episode."""
        run = await self._viewer.run_of(request.path_params["run"])
        episode = request.path_params["episode"]
        return await in_thread(lambda: read_episode(run, episode, labels_in(run.log_folder)))

    async def sent(self, request: Request) -> object:
        """What the model was sent for a turn."""
        run = await self._viewer.run_of(request.path_params["run"])
        turn = number_of(request, "turn", 0)
        return await in_thread(read_sent, run, request.path_params["episode"], turn)

    async def sent_to_judge(self, request: Request) -> object:
        """What the models of the latest verdict that asked some were asked."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(read_sent_to_judge, run, request.path_params["episode"])

    async def failures(self, request: Request) -> object:
        """What went wrong in an episode, with the turns."""
        run = await self._viewer.run_of(request.path_params["run"])
        found = await diagnose_one(run.log_folder, request.path_params["episode"])
        return {"failures": found.mistakes}

"""Routes of the commands that a page starts: tries that go on from a scratch world's turn, and the
search for the turn that is to blame."""

import shlex
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.log.schema import LOG_NAME
from rehearsal_room.judge.statistics.intervals import exact_interval
from rehearsal_room.viewer.acting.blames import Blaming
from rehearsal_room.viewer.acting.tries import Going, Tries, fault_of, words_of
from rehearsal_room.viewer.reading.episode_rows import episode_table, line_of
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.server.answers import answering, body_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread


class TriesRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        scratch = "/api/scratch/{id}/tries"
        return [
            Route(f"{scratch}/command", answering(self.command), methods=["POST"]),
            Route(scratch, answering(self.start), methods=["POST"]),
            Route("/api/tries/{id}", answering(self.tries)),
            Route(
                "/api/runs/{run}/episodes/{episode}/blame",
                answering(self.start_blame),
                methods=["POST"],
            ),
            Route("/api/blames/{id}", answering(self.blame)),
        ]

    async def command(self, request: Request) -> object:
        """The command that would be started, or why there is none."""
        going: Going = await body_of(request, Going)
        origin = self._viewer.scratches.get(request.path_params["id"]).origin
        fault = await in_thread(fault_of, origin, going)
        return {"fault": fault, "command": "" if fault else shlex.join(words_of(origin, going))}

    async def start(self, request: Request) -> object:
        """Start tries."""
        going: Going = await body_of(request, Going)
        origin = self._viewer.scratches.get(request.path_params["id"]).origin
        if fault := await in_thread(fault_of, origin, going):
            raise SettingsError(fault)
        return {"id": self._viewer.tries.start(origin, going).id}

    async def tries(self, request: Request) -> object:
        """The tries so far, beside the episode from which they go on."""
        tries = self._viewer.tries.get(request.path_params["id"])
        is_over = tries.is_over  # before the log is read, so that nothing is missed
        rows, run = await self._played(tries, is_over=is_over)
        before = await self._before(tries)
        return {
            "id": tries.id,
            "command": tries.command,
            "folder": str(tries.folder),
            "run": run,
            "tries": tries.tries,
            "original_run": tries.origin.run,
            "is_over": is_over,
            "error": tries.error,
            "rows": rows,
            "after": _share([row.label for row in rows]),
            **before,
        }

    async def start_blame(self, request: Request) -> object:
        """Start to look for the turn of an episode that is to blame."""
        blaming: Blaming = await body_of(request, Blaming)
        run = await self._viewer.run_of(request.path_params["run"])
        line = await in_thread(line_of, run.index(), request.path_params["episode"])
        return {"id": self._viewer.blames.start(run.folder, line.episode, blaming).id}

    async def blame(self, request: Request) -> object:
        """What was found, once the command is over."""
        return self._viewer.blames.get(request.path_params["id"])

    async def _played(self, tries: Tries, *, is_over: bool) -> tuple[list[Any], str | None]:
        if not (tries.folder / LOG_NAME).is_file():
            return [], None
        run = await in_thread(self._viewer.runs.add, tries.folder)
        await self._viewer.updates.look(run)
        if is_over:  # what was written last may not be folded yet, and nobody asks again
            await in_thread(_fold_all, run)
        table = await in_thread(episode_table, run.index(), {"limit": [str(tries.tries)]})
        return sorted(table.rows, key=lambda row: row.episode), run.id

    async def _before(self, tries: Tries) -> dict[str, Any]:
        """The original, and how the tries at its task ended in its run."""
        origin = tries.origin
        run = await self._viewer.run_of(origin.run)
        if origin.trajectory is None:
            raise SettingsError("these tries go on from no episode")
        return await in_thread(_original, run, origin.trajectory.episode)


def _fold_all(run: ShownRun) -> None:
    while run.index().fold():
        pass


def _original(run: ShownRun, episode: str) -> dict[str, Any]:
    line = line_of(run.index(), episode)
    labels = run.index().rows(
        "SELECT label FROM episodes WHERE scenario = ? AND task = ?", line.scenario, line.task
    )
    return {"original": line, "before": _share([label for (label,) in labels])}


def _share(labels: list[str | None]) -> dict[str, Any]:
    """How many of the judged ones are completed, and the exact interval of the share."""
    judged = [label for label in labels if label is not None]
    completed = sum(label == "completed" for label in judged)
    return {
        "completed": completed,
        "judged": len(judged),
        "share": exact_interval([1.0] * completed + [0.0] * (len(judged) - completed)),
    }

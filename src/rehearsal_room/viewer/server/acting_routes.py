"""Routes of worlds, scratch worlds and play."""

from contextlib import closing
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.logged_runs.logged_run import (
    hosting_settings,
    scenario_finder,
    strangers_of,
)
from rehearsal_room.harness.rollout.episode import user_of
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.scenarios.format import Scenario
from rehearsal_room.viewer.acting.catalogue import tasks_of
from rehearsal_room.viewer.acting.episodes import solution
from rehearsal_room.viewer.acting.gate import gate_failures
from rehearsal_room.viewer.acting.replayed import replayed
from rehearsal_room.viewer.acting.scratch import Scratch, ScratchOrigin
from rehearsal_room.viewer.reading.episode import episode_page, tools_of, verdict_of
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import NotHereError
from rehearsal_room.viewer.server.answers import answering, body_of, number_of, only_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread
from rehearsal_room.viewer.server.world_routes import SqlRequest
from rehearsal_room.viewer.worlds.logged_world import image_of, opened
from rehearsal_room.viewer.worlds.sql_box import query
from rehearsal_room.viewer.worlds.world_tables import WorldAt, table_page, tables_with

_SCRATCH, _PLAY, _WORLD = "/api/scratch/{id}", "/api/play/{id}", "/api/worlds/{world}"
_REPLAY = "/api/runs/{run}/episodes/{episode}/replay"


class ScratchRequest(msgspec.Struct, frozen=True):
    """Where a scratch world begins: at a turn of an episode, or at the start of a scenario."""

    run: str = ""
    episode: str = ""
    turn: int = 0
    scenario: str = ""
    task: str | None = None


class CallRequest(msgspec.Struct, frozen=True):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any] = {}


class AnswerRequest(msgspec.Struct, frozen=True):
    """A final answer, as `answer` or `text`."""

    answer: str = ""
    text: str = ""


class PlayRequest(msgspec.Struct, frozen=True):
    """A task to play."""

    scenario: str
    task: str


class ActingRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/api/worlds", answering(self.worlds)),
            Route(_WORLD, answering(self.world)),
            Route(f"{_WORLD}/table/{{table:path}}", answering(self.world_table)),
            Route(f"{_WORLD}/gate", answering(self.gate), methods=["POST"]),
            Route(f"{_WORLD}/tasks/{{task}}/oracle", answering(self.oracle)),
            Route(_REPLAY, answering(self.replay), methods=["POST"]),
            Route("/api/scratch", answering(self.open), methods=["POST"]),
            Route(_SCRATCH, answering(self.scratch)),
            Route(_SCRATCH, answering(self.close), methods=["DELETE"]),
            Route(f"{_SCRATCH}/call", answering(self.call), methods=["POST"]),
            Route(f"{_SCRATCH}/sql", answering(self.sql), methods=["POST"]),
            Route(f"{_SCRATCH}/judge", answering(self.judge), methods=["POST"]),
            Route(f"{_SCRATCH}/world", answering(self.tables)),
            Route(f"{_SCRATCH}/world/{{table:path}}", answering(self.table)),
            Route("/api/play", answering(self.play), methods=["POST"]),
            Route(_PLAY, answering(self.played)),
            Route(_PLAY, answering(self.leave), methods=["DELETE"]),
            Route(f"{_PLAY}/call", answering(self.play_call), methods=["POST"]),
            Route(f"{_PLAY}/answer", answering(self.play_answer), methods=["POST"]),
        ]

    async def worlds(self, request: Request) -> object:
        """The list of worlds."""
        return {"worlds": await in_thread(self._viewer.catalogue.lines)}

    async def world(self, request: Request) -> object:
        """One world."""
        name = request.path_params["world"]
        scenario = await in_thread(self._viewer.catalogue.find, name)
        hosting = await in_thread(self._viewer.catalogue.hosting, name)
        async with self._viewer.pools.open(hosting, scenario) as pool:
            states = pool.hosted(scenario)
            tables = await in_thread(_tables_of, states.template.image)
            return {
                "name": name,
                "title": scenario.title,
                "description": scenario.description,
                "version": scenario.version,
                "rules": scenario.rules,
                "user": user_of(scenario),
                "now": scenario.clock,
                "tables": tables,
                "tools": tools_of(states.tools),
                "tasks": tasks_of(scenario),
                "gate": self._viewer.gates.get(scenario.digest),
            }

    async def world_table(self, request: Request) -> object:
        """Rows of a table of a world."""
        name = request.path_params["world"]
        scenario = await in_thread(self._viewer.catalogue.find, name)
        hosting = await in_thread(self._viewer.catalogue.hosting, name)
        async with self._viewer.pools.open(hosting, scenario) as pool:
            image = pool.hosted(scenario).template.image
            return await in_thread(_rows_of, image, request, (), ())

    async def gate(self, request: Request) -> object:
        """Let the quality gate check a world, as `rehearse worlds check` does."""
        viewer, name = self._viewer, request.path_params["world"]
        scenario = await in_thread(viewer.catalogue.find, name)
        source = viewer.catalogue.source(name)
        if (await in_thread(viewer.catalogue.hosting, name)).worlds.isolate:
            raise SettingsError(
                f"{name}: its code would run in this process, and it is not named on the command "
                f"line; `rehearse view {scenario.path}` does, or --trust-run"
            )
        failures = await in_thread(gate_failures, source)
        found = {"failures": failures, "checked_at": viewer.now()}
        viewer.gates[scenario.digest] = found
        return found

    async def oracle(self, request: Request) -> object:
        """The solution of a task, played now."""
        viewer = self._viewer
        world_name = request.path_params["world"]
        hosting = await in_thread(viewer.catalogue.hosting, world_name)
        name = f"{viewer.catalogue.source(world_name)}:{request.path_params['task']}"
        trajectory, times, world = await in_thread(solution, name, hosting.worlds.isolate)
        return episode_page(None, trajectory, dict(enumerate(times)), world, None)

    async def replay(self, request: Request) -> object:
        """Replay an episode, as `rehearse replay` does."""
        path = request.path_params
        origin = await self._fork(ScratchRequest(path["run"], path["episode"]))
        return await replayed(self._viewer.pools, origin)

    async def open(self, request: Request) -> object:
        """Open a scratch world."""
        asked: ScratchRequest = await body_of(request, ScratchRequest)
        origin = await (self._fork(asked) if asked.run else self._begin(asked))
        scratch = await self._viewer.scratches.open(origin)
        return scratch.described()

    async def scratch(self, request: Request) -> object:
        """A scratch world."""
        return self._get(request).described()

    async def close(self, request: Request) -> object:
        """Close a scratch world."""
        self._viewer.scratches.close(request.path_params["id"])
        return {"ok": True}

    async def call(self, request: Request) -> object:
        """Call a tool in a scratch world."""
        asked: CallRequest = await body_of(request, CallRequest)
        return await self._get(request).call(asked.tool, asked.arguments)

    async def judge(self, request: Request) -> object:
        """Judge a scratch world as it is."""
        asked: AnswerRequest = await body_of(request, AnswerRequest)
        scratch = self._get(request)
        return verdict_of(await self._viewer.scratches.judge(scratch, asked.answer or asked.text))

    async def tables(self, request: Request) -> object:
        """The tables of a scratch world."""
        return await in_thread(_scratch_tables, self._get(request))

    async def table(self, request: Request) -> object:
        """Rows of a table of a scratch world."""
        scratch = self._get(request)
        changes = scratch.changes(last=False), scratch.changes(last=True)
        return await in_thread(_rows_of, _image(scratch), request, *changes)

    async def sql(self, request: Request) -> object:
        """The rows of a query on a scratch world."""
        asked: SqlRequest = await body_of(request, SqlRequest)
        return await in_thread(_query, _image(self._get(request)), asked.sql)

    async def play(self, request: Request) -> object:
        """Begin to play a task."""
        asked: PlayRequest = await body_of(request, PlayRequest)
        viewer = self._viewer
        scenario = await in_thread(viewer.catalogue.find, asked.scenario)
        scenario.task(asked.task)
        source = viewer.catalogue.source(asked.scenario)
        hosting = await in_thread(viewer.catalogue.hosting, asked.scenario)
        key = viewer.plays.start(source, asked.task, isolate=hosting.worlds.isolate)
        return {"id": key, "folder": str(viewer.plays.get(key).folder)}

    async def played(self, request: Request) -> object:
        """A task that is played."""
        play = self._viewer.plays.get(request.path_params["id"])
        described = await play.described()
        result = await self._result(play.folder) if play.is_over else None
        return {**described, **(result or {"result": None, "run": None, "episode": None})}

    async def play_call(self, request: Request) -> object:
        """Make a call in a task that is played."""
        asked: CallRequest = await body_of(request, CallRequest)
        play = self._viewer.plays.get(request.path_params["id"])
        return await play.call(asked.tool, asked.arguments)

    async def play_answer(self, request: Request) -> object:
        """Give the final answer, or say something to the user."""
        asked: AnswerRequest = await body_of(request, AnswerRequest)
        play = self._viewer.plays.get(request.path_params["id"])
        return await play.answer(asked.text or asked.answer)

    async def leave(self, request: Request) -> object:
        """Leave a task without an answer."""
        await self._viewer.plays.get(request.path_params["id"]).leave()
        return {"ok": True}

    def _get(self, request: Request) -> Scratch:
        return self._viewer.scratches.get(request.path_params["id"])

    async def _fork(self, asked: ScratchRequest) -> ScratchOrigin:
        run = await self._viewer.run_of(asked.run)
        folder = run.log_folder
        trajectory, snapshot = await in_thread(logged_episode, run, asked.episode)
        started = trajectory.started

        def package() -> tuple[Scenario, Settings]:
            if found := strangers_of(folder):
                raise SettingsError(
                    f"{folder}: you did not begin this run on this machine, and the package "
                    f"{found[0]} is named by its log alone, so its code does not run here; "
                    "`rehearse view --trust-run` runs it"
                )
            settings = hosting_settings(folder, starts_servers=True)
            return scenario_finder(folder)(started.scenario, started.scenario_digest), settings

        scenario, settings = await in_thread(package)
        return ScratchOrigin(
            settings=settings,
            scenario=scenario,
            source=str(scenario.path),
            task=started.task,
            run=run.id,
            folder=folder,
            trajectory=trajectory,
            turn=asked.turn,
            snapshot=snapshot,
        )

    async def _begin(self, asked: ScratchRequest) -> ScratchOrigin:
        catalogue = self._viewer.catalogue
        scenario = await in_thread(catalogue.find, asked.scenario)
        task = asked.task or ""
        if task:
            scenario.task(task)
        source = catalogue.source(asked.scenario)
        hosting = await in_thread(catalogue.hosting, asked.scenario)
        return ScratchOrigin(settings=hosting, scenario=scenario, source=source, task=task)

    async def _result(self, folder: Any) -> dict[str, Any] | None:
        """The line of the episode that a person has played."""
        viewer = self._viewer
        run = await in_thread(viewer.runs.add, folder)
        try:
            await viewer.updates.look(run)
            table = await in_thread(viewer.first_line, run)
        except NotHereError:
            return None
        return {"result": table, "run": run.id, "episode": table.episode}


def _image(scratch: Scratch) -> bytes:
    return image_of(scratch.states.template.image, scratch.state())


def _tables_of(image: bytes) -> list[dict[str, Any]]:
    with closing(opened(image)) as database:
        return [
            {"name": one.name, "columns": one.columns, "rows": one.rows}
            for one in tables_with(database, (), ())
        ]


def _scratch_tables(scratch: Scratch) -> WorldAt:
    with closing(opened(_image(scratch))) as database:
        tables = tables_with(database, scratch.changes(last=False), scratch.changes(last=True))
    turns = len(scratch.kept) + len(scratch.steps)
    return WorldAt(turns, turns, scratch.digest, True, tables)


def _rows_of(image: bytes, request: Request, start: Any, before: Any) -> Any:
    page = partial(
        table_page,
        only=only_of(request),
        offset=number_of(request, "offset", 0),
        limit=number_of(request, "limit", 100),
    )
    with closing(opened(image)) as database:
        return page(database, request.path_params["table"], start, before)


def _query(image: bytes, sql: str) -> Any:
    with closing(opened(image)) as database:
        return query(database, sql)

"""Routes of labels by hand, and of training runs."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.harness.core.events import Label
from rehearsal_room.judge.verdicts.disagreements import queue, ranked
from rehearsal_room.viewer.acting.labels import add_label, labeller, labels_in
from rehearsal_room.viewer.reading.evidence import evidence_of
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import NotHereError, ShownRun
from rehearsal_room.viewer.reading.plain import built, plain
from rehearsal_room.viewer.reading.training import batch, training
from rehearsal_room.viewer.server.answers import answering, body_of, number_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread

_RUN = "/api/runs/{run}"
_MAX_ITEMS = 500


class LabelRequest(msgspec.Struct, frozen=True):
    """A label by hand; `label` null withdraws it."""

    episode: str
    label: Label | None
    note: str = ""


class JudgeRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route(f"{_RUN}/judge/queue", answering(self.queue)),
            Route(f"{_RUN}/judge/evidence/{{episode}}", answering(self.evidence)),
            Route(f"{_RUN}/judge/labels", answering(self.label), methods=["POST"]),
            Route(f"{_RUN}/training", answering(self.training)),
            Route(f"{_RUN}/training/batch", answering(self.batch)),
        ]

    async def queue(self, request: Request) -> object:
        """The episodes that a person should look at."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(self._queue, run)

    async def evidence(self, request: Request) -> object:
        """The evidence of one episode."""
        run = await self._viewer.run_of(request.path_params["run"])
        return {"evidence": await in_thread(self._evidence, run, request.path_params["episode"])}

    async def label(self, request: Request) -> object:
        """Add a label."""
        run = await self._viewer.run_of(request.path_params["run"])
        asked: LabelRequest = await body_of(request, LabelRequest)
        await in_thread(self._add, run, asked)
        return {"ok": True}

    async def training(self, request: Request) -> object:
        """The curves of a training run."""
        run = await in_thread(self._viewer.runs.get, request.path_params["run"])
        return await in_thread(training, run, self._viewer.runs.add)

    async def batch(self, request: Request) -> object:
        """The samples of a batch."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(batch, run, max(1, number_of(request, "step", 1)))

    def _queue(self, run: ShownRun) -> dict[str, Any]:
        """Contested verdicts first, then episodes that no judge could judge."""
        index = run.index()
        contested = index.rows(
            "SELECT episode FROM episodes WHERE requests > 0 OR judge LIKE '%:%' ORDER BY number"
        )
        with run.reading() as reader:
            trajectories = [reader.trajectory(episode) for (episode,) in contested]
        found = [_item(built(one)) for one in ranked(queue(trajectories))]
        unjudged = index.rows(
            "SELECT episode, scenario, task, unjudged FROM episodes"
            " WHERE judge IS NOT NULL AND label IS NULL ORDER BY number LIMIT ?",
            _MAX_ITEMS,
        )
        known = {item["episode"] for item in found}
        found += [
            {
                "episode": episode,
                "scenario": scenario,
                "task": task,
                "code": None,
                "label": None,
                "reason": plain(f"unjudged: {why}"),
            }
            for episode, scenario, task, why in unjudged
            if episode not in known
        ]
        mine = labels_in(run.log_folder)
        for item in found[:_MAX_ITEMS]:
            item["mine"] = mine.get(item["episode"])
            item["evidence"] = self._evidence(run, item["episode"])
        return {"labeller": labeller(), "items": found[:_MAX_ITEMS]}

    def _evidence(self, run: ShownRun, episode: str) -> list[Mapping[str, str]]:
        trajectory, world = logged_episode(run, episode)
        if world is None:
            return []
        return [plain(one) for one in evidence_of(trajectory, world)]

    def _add(self, run: ShownRun, asked: LabelRequest) -> None:
        trajectory, _ = logged_episode(run, asked.episode)
        if trajectory.ended is None:
            raise NotHereError(f"episode {asked.episode!r} is not over, so it has no label yet")
        add_label(run.log_folder, trajectory, asked.label, asked.note)


def _item(one: dict[str, Any]) -> dict[str, Any]:
    votes = "; ".join(
        f"{vote['model']}: {vote['label'] or vote['fault']}" for vote in one["judgements"]
    )
    proved = f"; code proved: {one['proof']}" if one["proof"] else ""
    return {**one, "reason": f"{votes}{proved}"}

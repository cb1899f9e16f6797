"""Routes of the queue of episodes to label by hand, and of training runs."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from rehearsal_room.judge.verdicts.disagreements import queue, ranked
from rehearsal_room.viewer.index.hand_labels import HandLabels
from rehearsal_room.viewer.listing.labels import agreement, labels_in
from rehearsal_room.viewer.reading.episode_rows import episode_table
from rehearsal_room.viewer.reading.evidence import evidence_of
from rehearsal_room.viewer.reading.filters import Query, where_of
from rehearsal_room.viewer.reading.logged_episodes import logged_episode
from rehearsal_room.viewer.reading.open_runs import ShownRun
from rehearsal_room.viewer.reading.plain import built, plain
from rehearsal_room.viewer.reading.training import batch, training
from rehearsal_room.viewer.server.answers import answering, number_of, query_of
from rehearsal_room.viewer.server.viewer import Viewer, in_thread

_RUN = "/api/runs/{run}"
_MAX_ITEMS = 500


class JudgeRoutes:
    """The handlers."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route(f"{_RUN}/judge/queue", answering(self.queue)),
            Route(f"{_RUN}/judge/evidence/{{episode}}", answering(self.evidence)),
            Route(f"{_RUN}/training", answering(self.training)),
            Route(f"{_RUN}/training/batch", answering(self.batch)),
        ]

    async def queue(self, request: Request) -> object:
        """The episodes that a person should look at: those of a filter, or without one those whose
        verdict is contested or missing."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(self._queue, run, query_of(request))

    async def evidence(self, request: Request) -> object:
        """The evidence of one episode."""
        run = await self._viewer.run_of(request.path_params["run"])
        return {"evidence": await in_thread(self._evidence, run, request.path_params["episode"])}

    async def training(self, request: Request) -> object:
        """The curves of a training run."""
        run = await in_thread(self._viewer.runs.get, request.path_params["run"])
        return await in_thread(training, run, self._viewer.runs.add)

    async def batch(self, request: Request) -> object:
        """The samples of a batch."""
        run = await self._viewer.run_of(request.path_params["run"])
        return await in_thread(batch, run, max(1, number_of(request, "step", 1)))

    def _queue(self, run: ShownRun, query: Query) -> dict[str, Any]:
        labels = labels_in(run.log_folder)
        if where_of(query, labels)[0] == "1":
            total, found = _contested(run)
        else:
            total, found = _chosen(run, query, labels)
        for item in found:
            item["mine"] = labels.mine(item["episode"])
        counts = agreement(run.index(), labels)
        return {"labeller": labels.me, "total": total, "items": found, "agreement": counts}

    def _evidence(self, run: ShownRun, episode: str) -> list[Mapping[str, str]]:
        trajectory, world = logged_episode(run, episode)
        if world is None:
            return []
        return [plain(one) for one in evidence_of(trajectory, world)]


def _contested(run: ShownRun) -> tuple[int, list[dict[str, Any]]]:
    """Contested verdicts, then episodes that no judge could judge: how many, and the first."""
    index = run.index()
    contested = index.rows(
        "SELECT episode FROM episodes WHERE requests > 0 OR judge LIKE '%:%' ORDER BY number"
    )
    with run.reading() as reader:
        trajectories = [reader.trajectory(episode) for (episode,) in contested]
    found = [_item(built(one)) for one in ranked(queue(trajectories))]
    unjudged = index.rows(
        "SELECT episode, scenario, task, label, unjudged FROM episodes"
        " WHERE judge IS NOT NULL AND label IS NULL ORDER BY number LIMIT ?",
        _MAX_ITEMS,
    )
    known = {item["episode"] for item in found}
    found += [_line_item(*row) for row in unjudged if row[0] not in known]
    return len(found), found[:_MAX_ITEMS]


def _chosen(run: ShownRun, query: Query, labels: HandLabels) -> tuple[int, list[dict[str, Any]]]:
    """The episodes of a filter that are over, in the order of the table."""
    table = episode_table(run.index(), {**query, "limit": [str(_MAX_ITEMS)]}, labels)
    return table.total, [
        _line_item(one.episode, one.scenario, one.task, one.label, one.unjudged)
        for one in table.rows
        if one.ending is not None
    ]


def _line_item(
    episode: str, scenario: str, task: str, label: str | None, unjudged: str | None
) -> dict[str, Any]:
    return {
        "episode": episode,
        "scenario": scenario,
        "task": task,
        "code": None,
        "label": label,
        "reason": plain(f"unjudged: {unjudged}") if unjudged else "",
    }


def _item(one: dict[str, Any]) -> dict[str, Any]:
    votes = "; ".join(
        f"{vote['model']}: {vote['label'] or vote['fault']}" for vote in one["judgements"]
    )
    proved = f"; code proved: {one['proof']}" if one["proof"] else ""
    return {**one, "reason": f"{votes}{proved}"}

"""Evaluation: episodes that are measured and not learned from; each evaluation is a separate
run."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree
from statistics import mean

import anyio.to_thread
import msgspec

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import EpisodeRow
from rehearsal_room.harness.outcomes.scores import score_of
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.reports.summary import read_report, write_report
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.session import run_session
from rehearsal_room.harness.settings.run import Settings, difference, resolve
from rehearsal_room.harness.setup.parts import OpenJudge, open_run_parts
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.learner.core.errors import CheckpointError
from rehearsal_room.learner.core.training_folder import evaluation_name
from rehearsal_room.learner.loop.progress_state import ProgressValues
from rehearsal_room.scenarios.format import Scenario, Task


class Evaluator(msgspec.Struct, frozen=True):
    """Runs the same episodes each time, with the weights that its policy has at that time."""

    settings: Settings
    folder: Path
    tasks: list[tuple[Scenario, Task]]
    plans: list[EpisodePlan]
    pool: RoutingPool
    policy: OpenPolicy
    open_judge: OpenJudge | None

    async def evaluate(self, batch: int) -> ProgressValues:
        """Run the episodes after `batch` batches; returns reward, pass rate and episodes.

        Episodes that ran already are not repeated. Raises CheckpointError, HarnessError and
        PoolError.
        """
        folder = self.folder / evaluation_name(batch)
        await anyio.to_thread.run_sync(_remove_outdated, folder, self.settings)
        opened = open_run_parts(
            self.settings,
            folder,
            self.tasks,
            self.policy,
            pool=self.pool,
            open_judge=self.open_judge,
            episodes=len(self.plans),
            resume=True,
        )
        async with opened as parts:
            await run_session(
                folder,
                self.plans,
                parts,
                concurrency=self.settings.number_at_once,
                meters=Meters(self.pool),
                resume=True,
            )
        return await anyio.to_thread.run_sync(_summarize, folder, self.settings)


@asynccontextmanager
async def open_evaluator(
    settings: Settings, folder: Path, policy: OpenPolicy, open_judge: OpenJudge | None
) -> AsyncIterator[Evaluator]:
    """Open an evaluator whose runs go into `folder`; its worlds stay open between evaluations.

    Raises SettingsError, ScenarioError and PoolError.
    """
    tasks, plans = planned(settings)
    async with pool_of(settings) as pool:
        yield Evaluator(settings, folder, tasks, plans, pool, policy, open_judge)


def _remove_outdated(folder: Path, settings: Settings) -> None:
    """Remove an interrupted evaluation whose settings have changed since."""
    stored = folder / "run.toml"
    if not stored.exists():
        return
    before = resolve(stored, {})
    sizes = [(one.episodes, one.group_size) for one in (before, settings)]
    if sizes[0] != sizes[1] or difference(stored, settings) is not None:
        try:
            rmtree(folder)
        except OSError as exc:
            raise CheckpointError(f"{folder}: cannot be removed: {exc}") from exc


def _summarize(folder: Path, settings: Settings) -> ProgressValues:
    with open_reader(folder) as reader:
        report = read_report(reader, max_steps=settings.limits.max_steps)
        rows = reader.episodes()
    write_report(folder, report)
    return {
        "pass_rate": report.pass_rate,
        "reward": report.mean_reward or 0.0,
        "episodes": float(report.episodes),
        **shares_of(rows, settings.group_size),
    }


def shares_of(rows: Sequence[EpisodeRow], tries: int) -> ProgressValues:
    """pass@1 of each world and tag (means over tasks); with several tries at a task also pass@k, of
    all tasks too: at least one of the k tries succeeds. Where there is one world or no tag, nothing
    is said twice."""
    scores: dict[tuple[str, str], list[float]] = {}  # by task
    parts: dict[str, set[tuple[str, str]]] = {}  # tasks by world and by tag
    for row in rows:
        score = None if row.ending is None else score_of(row.ending, row.label)
        if score is None:
            continue
        task = row.scenario, row.task
        scores.setdefault(task, []).append(score)
        for part in (row.scenario, *(f"tag {tag}" for tag in row.tags)):
            parts.setdefault(part, set()).add(task)
    found: ProgressValues = {}
    if tries > 1 and scores:
        found[f"pass_at_{tries}"] = mean(max(one) >= 1.0 for one in scores.values())
    for part, tasks in sorted(parts.items()):
        if len(tasks) == len(scores):
            continue
        found[f"pass_at_1/{part}"] = mean(mean(scores[task]) for task in tasks)
        if tries > 1:
            found[f"pass_at_{tries}/{part}"] = mean(max(scores[task]) >= 1.0 for task in tasks)
    return found

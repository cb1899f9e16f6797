"""Evaluation: episodes that nothing is learned from, each time a run of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import rmtree

import anyio.to_thread
import msgspec

from envpool.router import RoutingPool
from harness.log.reader import open_reader
from harness.policies.base import OpenPolicy
from harness.reports.summary import report_of, write_report
from harness.rollout.launch import OpenJudge, open_run_parts, planned, pool_of
from harness.rollout.meters import Meters
from harness.rollout.plan import EpisodePlan
from harness.rollout.session import run_session
from harness.settings.run import Settings, difference
from learner.core.errors import CheckpointError
from learner.loop.progress_state import Values
from scenarios.format import Scenario, Task


class Evaluator(msgspec.Struct, frozen=True):
    """Plays the same episodes again and again, with whatever weights its policy has."""

    settings: Settings
    folder: Path
    tasks: list[tuple[Scenario, Task]]
    plans: list[EpisodePlan]
    pool: RoutingPool
    policy: OpenPolicy
    open_judge: OpenJudge | None

    async def evaluate(self, batch: int) -> Values:
        """Play, after so many batches, and give reward and pass rate; what was played already is
        not played again. Raises CheckpointError, HarnessError and PoolError."""
        folder = self.folder / name_of(batch)
        await anyio.to_thread.run_sync(_forget_other, folder, self.settings)
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
                concurrency=self.settings.concurrency,
                meters=Meters(self.pool),
                resume=True,
            )
        return await anyio.to_thread.run_sync(_reported, folder)


@asynccontextmanager
async def open_evaluator(
    settings: Settings, folder: Path, policy: OpenPolicy, open_judge: OpenJudge | None
) -> AsyncIterator[Evaluator]:
    """An evaluator whose runs go into `folder`; its worlds stay open from one to the next.

    Raises SettingsError, ScenarioError and PoolError.
    """
    tasks, plans = planned(settings)
    async with pool_of(settings) as pool:
        yield Evaluator(settings, folder, tasks, plans, pool, policy, open_judge)


def name_of(batch: int) -> str:
    """The folder of the evaluation after so many batches.

    Example: 10 -> "b000010"
    """
    return f"b{batch:06d}"


def _forget_other(folder: Path, settings: Settings) -> None:
    """Remove an evaluation that was interrupted, where its settings have changed since."""
    began = folder / "run.toml"
    if began.exists() and difference(began, settings) is not None:
        try:
            rmtree(folder)
        except OSError as exc:
            raise CheckpointError(f"{folder}: it cannot be removed: {exc}") from exc


def _reported(folder: Path) -> Values:
    with open_reader(folder) as reader:
        report = report_of(reader.episodes())
    write_report(folder, report)
    return {
        "pass_rate": report.pass_rate,
        "reward": report.mean_reward or 0.0,
        "episodes": float(report.episodes),
    }

"""The rollouts of a training run, which run while the model is trained."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import msgspec

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.policies.base import OpenPolicy
from rehearsal_room.harness.rollout.gc_tuning import tune_garbage_collector
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.process import raise_file_limit
from rehearsal_room.harness.rollout.session import RunParts, run_session
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.parts import OpenJudge, open_run_parts
from rehearsal_room.harness.setup.planning import planned
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.harness.users.left_out import num_left_out, report_left_out
from rehearsal_room.learner.config.settings import TrainSettings
from rehearsal_room.learner.data.batch_queue import BatchQueue
from rehearsal_room.learner.data.gating import Gating
from rehearsal_room.learner.data.grouping import Grouping
from rehearsal_room.learner.data.rollout_feed import RolloutFeed, group_numbers
from rehearsal_room.learner.data.task_pools import TaskPools
from rehearsal_room.learner.loop.progress_state import TrainProgress
from rehearsal_room.learner.trainer.weight_publisher import WeightPublisher


class Rollouts(msgspec.Struct, frozen=True):
    """Opened rollouts, and the feed of their groups."""

    settings: Settings
    folder: Path
    plans: list[EpisodePlan]
    pool: RoutingPool
    parts: RunParts
    feed: RolloutFeed
    gating: Gating

    async def run(self) -> None:
        """Run episodes until no more are needed; episodes in the log are not repeated.

        Raises HarnessError, PoolError and SampleError.
        """
        await run_session(
            self.folder,
            self.plans,
            self.parts,
            concurrency=self.settings.number_at_once,
            meters=Meters(self.pool),
            resume=True,
            repeat_failures=False,
        )


@asynccontextmanager
async def open_rollouts(
    train: TrainSettings,
    settings: Settings,
    folder: Path,
    policy: OpenPolicy,
    *,
    open_judge: OpenJudge | None,
    grouping: Grouping,
    publisher: WeightPublisher,
    progress: TrainProgress,
) -> AsyncIterator[Rollouts]:
    """Open the rollouts of these settings, for a training run with this progress.

    Raises SettingsError, ScenarioError, PoolError and SampleError.
    """
    tasks, plans = planned(settings)
    if any(plan.source for plan in plans):  # groups that are left out would be waited for
        raise SettingsError(
            "rollouts.scenarios: some of these tasks begin in the final state of others; training "
            "plays tasks that begin at the world's start"
        )
    report_left_out(num_left_out(settings.scenarios, tasks), "rollouts.dialogue plays them, too")
    data, loop = train.data, train.loop
    gating = Gating(
        batches=train.steps,
        groups=data.groups,
        staleness=loop.staleness,
        publish_every=loop.publish_every,
        fill=data.fill,
        version=progress.batches // loop.publish_every,
        batch=progress.batches,
        first_group=progress.next_group,
    )
    feed = RolloutFeed(
        folder,
        numbers=group_numbers(plans),
        grouping=grouping,
        queue=BatchQueue(size=data.groups, fill=data.fill, first=progress.next_group),
        gating=gating,
        publisher=publisher,
        staleness=loop.staleness,
        pools=TaskPools(_tasks_of(plans), solved=data.revisit_solved, never=data.revisit_never),
    )
    raise_file_limit(settings.number_at_once + 256)
    tune_garbage_collector()
    async with pool_of(settings) as pool:
        opened = open_run_parts(
            settings,
            folder,
            tasks,
            policy,
            pool=pool,
            open_judge=open_judge,
            episodes=len(plans),
            resume=True,
            admit=feed.admit,
            listeners=(feed,),
        )
        async with opened as parts:
            await anyio.to_thread.run_sync(feed.restore, progress.next_group)
            yield Rollouts(settings, folder, plans, pool, parts, feed, gating)


def _tasks_of(plans: Sequence[EpisodePlan]) -> list[str]:
    """The task of each group of a plan, in order."""
    return list({plan.group: f"{plan.scenario.digest}:{plan.task.id}" for plan in plans}.values())

"""What every way to play a run has in common, from its settings to its result."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
from rich.console import Console

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.harness.admission.adaptive import Settled
from rehearsal_room.harness.chaos.chaos import Chaos
from rehearsal_room.harness.core.loop_lag import LagMonitor
from rehearsal_room.harness.core.terminal import Terminal
from rehearsal_room.harness.history.windows import parse_history
from rehearsal_room.harness.policies.base import Observable, OpenPolicy
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.remaining import Remaining, read_remaining
from rehearsal_room.harness.rollout.session import play_left
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.parts import (
    OpenJudge,
    admission_of,
    open_run_parts,
    preflight,
    warn_of_mismatches,
)
from rehearsal_room.harness.setup.planning import Tasks
from rehearsal_room.harness.setup.policies import unplayed_lines
from rehearsal_room.harness.setup.rehearsal import find_server, rehearsed
from rehearsal_room.harness.setup.run_folder import keep_adaptations
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.harness.users.left_out import num_left_out, report_left_out

After = Callable[[RoutingPool, Meters], Awaitable[Any]]  # called while the pool is still open


class Launched(msgspec.Struct, frozen=True):
    """The result of a run besides its log."""

    meters: Meters
    policy: dict[str, float]  # the policy's own statistics; empty where it has none
    after: Any = None  # the result of `after`
    settled: Settled | None = None  # of adaptive admission; None: a number was given


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is about to begin; nothing is open yet."""

    settings: Settings
    folder: Path
    tasks: Tasks
    plans: list[EpisodePlan]
    policy: OpenPolicy | None  # None: the settings name a policy that needs no opening
    open_judge: OpenJudge | None  # None: the episodes stay unjudged
    chaos: Chaos  # of this process
    resume: bool
    after: After | None
    progress: bool  # goes to standard error

    async def remaining(self) -> Remaining:
        """What is left to do. Raises LogError."""
        judged = self.open_judge is not None
        read = partial(read_remaining, self.folder, self.plans, resume=self.resume, judged=judged)
        return await anyio.to_thread.run_sync(read)

    def notices(self, level: str) -> Console:
        """Write what the user should know before the first episode to standard error; return the
        console. `level` is the sandbox of untrusted code (empty: there is none)."""
        console, settings = Terminal(stderr=True), self.settings
        if level:
            console.print(f"sandbox for untrusted code: {level}", highlight=False)
        left_out = num_left_out(settings.scenarios, self.tasks)
        report_left_out(left_out, "--dialogue plays them, too")
        if note := unplayed_lines(settings, self.plans):
            console.print(note, highlight=False, soft_wrap=True)
        warn_of_mismatches(settings, parse_history(settings.history), console)
        return console


async def play_here(launch: Launch) -> Launched:
    """Play a run in this process. Raises HarnessError, PoolError and ScenarioError."""
    settings, policy, chaos = launch.settings, launch.policy, launch.chaos
    left = await launch.remaining()
    if left.missing:
        await find_server(settings, policy)
    admission = admission_of(settings, policy)
    async with (
        pool_of(settings, open_spawner=chaos.open_spawner) as pool,
        open_run_parts(
            settings,
            launch.folder,
            launch.tasks,
            policy,
            pool=pool,
            open_judge=launch.open_judge,
            episodes=len(launch.plans),
            resume=launch.resume,
            admission=admission,
        ) as parts,
        AsyncExitStack() as stack,
    ):
        parts = chaos.parts(parts, policy)
        console = launch.notices(pool.level)
        if left.missing or left.unjudged:
            await preflight(settings.model, parts.judge)
        if policy is not None and left.missing:
            await stack.enter_async_context(policy)
            rehearsal = rehearsed(settings, policy, pool, left.missing, parts.users)
            await stack.enter_async_context(rehearsal)
        if admission is not None and isinstance(policy, Observable):
            policy.observe(admission)
        meters = Meters(pool, lag=LagMonitor())
        try:
            await play_left(
                launch.folder,
                left,
                parts,
                concurrency=settings.number_at_once,
                meters=meters,
                resume=launch.resume,
                console=console if launch.progress else None,
            )
        finally:
            if policy is not None:
                keep_adaptations(launch.folder, settings, policy.statistics())
        return Launched(
            meters,
            policy={} if policy is None else policy.statistics(),
            after=None if launch.after is None else await launch.after(pool, meters),
            settled=None if admission is None else admission.settled,
        )

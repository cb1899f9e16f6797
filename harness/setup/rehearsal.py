"""The rehearsal of a run: its first request, sent before the first episode begins.

It has what the run's requests have (the tools of the first world, the history window, the dialect,
sampling and seed), so that it finds what the run would find in each episode. Its outcome is the
first attempt of the first episode that sends the same request, so that it costs nothing. It is one
request more where each episode begins with words that are given to the agent, and with what its
user says to them (tau2).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.dialects.registry import dialect_of
from rehearsal_room.harness.history.windows import HistoryFold, parse_history
from rehearsal_room.harness.policies.base import Assignment, Rehearses
from rehearsal_room.harness.rollout.episode import briefing_of
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.profile import profile_prompt
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.harness.users.base import UserSource
from rehearsal_room.harness.users.scripted import TaskUsers

PATIENCE = 10.0  # seconds; then the run begins, and its first reply is still awaited


async def find_server(settings: Settings, policy: object) -> None:
    """Check that the policy's model server is there, if it asks one. Raises ModelServerError."""
    if settings.model.preflight and isinstance(policy, Rehearses):
        await policy.find_server()


@asynccontextmanager
async def rehearsed(
    settings: Settings,
    policy: object,
    pool: Pool,
    missing: Sequence[EpisodePlan],
    users: UserSource | None = None,
) -> AsyncIterator[None]:
    """Open a block for a run, and send its first request before it. `policy` is open; `missing` are
    the episodes to play; `users` makes the users with whom agents talk (None: those of the tasks).

    Raises ModelServerError, alone or in an exception group, WorldError and PoolError."""
    if not (missing and _rehearses(settings) and isinstance(policy, Rehearses)):
        yield
        return
    fresh = [one for one in missing if one.attempt == 1]
    plan = next((one for one in fresh if not one.task.opening), (*fresh, missing[0])[0])
    users = users or TaskUsers(plays_solutions=False)
    async with pool.lease(plan.scenario, plan.task) as env:
        user = users.user(plan.scenario, plan.task, env.tools, seed=plan.seed)
        earlier = profile_prompt(settings)
        briefing = briefing_of(
            *(plan.scenario, plan.task, env.tools, user, earlier), history=settings.history
        )
    dialect = dialect_of(settings.dialect_name, lenient=settings.format.rules != "awm")
    window = HistoryFold(parse_history(settings.history), dialect, briefing).window()
    first = Assignment(plan.episode, plan.scenario, plan.task, plan.seed, briefing, plan.member)
    async with anyio.create_task_group() as tasks:
        done = anyio.Event()

        async def rehearse() -> None:
            await policy.rehearse(first, window)
            done.set()

        tasks.start_soon(rehearse)
        with anyio.move_on_after(PATIENCE):
            await done.wait()
        yield
        tasks.cancel_scope.cancel()


def _rehearses(settings: Settings) -> bool:
    """Whether a first request is sent. What an agent of the user's own will ask is not known."""
    return settings.model.preflight and not settings.agent.target


async def rehearse_for_workers(
    settings: Settings, policy: object, missing: Sequence[EpisodePlan]
) -> None:
    """Send the first request of a run that other processes play; each of them sends its own, too.
    Raises as `rehearsed` does."""
    if not (missing and _rehearses(settings) and isinstance(policy, Rehearses)):
        return
    async with pool_of(settings, report_trusted=lambda _: None) as pool, policy:
        await pool.host_all([missing[0].scenario])
        async with rehearsed(settings, policy, pool, missing[:1]):
            pass

"""One run whose episodes this process plays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
import msgspec
from rich.console import Console

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.branches import Branches
from rehearsal_room.harness.continuation.resumed_turns import KeptTurns, open_resumed_turns
from rehearsal_room.harness.continuation.sequels import Sequels
from rehearsal_room.harness.core.messages import Message
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.history.base import HistoryWindow
from rehearsal_room.harness.log.schema import ScenarioSnapshot
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.rollout.episode import EpisodeDriver, RunContext, run_episode, user_of
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.monitor import Monitor
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.remaining import (
    INTERRUPTED,
    REPEATED,
    Remaining,
    read_remaining,
    scenarios_of,
)
from rehearsal_room.harness.rollout.running import Attended, SessionParts, running
from rehearsal_room.harness.rollout.scheduler import Admit, run_all
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.users.base import UserSource
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.scenarios.format import Scenario


class RunParts(SessionParts, frozen=True, kw_only=True):
    """The parts of a run whose episodes this process plays."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryWindow
    format: FormatSettings
    limits: Limits
    users: UserSource = msgspec.field(default_factory=TaskUsers)  # with whom agents talk
    driver: EpisodeDriver | None = None  # takes an episode's steps; None: the policy, turn by turn
    beginning: Beginning | None = None  # the turns that each episode keeps; None: it keeps none
    beginnings: Mapping[str, Beginning] = {}  # those of single episodes, by their names
    branches: Branches | None = None  # how groups branch, one of the listeners; None: they do not
    sequels: Sequels | None = None  # one of the listeners; None: no episode follows another one
    admit: Admit | None = None  # when an episode may begin; None: when a slot is free
    earlier: tuple[Message, ...] = ()  # before the task of each episode


async def run_session(
    folder: Path,
    plans: Iterable[EpisodePlan],
    parts: RunParts,
    *,
    concurrency: int,
    meters: Meters,
    resume: bool = False,
    repeat_failures: bool = True,
    console: Console | None = None,
) -> Monitor:
    """Run, log and judge the episodes of a plan; with `resume` only those that are missing, and
    with `repeat_failures` those again whose model could not answer. An episode that was interrupted
    goes on after its last logged turn, unless `parts.driver` takes its steps or the state of its
    world is not known. When `parts.admit` refuses further episodes, the live ones still run to
    their end.

    Raises LogError, PoolError, BusError and ModelOutageError; a bug in an episode is raised
    unchanged.
    """
    read = partial(
        read_remaining,
        folder,
        list(plans),
        resume=resume,
        judged=parts.judge is not None,
        repeated=REPEATED if repeat_failures else INTERRUPTED,
    )
    left = await anyio.to_thread.run_sync(read)
    return await play_left(
        folder, left, parts, concurrency=concurrency, meters=meters, resume=resume, console=console
    )


async def play_left(
    folder: Path,
    left: Remaining,
    parts: RunParts,
    *,
    concurrency: int,
    meters: Meters,
    resume: bool,
    console: Console | None,
) -> Monitor:
    """The same for what is left of a plan."""
    if any(plan.source for plan in left.missing):
        sequels = Sequels(folder, [plan.episode for plan in left.missing])
        listeners = (sequels, *parts.listeners)
        parts = msgspec.structs.replace(parts, sequels=sequels, listeners=listeners)
    with unwrapped():
        worlds = [await snapshot_of(parts.pool, scenario) for scenario in scenarios_of(left.plans)]
        opened = running(
            folder,
            worlds,
            parts,
            left=left,
            judged=parts.judge is not None,
            meters=meters,
            live=parts.pool,
            resume=resume,
            console=console,
        )
        async with opened as session:
            context = context_of(parts, session, meters)
            num_run = await _run_episodes(folder, left.missing, context, parts, concurrency, meters)
            session.monitor.set_total(len(left.done) + len(left.unjudged) + num_run)
    return session.monitor


def context_of(parts: RunParts, attended: Attended, meters: Meters) -> RunContext:
    """What every episode of a run that is open shares."""
    return RunContext(
        pool=parts.pool,
        policy=parts.policy,
        dialect=parts.dialect,
        history=parts.history,
        format=parts.format,
        limits=parts.limits,
        recorder=attended.recorder,
        watchdog=attended.watchdog,
        meters=meters,
        users=parts.users,
        earlier=parts.earlier,
    )


async def _run_episodes(
    folder: Path,
    missing: Sequence[EpisodePlan],
    context: RunContext,
    parts: RunParts,
    concurrency: int,
    meters: Meters,
) -> int:
    """Run the missing episodes; return how many began."""
    num_run = 0
    resumed_turns: KeptTurns | None = None  # None: no episode goes on

    async def work(plan: EpisodePlan) -> None:
        nonlocal num_run
        num_run += 1
        await play(plan, context, parts, resumed_turns)

    if parts.branches is not None:
        names = [plan.episode for plan in missing]
        await anyio.to_thread.run_sync(parts.branches.expect, names)
    with ExitStack() as stack:
        if parts.driver is None and any(plan.attempt > 1 for plan in missing):
            opened = open_resumed_turns(folder, context.dialect, context.history)
            resumed_turns = stack.enter_context(opened)
        if parts.admission is not None:
            concurrency = parts.admission.attach(context.slots)
        admit = meters.timed(parts.admit)
        await run_all(missing, work, concurrency=concurrency, admit=admit, slots=context.slots)
    return num_run


async def play(
    plan: EpisodePlan, context: RunContext, parts: RunParts, resumed_turns: KeptTurns | None
) -> None:
    """Run one episode, after the turns that it keeps (`kept_turns` None: of no earlier attempt)."""
    beginning = parts.beginnings.get(plan.episode, parts.beginning)
    if resumed_turns is not None:
        digest = plan.scenario.digest
        kept = await resumed_turns.of(plan.episode, digest, attempt=plan.attempt)
        beginning = kept if beginning is None else beginning.resumed_by(kept)
    if beginning is None and plan.source and parts.sequels is not None:
        async with context.slots.paused():
            beginning = await parts.sequels.beginning(plan.source)
    branches = parts.branches
    if beginning is None and branches is not None and branches.is_branch(plan.member):
        async with context.slots.paused():
            beginning = await branches.beginning(plan.group, plan.member)
    await run_episode(plan, context, parts.driver, beginning)
    if parts.judge is None:
        context.recorder.close(plan.episode)


@contextmanager
def unwrapped() -> Iterator[None]:
    """A block that raises the one exception inside of the groups of its tasks."""
    try:
        yield
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from failure.__cause__


def sole_exception(exc: BaseException) -> BaseException:
    """The one exception inside of exception groups, which our task groups wrap around it. Several
    of the same type and text count as one: several tasks may run into one bug. Where the exceptions
    differ, their group is returned."""
    while isinstance(exc, BaseExceptionGroup):
        first, *others = exc.exceptions
        if any((type(one), str(one)) != (type(first), str(first)) for one in others):
            return exc
        exc = first
    return exc


async def snapshot_of(pool: Pool, scenario: Scenario) -> ScenarioSnapshot:
    """What the log keeps of a scenario: its start, rules and tools. Raises PoolError."""
    world = await pool.host(scenario)
    return ScenarioSnapshot(
        scenario_digest=scenario.digest,
        scenario=scenario.name,
        version=scenario.version,
        template=world.template.digest,
        image=world.template.image,
        rules=scenario.rules,
        user=user_of(scenario),
        now=scenario.clock,
        tools=world.tools,
        source_path=str(scenario.path.absolute()),
    )

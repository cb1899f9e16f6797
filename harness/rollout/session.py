"""One run, from start to end: log, bus, windows, judge and episodes, opened and closed in order.

Everything that must be closed is entered here and left in reverse order. The order at the end
matters: the episodes end, the log commits their last events, the judge gives the last verdicts, the
log commits those, the listeners finish, and only then the bus closes and its subscribers end.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    suppress,
)
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import msgspec
import structlog
from rich.console import Console

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.bus.local import LocalBus, Subscription
from rehearsal_room.harness.continuation.beginning import Beginning
from rehearsal_room.harness.continuation.kept_turns import KeptTurns, open_kept_turns
from rehearsal_room.harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    Event,
    Judged,
    Kind,
    Record,
    WeightsPublished,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.dialects.base import Dialect
from rehearsal_room.harness.dialects.format_rules import FormatSettings
from rehearsal_room.harness.history.base import HistoryPolicy
from rehearsal_room.harness.log.reader import LogReader, open_reader
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.schema import LOG_NAME, EpisodeRow, ScenarioSnapshot
from rehearsal_room.harness.log.writer import LogWriter, OpenDatabase, open_log, open_sqlite
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.rollout.deadlines import Watchdog
from rehearsal_room.harness.rollout.episode import EpisodeDriver, RunContext, run_episode, user_of
from rehearsal_room.harness.rollout.meters import Meters, measuring
from rehearsal_room.harness.rollout.monitor import Monitor, show_progress
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.scheduler import Admit, run_all
from rehearsal_room.harness.settings.limits import Limits
from rehearsal_room.harness.users.base import UserSource
from rehearsal_room.harness.users.scripted import TaskUsers
from rehearsal_room.scenarios.format import Scenario

EndedEpisode = tuple[EpisodeRow, int]  # its row, and the sequence number of its next record
RecordVerdict = Callable[[str, int, Event], Awaitable[None]]  # episode, attempt, verdict
RecordRunEvent = Callable[[WeightsPublished], None]  # records an event of the run itself in its log
_MAX_CONCURRENT_VERDICTS = 64  # on episodes that ended before the run was resumed
INTERRUPTED = frozenset({Ending.CANCELLED})
# Endings of episodes that a resumed run plays again: nothing is known about the agent.
REPEATED = INTERRUPTED | {Ending.POLICY_ERROR}
_LAST_FLUSH = 10.0  # seconds for the last events to reach the log and the link
_log = structlog.get_logger(__name__)


class Remaining(NamedTuple):
    """The plan's episodes by what is left to do for them when a run starts or resumes."""

    plans: list[EpisodePlan]  # all of them
    done: list[EpisodeRow]
    missing: list[EpisodePlan]  # to run
    unjudged: list[EndedEpisode]  # only to judge
    num_weights: int  # versions of weights in the log


class Judge(Protocol):
    """The judge of a run, as the session uses it. The composition root passes it in."""

    async def serve(self, subscription: Subscription, record: RecordVerdict) -> None:
        """Judge every episode that ends, until the bus is closed."""

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on one episode from the log."""


class Listener(Protocol):
    """A subscriber of the run's events inside of this process, as the learner is."""

    @property
    def kinds(self) -> Collection[Kind]:
        """The kinds of events that it gets."""

    async def serve(self, subscription: Subscription, record: RecordRunEvent) -> None:
        """Handle the events until the bus is closed. `record` writes an event to the run's log."""

    async def wait_until_done(self) -> None:
        """Return when the run may end. Called when every episode is finished and none begins."""


class Publisher(Protocol):
    """A link that sends the run's events to other processes."""

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        """Queue what the log has committed."""

    async def wait_for_room(self) -> None:
        """Return when more may be queued."""


class Faults(Protocol):
    """What injects faults on purpose, and records them in the log."""

    async def run(self, recorder: Recorder) -> None:
        """Inject and record until cancelled; nothing is injected before and after."""


Link = Callable[[int], AbstractAsyncContextManager[Publisher]]  # opened at this log position


class RunParts(msgspec.Struct, frozen=True):
    """The parts of a run, as the composition root chose them."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryPolicy
    format: FormatSettings
    limits: Limits
    judge: Judge | None = None  # None: the episodes stay unjudged
    link: Link | None = None  # None: no other process follows the run
    driver: EpisodeDriver | None = None  # takes an episode's steps; None: the policy, turn by turn
    admit: Admit | None = None  # when an episode may begin; None: when a slot is free
    admission: AdaptiveAdmission | None = None  # how many run at once; None: `concurrency`
    listeners: tuple[Listener, ...] = ()
    open_database: OpenDatabase = open_sqlite  # of the log
    beginning: Beginning | None = None  # the turns that each episode keeps; None: it keeps none
    faults: Faults | None = None  # None: none are injected
    users: UserSource = msgspec.field(default_factory=TaskUsers)  # with whom agents talk


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
    repeated = REPEATED if repeat_failures else INTERRUPTED
    try:
        left = await anyio.to_thread.run_sync(
            read_remaining, folder, list(plans), resume, parts.judge is not None, repeated
        )
        return await _run(folder, left, parts, concurrency, meters, resume, console)
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from None


async def _run(
    folder: Path,
    left: Remaining,
    parts: RunParts,
    concurrency: int,
    meters: Meters,
    resume: bool,
    console: Console | None,
) -> Monitor:
    monitor = Monitor(total=len(left.plans), judged=parts.judge is not None)
    monitor.restore(left.done, judged=True)
    monitor.restore([row for row, _ in left.unjudged], judged=False)
    worlds = [await snapshot_of(parts.pool, scenario) for scenario in scenarios_of(left.plans)]
    meters.start()
    opened = open_log_and_bus(
        folder, worlds, parts.link, resume=resume, open_database=parts.open_database
    )
    parts = msgspec.structs.replace(parts, admit=meters.timed(parts.admit))
    async with opened as (log, bus), measuring(log, meters):
        recorder = Recorder(log)
        recorder.open(WEIGHTS_EPISODE, seq=left.num_weights)
        context = make_context(parts, recorder, meters)
        async with anyio.create_task_group() as subscribers:
            await start_subscribers(
                subscribers, bus, monitor, recorder, parts.judge, parts.listeners
            )
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(context.watchdog.run)
                helpers.start_soon(meters.watch, parts.pool)
                if parts.admission is not None:
                    helpers.start_soon(parts.admission.run)
                if console is not None:
                    helpers.start_soon(show_progress, monitor, console, limit_of(parts.admission))
                if parts.faults is not None:
                    helpers.start_soon(parts.faults.run, recorder)
                if left.unjudged and parts.judge is not None:
                    judging = (folder, left.unjudged, parts.judge, recorder)
                    helpers.start_soon(judge_unjudged, *judging)
                num_run = await _run_episodes(folder, left.missing, context, parts, concurrency)
                monitor.set_total(len(left.done) + len(left.unjudged) + num_run)
                await log.flush()
                await monitor.wait_until_finished()
                for listener in parts.listeners:
                    await listener.wait_until_done()
                helpers.cancel_scope.cancel()
            bus.close()
    meters.stop()
    _log.info("run_done", folder=str(folder), episodes=monitor.finished)
    return monitor


@asynccontextmanager
async def open_log_and_bus(
    folder: Path,
    worlds: Sequence[ScenarioSnapshot],
    link: Link | None,
    *,
    resume: bool,
    open_database: OpenDatabase = open_sqlite,
) -> AsyncIterator[tuple[LogWriter, LocalBus]]:
    """The log, and the bus that carries what the log has committed. The link comes before the bus:
    it gets every event, and gets it first."""
    async with AsyncExitStack() as stack:
        opened = open_log(folder, resume=resume, open_database=open_database)
        log = await stack.enter_async_context(opened)
        for world in worlds:
            log.add_scenario(world)
        if link is not None:
            publisher = await stack.enter_async_context(link(log.durable))
            log.on_commit(_send_to_link(publisher))
            stack.push_async_callback(_flush, log)  # so that the link has everything when it closes
        bus = LocalBus()
        log.on_commit(_send_to_bus(bus))
        yield log, bus


def make_context(parts: RunParts, recorder: Recorder, meters: Meters) -> RunContext:
    """What every episode of a run shares."""
    return RunContext(
        pool=parts.pool,
        policy=parts.policy,
        dialect=parts.dialect,
        history=parts.history,
        format=parts.format,
        limits=parts.limits,
        recorder=recorder,
        watchdog=Watchdog(),
        meters=meters,
        users=parts.users,
    )


async def _run_episodes(
    folder: Path,
    missing: Sequence[EpisodePlan],
    context: RunContext,
    parts: RunParts,
    concurrency: int,
) -> int:
    """Run the missing episodes; return how many began."""
    num_run = 0
    kept_turns: KeptTurns | None = None  # None: no episode goes on

    async def work(plan: EpisodePlan) -> None:
        nonlocal num_run
        num_run += 1
        await play(plan, context, parts, kept_turns)

    with ExitStack() as stack:
        if parts.driver is None and any(plan.attempt > 1 for plan in missing):
            opened = open_kept_turns(folder, context.dialect, context.history)
            kept_turns = stack.enter_context(opened)
        if parts.admission is not None:
            concurrency = parts.admission.attach(context.slots)
        await run_all(
            missing, work, concurrency=concurrency, admit=parts.admit, slots=context.slots
        )
    return num_run


async def play(
    plan: EpisodePlan, context: RunContext, parts: RunParts, kept_turns: KeptTurns | None
) -> None:
    """Run one episode, after the turns that it keeps (`kept_turns` None: of no earlier attempt)."""
    beginning = parts.beginning
    if kept_turns is not None:
        digest = plan.scenario.digest
        kept = await kept_turns.of(plan.episode, digest, attempt=plan.attempt)
        beginning = kept or beginning
    await run_episode(plan, context, parts.driver, beginning)
    if parts.judge is None:
        context.recorder.close(plan.episode)


def limit_of(admission: AdaptiveAdmission | None) -> Callable[[], int] | None:
    """A function that returns how many episodes may run at once; None: it does not change."""
    return None if admission is None else lambda: admission.limit


async def _flush(log: LogWriter) -> None:
    with anyio.move_on_after(_LAST_FLUSH, shield=True):
        await log.flush()


async def start_subscribers(
    tasks: anyio.abc.TaskGroup,
    bus: LocalBus,
    monitor: Monitor,
    recorder: Recorder,
    judge: Judge | None,
    listeners: Sequence[Listener],
) -> None:
    """Start the subscribers; they get everything that is published after this returns."""

    async def record_verdict(episode: str, attempt: int, event: Event) -> None:
        # Does not wait for room in the log: the log may be waiting for this very subscriber.
        recorder.stamp(episode, attempt, event)
        recorder.close(episode)

    def record_run_event(event: WeightsPublished) -> None:
        recorder.stamp(WEIGHTS_EPISODE, 1, event)

    async def count(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with bus.subscribe() as subscription:
            task_status.started()
            await monitor.serve(subscription)

    async def judge_ended(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        assert judge is not None
        async with bus.subscribe(kinds=("started", "step", "ended")) as subscription:
            task_status.started()
            await judge.serve(subscription, record_verdict)

    async def serve_listener(
        listener: Listener, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with bus.subscribe(kinds=listener.kinds) as subscription:
            task_status.started()
            await listener.serve(subscription, record_run_event)

    await tasks.start(count)
    for listener in listeners:
        await tasks.start(serve_listener, listener)
    if judge is not None:
        await tasks.start(judge_ended)


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


def _send_to_bus(bus: LocalBus) -> Callable[[list[tuple[int, Record]]], Awaitable[None]]:
    async def publish(batch: list[tuple[int, Record]]) -> None:
        for _, record in batch:
            # An event that a listener records after the bus has closed is in the log only.
            with suppress(anyio.ClosedResourceError):
                await bus.publish(record)

    return publish


def _send_to_link(publisher: Publisher) -> Callable[[list[tuple[int, Record]]], Awaitable[None]]:
    async def publish(batch: list[tuple[int, Record]]) -> None:
        publisher.put(batch)
        await publisher.wait_for_room()

    return publish


async def judge_unjudged(
    folder: Path, unjudged: Sequence[EndedEpisode], judge: Judge, recorder: Recorder
) -> None:
    """Judge from the log the episodes that ended before a crash and were not judged."""
    limiter = anyio.CapacityLimiter(_MAX_CONCURRENT_VERDICTS)

    async def judge_one(row: EpisodeRow, trajectory: Trajectory) -> None:
        try:
            recorder.stamp(row.episode, row.attempt, await judge.verdict(trajectory))
        finally:
            recorder.close(row.episode)
            limiter.release_on_behalf_of(row.episode)

    with open_reader(folder) as reader:
        async with anyio.create_task_group() as tasks:
            for row, seq in unjudged:
                await limiter.acquire_on_behalf_of(row.episode)
                recorder.open(row.episode, seq=seq)
                tasks.start_soon(judge_one, row, reader.trajectory(row.episode))


class WorkLeft(NamedTuple):
    """What a run has still to do."""

    episodes: int  # to play
    verdicts: int  # on episodes that are in the log


def work_left(
    folder: Path, plans: Sequence[EpisodePlan], *, resume: bool, judged: bool
) -> WorkLeft:
    """What is left to do of a plan, before the run begins. Raises LogError."""
    left = read_remaining(folder, list(plans), resume, judged, REPEATED)
    return WorkLeft(len(left.missing), len(left.unjudged))


def read_remaining(
    folder: Path,
    plans: list[EpisodePlan],
    resume: bool,
    judged: bool,
    repeated: Collection[Ending],
) -> Remaining:
    """What is left of the plan. An episode that was cut off gets another attempt, and so does one
    with an ending that is `repeated`."""
    if not resume or not (folder / LOG_NAME).exists():
        return Remaining(plans, [], list(plans), [], 0)
    with open_reader(folder) as reader:
        return _remaining_of(reader, plans, judged, repeated)


def _remaining_of(
    reader: LogReader, plans: list[EpisodePlan], judged: bool, repeated: Collection[Ending]
) -> Remaining:
    progress_by_episode = reader.progress()
    rows = {row.episode: row for row in reader.episodes()}
    done: list[EpisodeRow] = []
    missing: list[EpisodePlan] = []
    unjudged: list[EndedEpisode] = []
    for plan in plans:
        progress = progress_by_episode.get(plan.episode)
        if progress is None:
            missing.append(plan)
        elif not progress.ended or rows[plan.episode].ending in repeated:
            missing.append(msgspec.structs.replace(plan, attempt=progress.next_attempt))
        elif judged and not progress.judged:
            unjudged.append((rows[plan.episode], progress.next_seq))
        else:
            done.append(rows[plan.episode])
    return Remaining(plans, done, missing, unjudged, reader.counts().get("weights", 0))


def scenarios_of(plans: Iterable[EpisodePlan]) -> list[Scenario]:
    """The scenarios of the plans, each once."""
    return list({plan.scenario.digest: plan.scenario for plan in plans}.values())


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

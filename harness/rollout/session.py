"""One run, end to end: log, bus, windows, judge and episodes put together and taken apart in order.

Everything that must be closed is entered here and left in reverse. The order at the end matters:
the episodes end, the log commits what they left, the judge gives the last verdicts, the log commits
those, the listeners from within let go, and only then the bus closes and its subscribers end.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
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

from envpool.store.pool_protocol import Pool
from harness.bus.local import LocalBus, Subscription
from harness.core.events import (
    WEIGHTS_EPISODE,
    Ending,
    Event,
    Judged,
    Kind,
    Record,
    WeightsPublished,
)
from harness.core.trajectory import Trajectory
from harness.dialects.base import Dialect
from harness.dialects.format_rules import FormatSettings
from harness.history.base import HistoryPolicy
from harness.history.windows import HistoryManager
from harness.log.reader import LogReader, open_reader
from harness.log.recorder import Recorder
from harness.log.schema import LOG_NAME, EpisodeRow, ScenarioSnapshot
from harness.log.writer import LogWriter, open_log
from harness.policies.base import Policy
from harness.rollout.deadlines import Watchdog
from harness.rollout.episode import Limits, Play, RunContext, run_episode, user_of
from harness.rollout.meters import Meters
from harness.rollout.monitor import Monitor, show_progress
from harness.rollout.plan import EpisodePlan
from harness.rollout.scheduler import Admit, run_all
from scenarios.format import Scenario

Ended = tuple[EpisodeRow, int]  # an episode that ended, and its next record's sequence number
Verdict = Callable[[str, int, Event], Awaitable[None]]
Tell = Callable[[WeightsPublished], None]  # keeps a fact of the run itself in its log
_LEFT_AT_ONCE = 64  # episodes of an earlier sitting that are judged at once
_LAST_FLUSH = 10.0  # seconds for the last facts to reach the log and the link
_log = structlog.get_logger(__name__)


class _Left(NamedTuple):
    """What an earlier sitting left of the plan."""

    done: list[EpisodeRow]
    missing: list[EpisodePlan]  # to be run
    unjudged: list[Ended]  # only to be judged
    num_told: int  # versions of weights that the log tells of


class Judge(Protocol):
    """The judge of a run, as the session sees it; the roof hands it in."""

    async def serve(self, subscription: Subscription, record: Verdict) -> None:
        """Judge every episode that ends, until the bus is closed."""

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on one episode from the log."""


class Listener(Protocol):
    """Somebody else who hears the run from within, as the learner does."""

    @property
    def kinds(self) -> Collection[Kind]:
        """What it hears."""

    async def serve(self, subscription: Subscription, tell: Tell) -> None:
        """Hear the facts until the bus is closed."""

    async def over(self) -> None:
        """Return when the run may end. Asked when every episode is finished and no more begin."""


class Publisher(Protocol):
    """A link that carries the run's facts to other processes."""

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        """Take what the log has committed."""

    async def wait_for_room(self) -> None:
        """Return when more may be handed over."""


Link = Callable[[int], AbstractAsyncContextManager[Publisher]]  # given the log's position


class RunParts(msgspec.Struct, frozen=True):
    """What a run is made of, chosen by the roof."""

    pool: Pool
    policy: Policy
    dialect: Dialect
    history: HistoryPolicy
    format: FormatSettings
    limits: Limits
    judge: Judge | None = None  # None: the episodes stay unjudged
    link: Link | None = None  # None: nobody else is told
    play: Play | None = None  # takes the steps of an episode; None: the policy does, turn by turn
    admit: Admit | None = None  # when an episode may begin; None: when a place is free
    listeners: tuple[Listener, ...] = ()


async def run_session(
    folder: Path,
    plans: Iterable[EpisodePlan],
    parts: RunParts,
    *,
    concurrency: int,
    meters: Meters,
    resume: bool = False,
    console: Console | None = None,
) -> Monitor:
    """Run, log and judge the episodes of a plan; with `resume` only those that are missing. Where
    `parts.admit` says that no more are wanted, those that are live come to their end.

    Raises LogError, PoolError and BusError; a bug in an episode is raised as it is.
    """
    try:
        return await _run(folder, list(plans), parts, concurrency, meters, resume, console)
    except BaseExceptionGroup as group:
        failure = sole_exception(group)
        if failure is group:
            raise
        raise failure from None


async def _run(
    folder: Path,
    wanted: list[EpisodePlan],
    parts: RunParts,
    concurrency: int,
    meters: Meters,
    resume: bool,
    console: Console | None,
) -> Monitor:
    left = await anyio.to_thread.run_sync(
        _what_is_left, folder, wanted, resume, parts.judge is not None
    )
    monitor = Monitor(total=len(wanted), judged=parts.judge is not None)
    monitor.restore(left.done, judged=True)
    monitor.restore([row for row, _ in left.unjudged], judged=False)
    worlds = [await _mounted(parts.pool, scenario) for scenario in _scenarios(wanted)]
    meters.start()
    async with _opened(folder, worlds, parts.link, resume=resume) as (log, bus):
        windows = HistoryManager()
        recorder = Recorder(log, folds=(windows.handle,))
        recorder.open(WEIGHTS_EPISODE, seq=left.num_told)
        stage = _stage_of(parts, recorder, windows, meters)
        async with anyio.create_task_group() as listeners:
            await _listen(listeners, bus, monitor, parts, recorder)
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(stage.watchdog.run)
                helpers.start_soon(meters.watch, parts.pool)
                if console is not None:
                    helpers.start_soon(show_progress, monitor, console)
                if left.unjudged and parts.judge is not None:
                    helpers.start_soon(_judge_left, folder, left.unjudged, parts.judge, recorder)
                num_run = await _play(left.missing, stage, parts, concurrency)
                monitor.expect(len(left.done) + len(left.unjudged) + num_run)
                await log.flush()
                await monitor.complete()
                for listener in parts.listeners:
                    await listener.over()
                helpers.cancel_scope.cancel()
            bus.close()
    meters.stop()
    _log.info("run_done", folder=str(folder), episodes=monitor.finished)
    return monitor


@asynccontextmanager
async def _opened(
    folder: Path, worlds: Sequence[ScenarioSnapshot], link: Link | None, *, resume: bool
) -> AsyncIterator[tuple[LogWriter, LocalBus]]:
    """The log, and the bus that hears what it has committed. Others are linked before the bus: they
    hear it first, and all of it."""
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_log(folder, resume=resume))
        for world in worlds:
            log.add_scenario(world)
        if link is not None:
            linked = await stack.enter_async_context(link(int(log.statistics()["position"])))
            log.on_commit(_to_link(linked))
            stack.push_async_callback(_flush, log)  # the link closes with everything in it
        bus = LocalBus()
        log.on_commit(_to_bus(bus))
        yield log, bus


def _stage_of(
    parts: RunParts, recorder: Recorder, windows: HistoryManager, meters: Meters
) -> RunContext:
    return RunContext(
        pool=parts.pool,
        policy=parts.policy,
        dialect=parts.dialect,
        history=parts.history,
        format=parts.format,
        limits=parts.limits,
        recorder=recorder,
        windows=windows,
        watchdog=Watchdog(),
        meters=meters,
    )


async def _play(
    missing: Sequence[EpisodePlan], stage: RunContext, parts: RunParts, concurrency: int
) -> int:
    """Run the episodes that are missing; gives how many began."""
    num_run = 0

    async def work(plan: EpisodePlan) -> None:
        nonlocal num_run
        num_run += 1
        await run_episode(plan, stage, parts.play)
        if parts.judge is None:
            stage.recorder.close(plan.episode)

    await run_all(missing, work, concurrency=concurrency, admit=parts.admit)
    return num_run


async def _flush(log: LogWriter) -> None:
    with anyio.move_on_after(_LAST_FLUSH, shield=True):
        await log.flush()


async def _listen(
    tasks: anyio.abc.TaskGroup,
    bus: LocalBus,
    monitor: Monitor,
    parts: RunParts,
    recorder: Recorder,
) -> None:
    """Start the subscribers; they hear everything that is published after this returns."""

    async def verdict(episode: str, attempt: int, event: Event) -> None:
        # Without waiting for room: the log's room may wait for this very subscriber.
        recorder.stamp(episode, attempt, event)
        recorder.close(episode)

    def tell(event: WeightsPublished) -> None:
        recorder.stamp(WEIGHTS_EPISODE, 1, event)

    async def count(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with bus.subscribe() as subscription:
            task_status.started()
            await monitor.serve(subscription)

    async def judge(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        assert parts.judge is not None
        async with bus.subscribe(kinds=("started", "step", "ended")) as subscription:
            task_status.started()
            await parts.judge.serve(subscription, verdict)

    async def hear(
        listener: Listener, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with bus.subscribe(kinds=listener.kinds) as subscription:
            task_status.started()
            await listener.serve(subscription, tell)

    await tasks.start(count)
    for listener in parts.listeners:
        await tasks.start(hear, listener)
    if parts.judge is not None:
        await tasks.start(judge)


def sole_exception(exc: BaseException) -> BaseException:
    """The one exception inside of groups: our task groups wrap what passes through them. Several
    that say the same, as a bug met by several tasks does, are one."""
    while isinstance(exc, BaseExceptionGroup):
        first, *others = exc.exceptions
        if any((type(one), str(one)) != (type(first), str(first)) for one in others):
            return exc
        exc = first
    return exc


def _to_bus(bus: LocalBus) -> Callable[[list[tuple[int, Record]]], Awaitable[None]]:
    async def tell(batch: list[tuple[int, Record]]) -> None:
        for _, record in batch:
            # What a listener tells at its very end only the log has.
            with suppress(anyio.ClosedResourceError):
                await bus.publish(record)

    return tell


def _to_link(link: Publisher) -> Callable[[list[tuple[int, Record]]], Awaitable[None]]:
    async def tell(batch: list[tuple[int, Record]]) -> None:
        link.put(batch)
        await link.wait_for_room()

    return tell


async def _judge_left(
    folder: Path, unjudged: Sequence[Ended], judge: Judge, recorder: Recorder
) -> None:
    """Judge from the log what ended before a crash and was not judged."""
    room = anyio.CapacityLimiter(_LEFT_AT_ONCE)

    async def give(row: EpisodeRow, trajectory: Trajectory) -> None:
        try:
            recorder.stamp(row.episode, row.attempt, await judge.verdict(trajectory))
        finally:
            recorder.close(row.episode)
            room.release_on_behalf_of(row.episode)

    with open_reader(folder) as reader:
        async with anyio.create_task_group() as tasks:
            for row, seq in unjudged:
                await room.acquire_on_behalf_of(row.episode)
                recorder.open(row.episode, seq=seq)
                tasks.start_soon(give, row, reader.trajectory(row.episode))


def _what_is_left(folder: Path, wanted: Sequence[EpisodePlan], resume: bool, judged: bool) -> _Left:
    """A cancelled episode is run again; so is one that was cut off."""
    if not resume or not (folder / LOG_NAME).exists():
        return _Left([], list(wanted), [], 0)
    with open_reader(folder) as reader:
        return _left(reader, wanted, judged)


def _left(reader: LogReader, wanted: Sequence[EpisodePlan], judged: bool) -> _Left:
    progress = reader.progress()
    rows = {row.episode: row for row in reader.episodes()}
    done: list[EpisodeRow] = []
    missing: list[EpisodePlan] = []
    unjudged: list[Ended] = []
    for plan in wanted:
        got = progress.get(plan.episode)
        if got is None:
            missing.append(plan)
        elif not got.ended or rows[plan.episode].ending is Ending.CANCELLED:
            missing.append(msgspec.structs.replace(plan, attempt=got.next_attempt))
        elif judged and not got.judged:
            unjudged.append((rows[plan.episode], got.next_seq))
        else:
            done.append(rows[plan.episode])
    return _Left(done, missing, unjudged, reader.counts().get("weights", 0))


def _scenarios(plans: Iterable[EpisodePlan]) -> list[Scenario]:
    return list({plan.scenario.digest: plan.scenario for plan in plans}.values())


async def _mounted(pool: Pool, scenario: Scenario) -> ScenarioSnapshot:
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

"""The life of a run: what is open while its episodes are played.

`running` opens it in this order:

1. the clocks of the meters
2. the log
3. the link to other processes: before the bus, so it gets every event, and gets it first
4. the bus, which carries what the log has committed
5. the recorder
6. the subscribers of the bus: monitor, listeners, judge
7. the helpers: watchdog, samples of the meters, admission, faults, progress, missing verdicts

The body of the block is who plays: this process (harness.rollout.session), workers
(harness.fleet.session), or a program that asks for episodes (bridges.open_run). A worker
(harness.fleet.worker) has a stream to its coordinator in place of 2 to 4, so it begins at 5
(`attended`).

The order at the end matters. The episodes end in the body; the log commits their last events, the
judge gives the last verdicts, the log commits those, the listeners finish, the helpers stop, and
only then the bus closes and its subscribers end. The link and the log close last.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc
import msgspec
import structlog
from rich.console import Console

from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.bus.local import LocalBus, Subscription
from rehearsal_room.harness.core.events import (
    WEIGHTS_EPISODE,
    Event,
    EventKind,
    Judged,
    Record,
    WeightsPublished,
)
from rehearsal_room.harness.core.trajectory import Trajectory
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.recorder import Recorder, RecordSink
from rehearsal_room.harness.log.schema import EpisodeRow, ScenarioSnapshot
from rehearsal_room.harness.log.writer import LogWriter, OpenDatabase, open_log, open_sqlite
from rehearsal_room.harness.rollout.deadlines import Watchdog
from rehearsal_room.harness.rollout.meters import LiveWorlds, Meters, SessionMeter, measuring
from rehearsal_room.harness.rollout.monitor import Monitor, show_progress
from rehearsal_room.harness.rollout.remaining import EndedEpisode, Remaining

RecordVerdict = Callable[[str, int, Event], Awaitable[None]]  # episode, attempt, verdict
RecordRunEvent = Callable[[WeightsPublished], None]  # records an event of the run itself in its log
_MAX_CONCURRENT_VERDICTS = 64  # on episodes that ended before the run was resumed
_LAST_FLUSH = 10.0  # seconds for the last events to reach the log and the link
_log = structlog.get_logger(__name__)


class Judge(Protocol):
    """The judge of a run, as the session uses it. The composition root passes it in."""

    async def serve(self, subscription: Subscription, record: RecordVerdict) -> None:
        """Judge every episode that ends, until the bus is closed."""

    async def verdict(self, trajectory: Trajectory) -> Judged:
        """The verdict on one episode from the log."""


class Listener(Protocol):
    """A subscriber of the run's events inside of this process, as the learner is."""

    @property
    def kinds(self) -> Collection[EventKind]:
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


class FaultTask(Protocol):
    """What injects faults on purpose, and records them in the log."""

    async def run(self, recorder: Recorder) -> None:
        """Inject and record until cancelled; nothing is injected before and after."""


Link = Callable[[int], AbstractAsyncContextManager[Publisher]]  # opened at this log position


class SessionParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a run besides what plays its episodes."""

    judge: Judge | None = None  # None: nothing judges the episodes in this process
    link: Link | None = None  # None: no other process follows the run
    listeners: tuple[Listener, ...] = ()
    admission: AdaptiveAdmission | None = None  # how many run at once; None: their number is given
    faults: FaultTask | None = None  # None: none are injected
    open_database: OpenDatabase = open_sqlite  # of the log

    @property
    def follows_records(self) -> bool:
        """Whether something in this process needs the records that the log has committed."""
        return self.judge is not None or self.link is not None or bool(self.listeners)


class Attended(msgspec.Struct, frozen=True):
    """What those who play use of a run that is open."""

    recorder: Recorder
    watchdog: Watchdog  # of the episodes' deadlines
    helpers: anyio.abc.TaskGroup  # tasks that end with the run


class RunSession(Attended, frozen=True):
    """A run that is open, with its log."""

    log: LogWriter
    monitor: Monitor
    measured: SessionMeter  # what is stored about this session at its end


@asynccontextmanager
async def running(
    folder: Path,
    worlds: Sequence[ScenarioSnapshot],
    parts: SessionParts,
    *,
    left: Remaining | None,
    judged: bool,
    meters: Meters,
    live: LiveWorlds,
    resume: bool = False,
    console: Console | None = None,
) -> AsyncIterator[RunSession]:
    """The run in this folder, open for the block, in which its episodes are played. The
    module says what is opened and closed when.

    `left` is what is to be done of its plan (None: it has no plan; the block sets the monitor's
    total). `judged`: episodes get verdicts, here or in workers. `live` are the worlds that the
    meters count. `console` shows the progress (None: it is not shown).

    Raises LogError and BusError, and what failed in a subscriber or a helper, in exception groups.
    """
    monitor = _monitor(left, judged=judged)
    meters.start()
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(
            open_log(folder, resume=resume, open_database=parts.open_database)
        )
        for world in worlds:
            log.add_scenario(world)
        if parts.link is not None:
            publisher = await stack.enter_async_context(parts.link(log.durable))
            log.on_commit(_send_to_link(publisher))
            stack.push_async_callback(_flush, log)  # so that the link has everything when it closes
        bus: LocalBus | None = None
        if parts.follows_records:
            bus = LocalBus()
            log.on_commit(_send_to_bus(bus))
        else:  # encoded records stay encoded
            log.on_commit_entries(monitor.count_entries)
        measured = await stack.enter_async_context(measuring(log, meters))
        opened = attended(
            log,
            bus,
            parts,
            meters=meters,
            live=live,
            monitor=monitor,
            num_weights=0 if left is None else left.num_weights,
        )
        attendance = await stack.enter_async_context(opened)
        helpers, recorder = attendance.helpers, attendance.recorder
        if console is not None:
            helpers.start_soon(show_progress, monitor, console, _limit_of(parts.admission))
        if left is not None and left.unjudged and parts.judge is not None:
            helpers.start_soon(_judge_unjudged, folder, left.unjudged, parts.judge, recorder)
        yield RunSession(
            recorder=recorder,
            watchdog=attendance.watchdog,
            helpers=helpers,
            log=log,
            monitor=monitor,
            measured=measured,
        )
    meters.stop()
    _log.info("run_done", folder=str(folder), episodes=monitor.finished)


@asynccontextmanager
async def attended(
    sink: RecordSink,
    bus: LocalBus | None,
    parts: SessionParts,
    *,
    meters: Meters,
    live: LiveWorlds,
    monitor: Monitor | None = None,
    num_weights: int = 0,
) -> AsyncIterator[Attended]:
    """Recorder, subscribers and helpers of a run whose records go into a sink, for the block. `bus`
    carries what is stored (None: nothing here follows it); it is closed at the end. `monitor`
    None: another process counts the episodes. `num_weights`: versions of weights in the log."""
    recorder, watchdog = Recorder(sink), Watchdog()
    recorder.open(WEIGHTS_EPISODE, seq=num_weights)
    async with anyio.create_task_group() as subscribers:
        if bus is not None:
            await _start_subscribers(subscribers, bus, recorder, parts, monitor)
        async with anyio.create_task_group() as helpers:
            helpers.start_soon(watchdog.run)
            helpers.start_soon(meters.watch, live)
            if parts.admission is not None:
                helpers.start_soon(parts.admission.run)
            if parts.faults is not None:
                helpers.start_soon(parts.faults.run, recorder)
            yield Attended(recorder, watchdog, helpers)
            await sink.flush()
            if monitor is not None:
                await monitor.wait_until_finished()
            for listener in parts.listeners:
                await listener.wait_until_done()
            helpers.cancel_scope.cancel()
        if bus is not None:
            bus.close()


def _monitor(left: Remaining | None, *, judged: bool) -> Monitor:
    """The monitor of a run, which has counted the episodes of its log."""
    if left is None:
        return Monitor(total=None, judged=judged)
    monitor = Monitor(total=len(left.plans), judged=judged)
    monitor.restore(left.done, judged=True)
    monitor.restore([row for row, _ in left.unjudged], judged=False)
    return monitor


def _limit_of(admission: AdaptiveAdmission | None) -> Callable[[], int] | None:
    """A function that returns how many episodes may run at once; None: it does not change."""
    return None if admission is None else lambda: admission.limit


async def _flush(log: LogWriter) -> None:
    with anyio.move_on_after(_LAST_FLUSH, shield=True):
        await log.flush()


async def _start_subscribers(
    tasks: anyio.abc.TaskGroup,
    bus: LocalBus,
    recorder: Recorder,
    parts: SessionParts,
    monitor: Monitor | None,
) -> None:
    """Start the subscribers; they get everything that is published after this returns."""

    async def record_verdict(episode: str, attempt: int, event: Event) -> None:
        # Does not wait for room in the log: the log may be waiting for this very subscriber.
        recorder.stamp(episode, attempt, event)
        recorder.close(episode)

    def record_run_event(event: WeightsPublished) -> None:
        recorder.stamp(WEIGHTS_EPISODE, 1, event)

    async def count(monitor: Monitor, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with bus.subscribe() as subscription:
            task_status.started()
            await monitor.serve(subscription)

    async def judge_ended(judge: Judge, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with bus.subscribe(kinds=("started", "step", "ended")) as subscription:
            task_status.started()
            await judge.serve(subscription, record_verdict)

    async def serve_listener(
        listener: Listener, *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        async with bus.subscribe(kinds=listener.kinds) as subscription:
            task_status.started()
            await listener.serve(subscription, record_run_event)

    if monitor is not None:
        await tasks.start(count, monitor)
    for listener in parts.listeners:
        await tasks.start(serve_listener, listener)
    if parts.judge is not None:
        await tasks.start(judge_ended, parts.judge)


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


async def _judge_unjudged(
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

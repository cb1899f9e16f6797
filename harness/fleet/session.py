"""One run whose episodes are played by workers: the coordinator's side of `run_session`.

It has the log, the bus, the monitor and the link to other processes, and the judge where that asks
models: budget, cache and prices are one for the run. It hosts no world and plays nothing. Without
judge and link nothing here needs the records themselves, so they are stored as they came.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from rich.console import Console

from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.bus.local import LocalBus
from rehearsal_room.harness.fleet.coordinator import Coordinator, StartWorker
from rehearsal_room.harness.fleet.leases import LeaseBook, Unjudged
from rehearsal_room.harness.fleet.messages import Measured, floats_in
from rehearsal_room.harness.fleet.process_worker import WorkerHandle
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.schema import EncodedRecord, ScenarioSnapshot
from rehearsal_room.harness.log.writer import Entry, LogWriter, OpenDatabase, open_log, open_sqlite
from rehearsal_room.harness.rollout.meters import Meters, measuring
from rehearsal_room.harness.rollout.monitor import Monitor, show_progress
from rehearsal_room.harness.rollout.plan import EpisodePlan
from rehearsal_room.harness.rollout.session import (
    Faults,
    Judge,
    Link,
    Remaining,
    judge_unjudged,
    limit_of,
    open_log_and_bus,
    start_subscribers,
)


class Fleet(msgspec.Struct, frozen=True):
    """The workers of a run, ready to play."""

    handles: Sequence[WorkerHandle]
    worlds: Sequence[ScenarioSnapshot]  # of the scenarios that they host
    start: StartWorker  # starts one more, in place of one that died
    shares: Sequence[int]  # episodes that each plays at once
    timeout: float  # seconds without a heartbeat after which one is replaced
    judges: bool  # whether they judge
    admission: AdaptiveAdmission | None = None  # changes the shares; None: they stay
    faults: Faults | None = None  # that are injected here; None: none are
    open_database: OpenDatabase = open_sqlite  # of the log


async def run_fleet(
    folder: Path,
    plans: Sequence[EpisodePlan],
    left: Remaining,
    fleet: Fleet,
    *,
    judge: Judge | None,
    link: Link | None,
    meters: Meters,
    resume: bool,
    console: Console | None,
) -> dict[str, float]:
    """Play and judge what is left of a plan; return the policy's statistics, over all workers.
    `judge` judges here (None: the workers do, or nobody).

    Raises LogError, BusError, ProcessError, and what failed in a worker.
    """
    judged = fleet.judges or judge is not None
    monitor = Monitor(total=len(left.plans), judged=judged)
    monitor.restore(left.done, judged=True)
    monitor.restore([row for row, _ in left.unjudged], judged=False)
    unjudged = [Unjudged(row.episode, row.attempt, seq) for row, seq in left.unjudged]
    book = LeaseBook(plans, left.missing, unjudged, judged=fleet.judges)
    meters.start()
    opened = _open(folder, fleet, link, judge, resume=resume)
    async with opened as (log, bus), measuring(log, meters) as session:
        recorder = Recorder(log)
        coordinator = Coordinator(
            book,
            log,
            start=fleet.start,
            shares=fleet.shares,
            timeout=fleet.timeout,
            on_records=_opener(recorder) if judge is not None else _ignore,
            admission=fleet.admission,
        )
        session.workers = coordinator.measured
        async with anyio.create_task_group() as subscribers:
            if bus is None:
                log.on_commit_entries(_counter(monitor))
            else:
                await start_subscribers(subscribers, bus, monitor, recorder, judge, ())
            async with anyio.create_task_group() as helpers:
                helpers.start_soon(meters.watch, _NoWorlds())
                if console is not None:
                    limit = limit_of(fleet.admission)
                    helpers.start_soon(show_progress, monitor, console, limit)
                if fleet.admission is not None:
                    helpers.start_soon(fleet.admission.run)
                if fleet.faults is not None:
                    helpers.start_soon(fleet.faults.run, recorder)
                if judge is not None and left.unjudged:
                    helpers.start_soon(judge_unjudged, folder, left.unjudged, judge, recorder)
                await coordinator.play(fleet.handles)
                await log.flush()
                await monitor.wait_until_finished()
                helpers.cancel_scope.cancel()
            if bus is not None:
                bus.close()
    meters.stop()
    for measured in coordinator.measured:
        _add(meters, measured)
    return summed([measured.policy for measured in coordinator.measured])


@asynccontextmanager
async def _open(
    folder: Path,
    fleet: Fleet,
    link: Link | None,
    judge: Judge | None,
    *,
    resume: bool,
) -> AsyncIterator[tuple[LogWriter, LocalBus | None]]:
    """The log, and a bus where something here needs the records."""
    worlds, open_database = fleet.worlds, fleet.open_database
    if link is not None or judge is not None:
        opened = open_log_and_bus(folder, worlds, link, resume=resume, open_database=open_database)
        async with opened as (log, bus):
            yield log, bus
        return
    async with open_log(folder, resume=resume, open_database=open_database) as log:
        for world in worlds:
            log.add_scenario(world)
        yield log, None


def _opener(recorder: Recorder) -> Callable[[Sequence[EncodedRecord]], None]:
    """A function that lets verdicts follow the episodes that have ended."""

    def open_ended(records: Sequence[EncodedRecord]) -> None:
        for episode, _, seq, kind, *_ in records:
            if kind == "ended":
                recorder.open(episode, seq=seq + 1)

    return open_ended


def _ignore(_records: Sequence[EncodedRecord]) -> None:
    """Nothing here follows the records."""


def _counter(monitor: Monitor) -> Callable[[Sequence[Entry]], None]:
    def count(entries: Sequence[Entry]) -> None:
        monitor.count_encoded(entry for entry in entries if isinstance(entry, tuple))

    return count


class _NoWorlds:
    """What the coordinator hosts."""

    num_live = 0
    max_live = 0


def _add(meters: Meters, measured: Measured) -> None:
    """Add what a worker measured."""
    meters.leases.extend(floats_in(measured.leases))
    meters.calls.extend(floats_in(measured.calls))
    meters.steps.extend(floats_in(measured.steps))
    meters.lags.extend(floats_in(measured.lags))
    meters.rss_start += measured.rss_start
    meters.rss_max += measured.rss_max
    meters.live_max += measured.live_max
    meters.cpu_s += measured.cpu_s


def summed(statistics: Sequence[dict[str, float]]) -> dict[str, float]:
    """The statistics of several policies as one: counts are added; of a quantile or a maximum the
    largest is taken, of a minimum the smallest.

    Example: [{"requests": 3, "latency_max_s": 2.0}, {"requests": 4, "latency_max_s": 1.0}]
    -> {"requests": 7, "latency_max_s": 2.0}
    """
    total: dict[str, float] = {}
    for one in statistics:
        for name, value in one.items():
            known = total.get(name)
            if known is None:
                total[name] = value
            elif name.startswith("lowest_"):
                total[name] = min(known, value)
            elif name.startswith("latency_"):
                total[name] = max(known, value)
            else:
                total[name] = known + value
    return total

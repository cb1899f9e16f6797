"""One run whose episodes are played by workers: the coordinator's side of `run_session`.

It has the log, the bus, the monitor and the link to other processes, and the judge where that asks
models: budget, cache and prices are one for the run. It hosts no world and plays nothing. Without
judge and link nothing here needs the records themselves, so they are stored as they came.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from rehearsal_room.harness.fleet.assignments import AssignmentBook, UnjudgedEpisode
from rehearsal_room.harness.fleet.coordinator import Coordinator, StartWorker
from rehearsal_room.harness.fleet.messages import Measured, floats_in
from rehearsal_room.harness.fleet.process_worker import WorkerHandle
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.schema import EncodedRecord, ScenarioSnapshot
from rehearsal_room.harness.rollout.meters import Meters
from rehearsal_room.harness.rollout.remaining import Remaining
from rehearsal_room.harness.rollout.running import SessionParts, running
from rehearsal_room.harness.rollout.session import unwrapped


class Fleet(msgspec.Struct, frozen=True):
    """The workers of a run, ready to play."""

    handles: Sequence[WorkerHandle]
    worlds: Sequence[ScenarioSnapshot]  # of the scenarios that they host
    start: StartWorker  # starts one more, in place of one that died
    shares: Sequence[int]  # episodes that each plays at once; admission changes them
    timeout: float  # seconds without a heartbeat after which one is replaced
    judges: bool  # whether they judge


async def run_fleet(
    folder: Path,
    left: Remaining,
    fleet: Fleet,
    parts: SessionParts,
    *,
    meters: Meters,
    resume: bool,
    console: Console | None,
) -> dict[str, float]:
    """Play and judge what is left of a plan; return the policy's statistics, over all workers.
    `parts.judge` judges here (None: the workers do, or nobody).

    Raises LogError, BusError, ProcessError, and what failed in a worker.
    """
    unjudged = [UnjudgedEpisode(row.episode, row.attempt, seq) for row, seq in left.unjudged]
    book = AssignmentBook(left.plans, left.missing, unjudged, judged=fleet.judges)
    opened = running(
        folder,
        fleet.worlds,
        parts,
        left=left,
        judged=fleet.judges or parts.judge is not None,
        meters=meters,
        live=_NoWorlds(),
        resume=resume,
        console=console,
    )
    with unwrapped():
        async with opened as session:
            coordinator = Coordinator(
                book,
                session.log,
                start=fleet.start,
                shares=fleet.shares,
                timeout=fleet.timeout,
                on_records=_ignore if parts.judge is None else _opener(session.recorder),
                admission=parts.admission,
            )
            session.measured.workers = coordinator.measured
            await coordinator.play(fleet.handles)
    for measured in coordinator.measured:
        _add(meters, measured)
    return summed([measured.policy for measured in coordinator.measured])


def _opener(recorder: Recorder) -> Callable[[Sequence[EncodedRecord]], None]:
    """A function that lets verdicts follow the episodes that have ended."""

    def open_ended(records: Sequence[EncodedRecord]) -> None:
        for episode, _, seq, kind, *_ in records:
            if kind == "ended":
                recorder.open(episode, seq=seq + 1)

    return open_ended


def _ignore(_records: Sequence[EncodedRecord]) -> None:
    """Nothing here follows the records."""


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

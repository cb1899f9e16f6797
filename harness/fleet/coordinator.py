"""The coordinator's work with its workers: assign episodes, store what they send, replace the dead.

Invariants: at most `concurrency` episodes run, the sum of the workers' shares; where admission
adapts (harness.fleet.admission), the shares change. A record is
acknowledged when it is on disk. What a worker sent before it died is in the log, and nothing that
came later is: its episodes go on elsewhere only after its connection is closed.
"""

from collections import deque
from collections.abc import Callable, Sequence

import anyio
import structlog

from rehearsal_room.harness.admission.adaptive import AdaptiveAdmission
from rehearsal_room.harness.core.errors import ProcessError
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.fleet.admission import FleetAdmission
from rehearsal_room.harness.fleet.assignments import AssignmentBook
from rehearsal_room.harness.fleet.faults import exception_of
from rehearsal_room.harness.fleet.messages import (
    AdmissionShare,
    EpisodeAssignments,
    FromWorker,
    Heartbeat,
    Measured,
    ProcessFailed,
    ProcessReady,
    RecordBatch,
    Requests,
    SendWorlds,
    Stop,
    Stored,
    WorldSnapshots,
)
from rehearsal_room.harness.fleet.process_worker import WorkerHandle
from rehearsal_room.harness.log.schema import EncodedRecord, ScenarioSnapshot, decode_snapshot
from rehearsal_room.harness.log.writer import LogWriter
from rehearsal_room.scenarios import distribution

StartWorker = Callable[[int], WorkerHandle]  # of a number; raises OSError
MAX_DEATHS = 5  # in a row without a finished episode, after which the run ends
START_FACTOR = 10  # a worker that hosts its worlds may be silent for so many times longer
_STOP_S = 20.0  # seconds for the workers to end in
_log = structlog.get_logger(__name__)


async def start_workers(
    start: StartWorker, num_workers: int, *, silence: float
) -> tuple[list[WorkerHandle], str, list[ScenarioSnapshot]]:
    """Start workers and wait until all have hosted their worlds: the workers, the sandbox of
    untrusted code, and the snapshots of the scenarios. A worker that starts may be silent for ten
    times `silence` seconds. Raises what failed in a worker, and ProcessError where one died."""
    handles: list[WorkerHandle] = []
    levels: list[str] = []
    snapshots: list[ScenarioSnapshot] = []

    async def open_worker(handle: WorkerHandle) -> None:
        levels.append(await _wait_until_ready(handle, silence))
        if handle.number == 0:
            handle.put(SendWorlds())
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handle.send_all)
                snapshots.extend(await _worlds_of(handle, silence))
                tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for number in range(num_workers):
                handles.append(_started(start, number))
                tasks.start_soon(open_worker, handles[-1])
    except BaseException:
        for handle in handles:
            handle.end()
        raise
    return handles, levels[0] if levels else "", snapshots


def _started(start: StartWorker, number: int) -> WorkerHandle:
    try:
        return start(number)
    except OSError as exc:
        raise ProcessError(f"processes: no further process can be started: {exc}") from exc


async def _wait_until_ready(handle: WorkerHandle, silence: float) -> str:
    """Wait until a worker has hosted its worlds; return its sandbox level."""
    while not isinstance(message := await _next(handle, silence), ProcessReady):
        pass
    _require_same_version(handle, message)
    return message.level


def _require_same_version(handle: WorkerHandle, ready: ProcessReady) -> None:
    """Raise ProcessError where a worker runs another version of this project."""
    if ready.version != (here := distribution.version()):
        raise ProcessError(
            f"{handle.name} has version {ready.version or 'unknown'} of {distribution.NAME}, this "
            f"process {here}; install the same version everywhere"
        )


async def _worlds_of(handle: WorkerHandle, silence: float) -> list[ScenarioSnapshot]:
    while not isinstance(message := await _next(handle, silence), WorldSnapshots):
        pass
    return [decode_snapshot(data) for data in message.snapshots]


async def _next(handle: WorkerHandle, silence: float) -> FromWorker:
    """A worker's next message while it starts. Raises what failed in it, and ProcessError."""
    try:
        message = await handle.receive(silence * START_FACTOR)
    except (anyio.EndOfStream, TimeoutError) as exc:
        why = "closed its connection" if isinstance(exc, anyio.EndOfStream) else "was silent"
        raise ProcessError(
            f"{handle.name} {why} before its first episode ({handle.end()}); what it wrote to "
            "standard error says more"
        ) from exc
    if isinstance(message, ProcessFailed):
        raise exception_of(message)
    return message


class Coordinator:
    """Plays the episodes of a book with workers that are ready. `play` is its work."""

    def __init__(
        self,
        book: AssignmentBook,
        log: LogWriter,
        *,
        start: StartWorker,
        shares: Sequence[int],
        timeout: float,
        on_records: Callable[[Sequence[EncodedRecord]], None],
        admission: AdaptiveAdmission | None = None,
    ) -> None:
        """`shares` are the episodes that each worker plays at once, `timeout` the seconds without a
        heartbeat after which it is replaced. `on_records` is called with records before they are
        appended. `admission` changes the shares (None: they stay)."""
        self._book = book
        self._log = log
        self._start = start
        self._shares = list(shares)
        self._timeout = timeout
        self._on_records = on_records
        self._admission: FleetAdmission | None = None
        if admission is not None:
            self._admission = FleetAdmission(
                admission, len(shares), self._send_share, self._wants_to_play
            )
            self._shares = list(self._admission.shares)
        self.measured: list[Measured] = []  # of the workers that ended in order
        self._live: dict[int, _Live] = {}
        self._num_deaths = 0  # in a row
        self._finished = anyio.Event()
        self._stopping: Stop | None = None
        log.on_commit_entries(lambda _: self._acknowledge())

    async def play(self, handles: Sequence[WorkerHandle]) -> None:
        """Return when every episode of the book is finished and the workers have ended.

        When it is cancelled, or one worker fails, the episodes of all are cancelled and their
        endings reach the log. Raises what failed in a worker, ProcessError and LogError.
        """
        if not self._book.num_left:
            self._finished.set()
        async with anyio.create_task_group() as tasks:
            try:
                for handle in handles:
                    tasks.start_soon(self._keep, handle)
                await self._finished.wait()
                self._stop(Stop())
            except BaseException:
                self._stop(Stop(cancel=True))
                raise

    def _stop(self, stop: Stop) -> None:
        self._stopping = stop
        for live in self._live.values():
            live.stop(stop)
            # One that is not ready has no episode; it may wait long for a machine. Where the log
            # has failed, they would wait until their records are on disk.
            if self._log.failed or not live.is_ready:
                live.scope.cancel()

    async def _keep(self, handle: WorkerHandle) -> None:
        """Serve a worker, and those that replace it, until the run stops."""
        with anyio.CancelScope(shield=True):  # a cancelled run still takes the last records
            is_ready = True
            while True:
                why = await self._serve(handle, is_ready=is_ready)
                if not why or self._stopping is not None:
                    return
                await self._lose(handle, why)
                if self._stopping is not None:
                    return
                handle, is_ready = _started(self._start, handle.number), False

    async def _serve(self, handle: WorkerHandle, *, is_ready: bool) -> str:
        """Handle a worker's messages until it ends; return why it died (empty: it did not)."""
        live = self._live[handle.number] = _Live(handle, is_ready=is_ready)
        if self._stopping is not None:
            live.stop(self._stopping)
        why = "it did not end in time"
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(handle.send_all)
                with live.scope:
                    why = await self._receive(live)
                tasks.cancel_scope.cancel()
        finally:
            del self._live[handle.number]
            how = handle.end()
        return f"{why} ({how})" if why else ""

    async def _receive(self, live: "_Live") -> str:
        handle = live.handle
        if self._admission is not None:
            handle.put(AdmissionShare(self._shares[handle.number]))
        self._fill(live)
        while True:
            try:
                message = await handle.receive(self._timeout)
            except anyio.EndOfStream:
                return "it has ended"
            except TimeoutError:
                return f"no heartbeat for {self._timeout:g} s"
            match message:
                case RecordBatch(number, records):
                    await self._store(live, number, records)
                case Requests():
                    if self._admission is not None:
                        self._admission.take(handle.number, message)
                case ProcessReady():
                    _require_same_version(handle, message)
                    live.is_ready = True
                    self._fill(live)
                case Heartbeat() | WorldSnapshots():
                    pass
                case Measured():
                    self.measured.append(message)
                    return ""
                case ProcessFailed():
                    raise exception_of(message)

    async def _store(self, live: "_Live", number: int, records: list[EncodedRecord]) -> None:
        num_finished = self._book.num_finished
        self._on_records(records)
        self._book.note(records)
        live.unstored.append((self._log.append_encoded(records), number))
        if self._book.num_finished > num_finished:
            self._num_deaths = 0
        if not self._book.num_left:
            self._finished.set()
        self._fill(live)
        if self._admission is not None:
            self._admission.share_out()
        await self._log.wait_for_room()

    def _fill(self, live: "_Live") -> None:
        """Assign what the worker has room for: as many again as it plays at once, so that it need
        not wait for the next, or several times as many (`ahead`), but then at most half of its part
        of what is left: all shall end together. One that still hosts its worlds gets none: others
        may be sooner."""
        if self._stopping is not None or not live.is_ready:
            return
        number = live.handle.number
        share = self._shares[number]
        part = self._book.num_waiting // (2 * len(self._shares))
        ahead = min(live.handle.ahead * share, max(share, part))
        room = share + ahead - self._book.count_leased(number)
        assignments = self._book.take(number, room) if room > 0 else []
        if assignments:
            live.handle.put(EpisodeAssignments(assignments))

    def _wants_to_play(self, number: int) -> bool:
        """Whether a worker has an episode, or could have one."""
        return self._book.has_work(number) or self._book.num_waiting > 0

    def _send_share(self, number: int, share: int) -> None:
        """Admission gives a worker another share."""
        self._shares[number] = share
        if (live := self._live.get(number)) is not None:
            live.handle.put(AdmissionShare(share))
            self._fill(live)

    def _acknowledge(self) -> None:
        """Report to the workers what is on disk."""
        for live in self._live.values():
            number = 0
            while live.unstored and live.unstored[0][0] <= self._log.durable:
                number = live.unstored.popleft()[1]
            if number:
                live.handle.put(Stored(number))

    async def _lose(self, handle: WorkerHandle, why: str) -> None:
        """A worker died: assign its episodes to others. Raises ProcessError where this goes on and
        on, and LogError."""
        # Before its episodes are assigned again, which any worker's message may bring about: the
        # next attempt reads the turns that it keeps.
        await self._log.flush()
        num_lost = self._book.lose(handle.number)
        if self._admission is not None:
            self._admission.lose(handle.number)
        self._num_deaths += 1
        _log.warning(
            "rollout_process_replaced", process=handle.name, why=why, unfinished_episodes=num_lost
        )
        if self._num_deaths >= MAX_DEATHS:
            raise ProcessError(
                f"rollout processes died {plural(self._num_deaths, 'time')} in a row without "
                f"finishing an episode; the last was {handle.name}: {why}"
            )
        for live in self._live.values():
            self._fill(live)
        if self._admission is not None:
            self._admission.share_out()


class _Live:
    """A worker that is served."""

    def __init__(self, handle: WorkerHandle, *, is_ready: bool) -> None:
        self.handle = handle
        self.is_ready = is_ready  # whether it has hosted its worlds
        self.scope = anyio.CancelScope()
        self.unstored: deque[tuple[int, int]] = deque()  # (position in the log, batch)

    def stop(self, stop: Stop) -> None:
        """Make the worker end, soon."""
        self.handle.put(stop)
        self.scope.deadline = anyio.current_time() + _STOP_S

"""A copy of a run on another machine, made over a broker while the run is played.

    <copy>/run.toml            the run's own
    <copy>/episodes.sqlite     its log: the same records, in an order in which the records of each
                               episode, and the starts of all episodes, are as in the run's
    <copy>/copied.json         how far it has got

It begins with the run's first record, whenever it is made, and goes on where it had got: a record
that it has already is known by its (episode, attempt, seq). It ends with the run. Until then the
copy's log has a writer, so that a follower of it (harness.bus.log_follower) follows the run.

The run's process waits at its end for a copy that is cut off or killed (harness.bus.mqtt_awaited).
For that copied.json has the copy's id and the number of its followers before a follower begins.
"""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import msgspec
import structlog

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.local import DEPTH, KINDS
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_parts import part_of
from rehearsal_room.harness.bus.mqtt_runs import status_of
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import RUN_TOML, START, Presence, RunStatus
from rehearsal_room.harness.core.errors import BusError, LogError
from rehearsal_room.harness.core.events import Ending, EpisodeStarted, Record
from rehearsal_room.harness.following.copied import Copied, read_copied, write_copied
from rehearsal_room.harness.log.reader import open_reader
from rehearsal_room.harness.log.schema import decode_snapshot, write_atomically
from rehearsal_room.harness.log.writer import LogWriter, open_log
from rehearsal_room.harness.settings.run import log_id_of
from rehearsal_room.scenarios.files import UNREADABLE

_WAIT_S = 2.0  # between two looks for a run that was interrupted
_SAVE_S = 1.0  # seconds between two notes of how far the copy has got
_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_copy(
    settings: MqttSettings, status: RunStatus, folder: Path, *, is_lasting: bool = True
) -> AsyncIterator[None]:
    """Copy the run with this status from a broker into a folder, in the background, until all its
    episodes have ended or the block is left. The block begins when the copy's log can be read.
    `is_lasting`: the folder stays when this process has ended, so that the copying can go on.

    Raises BusError, SettingsError and LogError: also for a folder that has another run.
    """
    copied = await _begin(settings, status, folder)
    async with OwnedTasks() as tasks:
        await tasks.start(_copy, settings, status, folder, copied, is_lasting)
        yield


async def _begin(settings: MqttSettings, status: RunStatus, folder: Path) -> Copied:
    """Make the folder, or check that it has a copy of this run; return how far that is."""
    copied, run_toml = read_copied(folder), folder / RUN_TOML
    if copied is not None and copied.log != status.log:
        raise LogError(
            f"{folder}: has a copy of another run (log {copied.log}); run {status.run!r} on"
            f" {broker_of(settings)} has log {status.log}; choose another folder"
        )
    try:
        if not run_toml.is_file():
            _write(run_toml, await part_of(settings, status, RUN_TOML))
        elif log_id_of(run_toml) != status.log:
            raise LogError(f"{folder}: has another run than {status.run!r}; choose another folder")
    except OSError as exc:
        raise LogError(f"{folder}: the copy cannot be written: {exc}") from exc
    copied = copied or Copied(status.run, status.log, START)
    return msgspec.structs.replace(
        copied, episodes=status.episodes, copy=copied.copy or secrets.token_hex(8)
    )


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


async def _copy(
    settings: MqttSettings,
    status: RunStatus,
    folder: Path,
    copied: Copied,
    is_lasting: bool,
    *,
    task_status: anyio.abc.TaskStatus[None],
) -> None:
    async with open_log(folder, resume=True) as log:
        copying = _Copying(settings, status, folder, log, copied, is_lasting)
        task_status.started()
        await copying.follow()
        while not copying.is_complete():
            _log.warning("run_interrupted", run=status.run, waits=True)
            await copying.wait_until_played()
            await copying.follow()


class _Copying:
    """The state of one copying."""

    def __init__(
        self,
        settings: MqttSettings,
        status: RunStatus,
        folder: Path,
        log: LogWriter,
        copied: Copied,
        is_lasting: bool,
    ) -> None:
        self._settings, self._status, self._have = settings, status, copied.have
        self._folder, self._log = folder, log
        self._copied, self._is_lasting = copied, is_lasting
        self._ended = status  # the run's, when it was left
        with open_reader(folder) as reader:
            # How many records of each attempt are here already; they come in order.
            self._lengths = reader.lengths()
            self._scenarios = set(reader.scenarios())

    async def follow(self) -> None:
        """Copy until the run has ended, or was interrupted."""
        settings, status = self._settings, self._status
        self._copied = msgspec.structs.replace(self._copied, lives=self._copied.lives + 1)
        await self._save()
        presence = Presence(self._copied.copy, self._copied.lives)
        follower = Follower(
            broker_of(settings),
            settings,
            status.run,
            kinds=KINDS,
            depth=DEPTH,
            have=(status.log, self._have),
            presence=presence if self._is_lasting else None,
        )
        async with OwnedTasks() as tasks:
            await tasks.start(follower.run)
            try:
                await self._receive_all(follower)
            except BusError:  # its process ended before this follower had all
                if not _is_interrupted(follower.status):
                    raise
            finally:
                await follower.leave()
        self._ended = follower.status or self._ended
        await self._save()

    async def wait_until_played(self) -> None:
        """Return when the run is played again, or has been."""
        while True:
            await anyio.sleep(_WAIT_S)
            with suppress(BusError):  # the broker is away, or does not know the run yet
                status = await status_of(self._settings, self._status.run)
                self._check(status)
                if status.state == "live" or status.heads != self._ended.heads:
                    return

    def is_complete(self) -> bool:
        """Whether every planned episode has ended here, and has its verdict where it gets one."""
        with open_reader(self._folder) as reader:
            rows = reader.episodes()
        is_judged = _is_judged(self._status)
        done = [
            row.judge is not None if is_judged else row.ending not in (None, Ending.CANCELLED)
            for row in rows
        ]
        return sum(done) >= self._status.episodes

    async def _receive_all(self, follower: Follower) -> None:
        saved = anyio.current_time()
        while True:
            try:
                records = await follower.receive()
            except anyio.EndOfStream:
                break
            self._have = follower.have(self._status.log)
            if follower.status is not None:
                self._check(follower.status)
            await self._append(records)
            if anyio.current_time() - saved > _SAVE_S:
                await self._save()
                saved = anyio.current_time()
        self._have = follower.have(self._status.log)

    def _check(self, status: RunStatus) -> None:
        if status.log != self._status.log:
            raise LogError(
                f"{self._folder}: another run has begun under the name {self._status.run!r}"
            )

    async def _append(self, records: Sequence[Record]) -> None:
        for record in records:
            key = (record.episode, record.attempt)
            if record.seq < self._lengths.get(key, 0):
                continue
            if isinstance(record.event, EpisodeStarted):
                await self._add_scenario(record.event.scenario_digest)
            self._lengths[key] = record.seq + 1
            self._log.append(record)
        await self._log.wait_for_room()

    async def _add_scenario(self, digest: str) -> None:
        """Get the scenario of an episode before its first record is in the log."""
        if digest not in self._scenarios:
            data = await part_of(self._settings, self._status, digest)
            try:
                self._log.add_scenario(decode_snapshot(data))
            except UNREADABLE as exc:
                raise BusError(f"scenario {digest} of run {self._status.run!r}: {exc}") from exc
            self._scenarios.add(digest)

    async def _save(self) -> None:
        """Note how far the copy has got, once all of it is on disk."""
        await self._log.flush()
        self._copied = msgspec.structs.replace(self._copied, have=self._have)
        write_copied(self._folder, self._copied)


def _is_interrupted(status: RunStatus | None) -> bool:
    """Whether a run that has ended left out episodes or verdicts, so that it may be resumed."""
    if status is None:
        return False
    kind = "judged" if _is_judged(status) else "ended"
    return status.counts.get(kind, 0) < status.episodes


def _is_judged(status: RunStatus) -> bool:
    """Whether each episode of a run gets a verdict while it is played."""
    return status.judge not in ("", "none")
